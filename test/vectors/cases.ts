/**
 * The contents of `webhook-signatures.json`: signed payloads and the required answers of a receiver. Everything is
 * deterministic, so that the file can be compared with its generator.
 *
 * Only `node:crypto` signs: an implementation that generated its own vectors would agree with itself.
 */
import { createHmac, createPrivateKey, createPublicKey, sign } from "node:crypto";
import {
  accepted,
  BODY,
  bodyOf,
  CURRENT,
  type Draft,
  FOREIGN,
  type Headers,
  headersOf,
  ID,
  malformed,
  NEXT,
  NO_SHA256,
  NO_STANDARD,
  NOW,
  OTHER_ID,
  refused,
  sha256Of,
  v1Of,
  type Vector,
  vector,
  type VectorFile,
} from "./draft.ts";

function ordinary(): Vector[] {
  const names = Object.entries(headersOf(BODY));
  return [
    accepted("a delivery", { headers: headersOf(BODY) }),
    accepted("only the sha256 headers", { headers: headersOf(BODY, NO_STANDARD) }, "sha256"),
    accepted("only the webhook headers", { headers: headersOf(BODY, NO_SHA256) }),
    accepted("header names in lower case", {
      headers: Object.fromEntries(names.map(([name, value]) => [name.toLowerCase(), value])),
    }),
    accepted("header names in upper case", {
      headers: Object.fromEntries(names.map(([name, value]) => [name.toUpperCase(), value])),
    }),
    accepted("a wrong sha256 signature beside a right v1", {
      why: "Any signature by one of the secrets will do, and v1 says more than sha256.",
      headers: headersOf(BODY, { "X-Service-Signature-256": sha256Of(FOREIGN, BODY) }),
    }),
    accepted(
      "a wrong v1 signature beside a right sha256",
      { headers: headersOf(BODY, { "webhook-signature": v1Of(FOREIGN, BODY) }) },
      "sha256",
    ),
    refused("a wrong signature", "SIGNATURE_INVALID", { headers: headersOf(BODY, {}, { secret: FOREIGN }) }),
    refused("another body", "SIGNATURE_INVALID", { body: bodyOf('{"run":8}'), headers: headersOf(BODY) }),
    refused("a newline after the body", "SIGNATURE_INVALID", {
      body: Buffer.concat([BODY, Buffer.from("\n")]),
      headers: headersOf(BODY),
    }),
    refused("no body", "SIGNATURE_INVALID", { body: Buffer.alloc(0), headers: headersOf(BODY) }),
    refused("the signatures of sha256 and v1 made with each other's key", "SIGNATURE_INVALID", {
      headers: headersOf(BODY, {
        "X-Service-Signature-256": `sha256=${createHmac("sha256", Buffer.from(CURRENT.slice(6), "base64"))
          .update(BODY)
          .digest("hex")}`,
        "webhook-signature": `v1,${createHmac("sha256", CURRENT).update(`${ID}.${NOW}.`).update(BODY).digest("base64")}`,
      }),
    }),
  ];
}

/** Bodies that a JSON library would write differently. */
function spellings(): Vector[] {
  const unusual = bodyOf('{"z":1.0,"a":1152921504606846976,"e":1E2,"u":"\\u00e9é😀","s":"\\/"}');
  const rewritten = bodyOf('{"z":1,"a":1152921504606846976,"e":100,"u":"éé😀","s":"/"}');
  const spaced = Buffer.from(`{ "id" : "${ID}",\t"sent_at" : ${NOW}, "data" : { } }\r\n`);
  const notJson = Buffer.from([0xff, 0xfe, 0x7b]);
  const marked = Buffer.concat([Buffer.from("\ufeff"), BODY]);
  return [
    accepted("1.0, 2^60, 1E2, escapes and raw characters in the body", {
      body: unusual,
      headers: headersOf(unusual),
    }),
    accepted("white space in the body", { body: spaced, headers: headersOf(spaced) }),
    accepted("sent_at spelled as 1763650000.0", {
      body: bodyOf("{}", { sentAt: `${NOW}.0` }),
      headers: headersOf(bodyOf("{}", { sentAt: `${NOW}.0` })),
    }),
    accepted("a byte order mark before the body", { body: marked, headers: headersOf(marked) }),
    accepted(
      "a byte order mark before the body under sha256",
      {
        why: "A parser may ignore it (RFC 8259 section 8.1). The signatures cover it.",
        body: marked,
        headers: headersOf(marked, NO_STANDARD),
      },
      "sha256",
    ),
    accepted("v1 over bytes that are no JSON", { body: notJson, headers: headersOf(notJson) }),
    refused("a body that was parsed and written again", "SIGNATURE_INVALID", {
      why: "Verify the bytes that came, never a body that your framework has parsed.",
      body: rewritten,
      headers: headersOf(unusual),
    }),
    refused("sha256 over bytes that are no JSON", "TIMESTAMP_MISMATCH", {
      why: "sha256 does not cover the time: without sent_at in the body nobody knows when it was signed.",
      body: notJson,
      headers: headersOf(notJson, NO_STANDARD),
    }),
  ];
}

