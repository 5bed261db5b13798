/** The signature parser against arbitrary input. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VerificationError } from "#lib/receiver/errors.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { verify, type VerifyInput } from "#lib/receiver/verify.ts";
import { cases } from "#test/support/properties.ts";

const NOW_SECONDS = 1_763_650_000;
const ID = "evt_01k9x3c5a8w2d4f6h7j8k9mnpq";
const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
const body = Buffer.from(JSON.stringify({ id: ID, sent_at: NOW_SECONDS, data: { run: 7 } }));
const signatures = signDelivery({ secret, body, id: ID, timestampSeconds: NOW_SECONDS });

/** Headers in the sender's spelling. */
const SIGNED: Readonly<Record<string, string>> = {
  "X-Service-Signature-256": signatures.sha256,
  "X-Service-Timestamp": String(NOW_SECONDS),
  "X-Service-Event-Id": ID,
  "webhook-id": ID,
  "webhook-timestamp": String(NOW_SECONDS),
  "webhook-signature": signatures.v1,
};
const NAMES = [...Object.keys(SIGNED), "X-Service-Signature-256-Alt"];
const STANDARD = new Set(["webhook-id", "webhook-timestamp", "webhook-signature"]);

function inputOf(headers: VerifyInput["headers"], rawBody: Uint8Array = body): VerifyInput {
  return { rawBody, headers, secrets: [secret], now: NOW_SECONDS * 1_000 };
}

/** Returns true when accepted; anything thrown except a rejection is a bug. */
function accepts(input: VerifyInput): boolean {
  try {
    verify(input);
    return true;
  } catch (error) {
    if (!(error instanceof VerificationError)) {
      throw error;
    }
    return false;
  }
}

/** Values near the expected one, and any others. */
const values = fc.oneof(
  fc.string({ unit: "binary", maxLength: 200 }),
  fc.constantFrom(
    ...Object.values(SIGNED),
    "",
    "0",
    "-0",
    "1e3",
    "v1,",
    "v1a,x",
    "sha256=",
    " ",
    "__proto__",
  ),
  fc
    .tuple(fc.constantFrom(...Object.values(SIGNED)), fc.nat(100), fc.string({ maxLength: 3 }))
    .map(([value, at, text]) => value.slice(0, at) + text + value.slice(at)),
  fc.constantFrom(...Object.values(SIGNED)).map((value) => value.slice(0, -1)),
);

const anyHeaders = fc.dictionary(
  fc.oneof(fc.constantFrom(...NAMES, ...NAMES.map((name) => name.toLowerCase()), "get"), fc.string()),
  fc.oneof(values, fc.array(values, { maxLength: 3 }), fc.constant(undefined)),
);

describe("verify", () => {
  it("throws only VerificationError for any headers and any body", () => {
    fc.assert(
      fc.property(anyHeaders, fc.uint8Array({ maxLength: 64 }), (headers, rawBody) => {
        // A function under the name `get` would make it Fetch headers; a text does not.
        expect(accepts(inputOf(headers, rawBody))).toBe(false);
      }),
      cases(400),
    );
  });

  it("throws only VerificationError for valid headers with any of them replaced", () => {
    fc.assert(
      fc.property(anyHeaders, (headers) => {
        accepts(inputOf({ ...SIGNED, ...headers }));
      }),
      cases(400),
    );
  });

  it("throws only VerificationError for signed bodies of any JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = Buffer.from(JSON.stringify(value));
        const { sha256 } = signDelivery({ secret, body: text, id: ID, timestampSeconds: NOW_SECONDS });
        accepts(
          inputOf({ "X-Service-Signature-256": sha256, "X-Service-Timestamp": String(NOW_SECONDS) }, text),
        );
      }),
    );
  });

  it.each([
    ["all headers", Object.keys(SIGNED)],
    ["the webhook headers alone", Object.keys(SIGNED).filter((name) => STANDARD.has(name))],
    ["the sha256 headers alone", Object.keys(SIGNED).filter((name) => !STANDARD.has(name))],
  ])("accepts no request with a changed bit in a header: %s", (_name, names) => {
    const headers = Object.fromEntries(names.map((name) => [name, SIGNED[name] ?? ""]));
    expect(accepts(inputOf(headers))).toBe(true);
    // All headers together hold two signatures, and one suffices: the other covers a changed one.
    const coveredByTheOther = new Set(
      names.length === NAMES.length - 1 ? ["X-Service-Signature-256", "webhook-signature"] : [],
    );
    for (const name of names.filter((one) => !coveredByTheOther.has(one))) {
      const value = Buffer.from(headers[name] ?? "");
      for (let bit = 0; bit < value.length * 8; bit += 1) {
        const changed = Buffer.from(value);
        changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        const text = changed.toString("latin1");
        expect(accepts(inputOf({ ...headers, [name]: text })), `${name}: ${text}`).toBe(false);
      }
    }
  });

  it("accepts no body with a changed bit", () => {
    for (let bit = 0; bit < body.length * 8; bit += 1) {
      const changed = Buffer.from(body);
      changed[bit >> 3] = (changed[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(accepts(inputOf(SIGNED, changed)), `bit ${bit}`).toBe(false);
    }
  });
});