/** Creates a delivery signed `offset` seconds from the receiver's clock. */
function shifted(offset: number): Draft {
  const timestamp = String(NOW + offset);
  const body = bodyOf("{}", { sentAt: timestamp });
  return { body, headers: headersOf(body, {}, { timestamp }) };
}

function times(): Vector[] {
  const fresh = String(NOW);
  const old = bodyOf("{}", { sentAt: String(NOW - 3_600) });
  const without = Buffer.from(`{"id":"${ID}"}`);
  const text = bodyOf("{}", { sentAt: `"${NOW}"` });
  return [
    accepted("300 s old", shifted(-300)),
    refused("301 s old", "PAYLOAD_EXPIRED", shifted(-301)),
    accepted("60 s ahead", shifted(60)),
    refused("61 s ahead", "TIMESTAMP_MISMATCH", shifted(61)),
    refused("a year old", "PAYLOAD_EXPIRED", shifted(-31_536_000)),
    refused("an old delivery with a fresh time in the header", "TIMESTAMP_MISMATCH", {
      why: "sha256 covers the body alone: whoever has seen one delivery can put a new time beside it.",
      body: old,
      headers: headersOf(old, { ...NO_STANDARD, "X-Service-Timestamp": fresh }),
    }),
    refused("an old delivery with fresh times in all headers", "TIMESTAMP_MISMATCH", {
      why: "v1 does not match any more, and sha256 does not cover the headers.",
      body: old,
      headers: {
        ...headersOf(old, {}, { timestamp: fresh }),
        "webhook-signature": v1Of(CURRENT, old, { timestamp: String(NOW - 3_600) }),
      },
    }),
    refused("two times that differ", "TIMESTAMP_MISMATCH", {
      headers: headersOf(BODY, { "X-Service-Timestamp": String(NOW - 1) }),
    }),
    refused("no sent_at under sha256", "TIMESTAMP_MISMATCH", {
      body: without,
      headers: headersOf(without, NO_STANDARD),
    }),
    accepted("no sent_at under v1", { body: without, headers: headersOf(without) }),
    refused("sent_at is text", "TIMESTAMP_MISMATCH", { body: text, headers: headersOf(text) }),
  ];
}

function ids(): Vector[] {
  const other = bodyOf("{}", { id: OTHER_ID });
  const without = Buffer.from(`{"sent_at":${NOW}}`);
  return [
    refused("another X-Service-Event-Id", "ID_MISMATCH", {
      why: "Whoever repeats a delivery changes the id that receivers drop repetitions by.",
      headers: headersOf(BODY, { "X-Service-Event-Id": OTHER_ID }),
    }),
    refused("another webhook-id under sha256", "ID_MISMATCH", {
      headers: headersOf(BODY, { "webhook-id": OTHER_ID }),
    }),
    accepted("the id under v1 is the one in the header", { body: other, headers: headersOf(other) }),
    accepted(
      "the id under sha256 is the one in the body",
      {
        body: other,
        headers: headersOf(other, { ...NO_STANDARD, "X-Service-Event-Id": undefined }),
      },
      "sha256",
      OTHER_ID,
    ),
    accepted(
      "no id in the body under sha256",
      { body: without, headers: headersOf(without, NO_STANDARD) },
      "sha256",
      null,
    ),
  ];
}

function rotation(): Vector[] {
  const both = headersOf(BODY, {
    "X-Service-Signature-256-Alt": sha256Of(NEXT, BODY),
    "webhook-signature": `${v1Of(CURRENT, BODY)} ${v1Of(NEXT, BODY)}`,
  });
  const only = { ...both, ...NO_STANDARD };
  const v1 = v1Of(CURRENT, BODY);
  return [
    accepted("rotation: the receiver has the current secret", { headers: both }),
    accepted("rotation: the receiver has the next secret", { secrets: [NEXT], headers: both }),
    accepted("rotation: the receiver has both", { secrets: [NEXT, CURRENT], headers: both }),
    accepted("rotation: sha256 alone, the next secret", { secrets: [NEXT], headers: only }, "sha256"),
    refused("rotation: the receiver has neither", "SIGNATURE_INVALID", { secrets: [FOREIGN], headers: both }),
    accepted("a signature of another version is skipped", {
      headers: headersOf(BODY, { "webhook-signature": `v9,opaque ${v1}` }),
    }),
    refused("only signatures of another version", "SIGNATURE_INVALID", {
      headers: headersOf(BODY, { ...NO_SHA256, "webhook-signature": "v9,opaque" }),
    }),
    accepted("16 signatures", {
      headers: headersOf(BODY, {
        "webhook-signature": [...Array.from({ length: 15 }, () => v1Of(FOREIGN, BODY)), v1].join(" "),
      }),
    }),
    malformed("17 signatures", { "webhook-signature": Array.from({ length: 17 }, () => v1).join(" ") }),
  ];
}

function formats(): Vector[] {
  const sha256 = sha256Of(CURRENT, BODY);
  const v1 = v1Of(CURRENT, BODY);
  const now = String(NOW);
  const signature = (value: string | readonly string[] | undefined): Headers => ({
    "X-Service-Signature-256": value,
  });
  const time = (value: string | readonly string[] | undefined): Headers => ({ "X-Service-Timestamp": value });
  return [
    malformed("no signature at all", {
      "X-Service-Signature-256": undefined,
      "webhook-signature": undefined,
    }),
    malformed("no headers at all", { ...NO_SHA256, ...NO_STANDARD }),
    malformed("a truncated sha256 signature", signature(sha256.slice(0, 20)), "CVE-2024-21491 in small."),
    malformed("an empty sha256 signature", signature("sha256=")),
    malformed("sha256 in upper-case digits", signature(`sha256=${sha256.slice(7).toUpperCase()}`)),
    malformed("sha256 without its name", signature(sha256.slice(7))),
    malformed("a digit too many", signature(`${sha256}0`)),
    malformed("the signature header twice", signature([sha256, sha256])),
    malformed("two signatures joined by a comma", signature(`${sha256}, ${sha256}`)),
    malformed("the signature header in two spellings", { "x-service-signature-256": sha256 }),
    malformed("only the alternative signature", {
      ...signature(undefined),
      "X-Service-Signature-256-Alt": sha256,
    }),
    malformed("a truncated v1 signature", { "webhook-signature": v1.slice(0, 20) }, "CVE-2024-21491."),
    malformed("an empty v1 signature", { "webhook-signature": "v1," }),
    malformed("v1 without padding", { "webhook-signature": v1.slice(0, -1) }),
    malformed("v1 in the URL's alphabet", { "webhook-signature": `v1,${"-_".repeat(21)}-=` }),
    malformed("two spaces between signatures", { "webhook-signature": `${v1}  ${v1}` }),
    malformed("signatures joined by a comma", { "webhook-signature": `${v1},${v1}` }),
    malformed("the webhook-signature header twice", { "webhook-signature": [v1, v1] }),
    malformed("no webhook-id", { "webhook-id": undefined }),
    malformed("a dot in webhook-id", { "webhook-id": "evt.1" }, "The dot separates what is signed."),
    malformed("no webhook-timestamp", { "webhook-timestamp": undefined }),
    malformed("no X-Service-Timestamp", time(undefined)),
    malformed("the timestamp twice", time([now, now])),
    malformed("letters behind the timestamp", time(`${now}junk`)),
    malformed("a zero before the timestamp", time(`0${now}`)),
    malformed("a sign before the timestamp", time(`+${now}`)),
    malformed("a fraction behind the timestamp", time(`${now}.0`)),
    malformed("an exponent as timestamp", time("1e9")),
    malformed("a timestamp of 13 digits", time(`${now}000`)),
    malformed("an empty X-Service-Event-Id", { "X-Service-Event-Id": "" }),
    malformed("X-Service-Event-Id twice", { "X-Service-Event-Id": [ID, ID] }),
  ];
}

/** Points that are no public keys: name, y coordinate, sign of x (RFC 8032 section 5.1.2). */
const PRIME = 2n ** 255n - 19n;
const EIGHTH = 0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n;
const WEAK_POINTS: readonly (readonly [name: string, y: bigint, sign: bigint])[] = [
  ["the point of order 1", 1n, 0n],
  ["the point of order 2", PRIME - 1n, 0n],
  ["a point of order 4", 0n, 1n],
  ["a point of order 8", EIGHTH, 0n],
  ["another point of order 8", PRIME - EIGHTH, 1n],
  ["the point of order 1 in another spelling", PRIME + 1n, 0n],
];

function pointOf(y: bigint, sign: bigint): string {
  const bytes = Buffer.from((y + sign * 2n ** 255n).toString(16).padStart(64, "0"), "hex").toReversed();
  return `whpk_${Buffer.from(bytes).toString("base64")}`;
}

function asymmetric(): Vector[] {
  const seed = Buffer.from(Array.from({ length: 32 }, (_, index) => index));
  const privateKey = createPrivateKey({
    key: Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), seed]),
    format: "der",
    type: "pkcs8",
  });
  const raw = createPublicKey(privateKey).export({ format: "der", type: "spki" }).subarray(-32);
  const publicKey = `whpk_${raw.toString("base64")}`;
  const message = Buffer.concat([Buffer.from(`${ID}.${NOW}.`), BODY]);
  const v1a = `v1a,${sign(null, message, privateKey).toString("base64")}`;
  const both = headersOf(BODY, { "webhook-signature": `${v1Of(CURRENT, BODY)} ${v1a}` });
  const vectors = [
    vector(
      "Ed25519: the receiver has the public key",
      { secrets: [publicKey], headers: both },
      { result: "accepted", id: ID, scheme: "v1a" },
    ),
    accepted("Ed25519: the receiver has the secret", { headers: both }),
    refused("Ed25519: another body", "SIGNATURE_INVALID", {
      secrets: [publicKey],
      body: bodyOf("{}"),
      headers: headersOf(bodyOf("{}"), { "webhook-signature": v1a }),
    }),
    refused("Ed25519: the receiver has a public key and the request no v1a", "SIGNATURE_INVALID", {
      secrets: [publicKey],
      headers: headersOf(BODY),
    }),
    refused("Ed25519: a truncated signature", "SIGNATURE_INVALID", {
      secrets: [publicKey],
      headers: headersOf(BODY, { "webhook-signature": v1a.slice(0, 40) }),
    }),
    vector(
      "Ed25519: a public key with a character cut off",
      { secrets: [publicKey.slice(0, -1)], headers: both },
      { result: "misconfigured" },
    ),
    ...WEAK_POINTS.map(([name, y, sign]) =>
      vector(
        `Ed25519: ${name} as the public key`,
        { why: "It has a signature that holds for any text.", secrets: [pointOf(y, sign)], headers: both },
        { result: "misconfigured" },
      ),
    ),
  ];
  return vectors.map((one) => ({ ...one, algorithm: "ed25519" }));
}

function mistakes(): Vector[] {
  const draft = { headers: headersOf(BODY) };
  const cases: readonly (readonly [string, readonly string[]])[] = [
    ["no secret", []],
    ["an empty secret", [""]],
    ["a secret without whsec_", [CURRENT.slice(6)]],
    ["a secret of 23 bytes", [`whsec_${Buffer.alloc(23, 1).toString("base64")}`]],
    ["a secret of 65 bytes", [`whsec_${Buffer.alloc(65, 1).toString("base64")}`]],
    ["a secret with a character cut off", [CURRENT.slice(0, -1)]],
  ];
  return cases.map(([name, secrets]) => vector(name, { ...draft, secrets }, { result: "misconfigured" }));
}

export function webhookSignatures(): VectorFile {
  return {
    $schema: "./webhook-signatures.schema.json",
    about:
      "Signed payloads, and what a receiver of Signet's webhooks says to each. See README.md beside this file.",
    tolerance_seconds: 300,
    future_seconds: 60,
    vectors: [
      ...ordinary(),
      ...spellings(),
      ...times(),
      ...ids(),
      ...rotation(),
      ...formats(),
      ...asymmetric(),
      ...mistakes(),
    ],
  };
}
