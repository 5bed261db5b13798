/** The client of status lists: what it accepts, how long it uses it, and that it fails closed. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { deflateSync } from "node:zlib";
import { beforeEach, describe, expect, test } from "vitest";
import { StatusListClient, StatusListError } from "#lib/status-list/index.ts";

const ISSUER = "https://issuer.example";
const URI = `${ISSUER}/.well-known/status-lists/stl_1`;
const NOW = 1_800_000_000;
const KINDS = {
  ES256: generateKeyPairSync("ec", { namedCurve: "P-256" }),
  RS256: generateKeyPairSync("rsa", { modulusLength: 2_048 }),
  Ed25519: generateKeyPairSync("ed25519"),
} as const;

type Alg = keyof typeof KINDS;

let nowMs: number;
let requests: string[];
let answers: Map<string, () => Response>;
beforeEach(() => {
  nowMs = NOW * 1_000;
  requests = [];
  const keys = Object.entries(KINDS).map(([alg, { publicKey }]) => ({
    ...publicKey.export({ format: "jwk" }),
    kid: alg,
    alg,
  }));
  answers = new Map([[`${ISSUER}/.well-known/jwks.json`, () => Response.json({ keys })]]);
});

const part = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

/** Signs a list in which the first places have these bits. */
function listOf(
  bits: readonly number[],
  claims: object = {},
  header: object = {},
  alg: Alg = "ES256",
): string {
  const bytes = Buffer.from([bits.reduce((sum, bit, place) => sum | (bit << place), 0)]);
  const payload = {
    iss: ISSUER,
    sub: URI,
    iat: NOW,
    exp: NOW + 300,
    ttl: 15,
    status_list: { bits: 1, lst: deflateSync(bytes).toString("base64url") },
    ...claims,
  };
  const signed = `${part({ typ: "statuslist+jwt", kid: alg, alg, ...header })}.${part(payload)}`;
  const key = { key: KINDS[alg].privateKey, dsaEncoding: "ieee-p1363" } as const;
  return `${signed}.${sign(alg === "Ed25519" ? null : "sha256", Buffer.from(signed), key).toString("base64url")}`;
}

function serve(text: string, headers: Readonly<Record<string, string>> = {}, status = 200): void {
  answers.set(URI, () => new Response(text, { status, headers }));
}

function client(options: { readonly staleSeconds?: number } = {}): StatusListClient {
  return new StatusListClient({
    issuer: ISSUER,
    now: () => nowMs,
    fetch: async (url) => {
      requests.push(url as string);
      const answer = answers.get(url as string);
      return answer === undefined ? await Promise.reject(new TypeError("fetch failed")) : answer();
    },
    ...options,
  });
}

const claimsOf = (idx: unknown, uri: unknown = URI) => ({ status: { status_list: { idx, uri } } });
const lists = (): number => requests.filter((url) => url === URI).length;

async function codeOf(asked: Promise<boolean>): Promise<string> {
  try {
    return String(await asked);
  } catch (error) {
    return error instanceof StatusListError ? error.code : String(error);
  }
}

test.each(Object.keys(KINDS) as Alg[])("reads the bits of a list that is signed with %s", async (alg) => {
  serve(listOf([0, 1, 0, 0, 0, 0, 0, 1], {}, {}, alg));
  const status = client();
  expect(await Promise.all([0, 1, 6, 7].map(async (idx) => await status.isRevoked(claimsOf(idx))))).toEqual([
    false,
    true,
    false,
    true,
  ]);
  expect(requests).toEqual([URI, `${ISSUER}/.well-known/jwks.json`]);
});

test("reads no more of an endless list than a list may have", async () => {
  let read = 0;
  answers.set(URI, () => {
    const endless = new ReadableStream<Uint8Array>({
      pull: (controller) => {
        read += 65_536;
        controller.enqueue(new Uint8Array(65_536));
      },
    });
    return new Response(endless);
  });
  expect(await codeOf(client().isRevoked(claimsOf(0)))).toBe("LIST_UNAVAILABLE");
  expect(read).toBeLessThan(1_500_000);
});

describe("how long a list is used", () => {
  test("for its ttl, less the time that it has spent in caches", async () => {
    serve(listOf([0]), { age: "10" });
    const status = client();
    await status.isRevoked(claimsOf(0));
    nowMs += 4_999;
    await status.isRevoked(claimsOf(0));
    expect(lists()).toBe(1);
    serve(listOf([1]));
    nowMs += 1;
    expect(await status.isRevoked(claimsOf(0))).toBe(true);
    expect(lists()).toBe(2);
  });

  test("not longer without the issuer, by default", async () => {
    serve(listOf([0]));
    const status = client();
    await status.isRevoked(claimsOf(0));
    answers.delete(URI);
    nowMs += 15_000;
    expect(await codeOf(status.isRevoked(claimsOf(0)))).toBe("LIST_UNAVAILABLE");
  });

  test("as long as the caller allows without the issuer, with one request a second, and never beyond exp", async () => {
    serve(listOf([0, 1]));
    const status = client({ staleSeconds: 1_000 });
    await status.isRevoked(claimsOf(0));
    answers.delete(URI);
    nowMs += 15_000;
    expect([
      await codeOf(status.isRevoked(claimsOf(0))),
      await codeOf(status.isRevoked(claimsOf(1))),
    ]).toEqual(["false", "true"]);
    expect(lists()).toBe(2);
    nowMs += 1_000;
    await status.isRevoked(claimsOf(0));
    expect(lists()).toBe(3);
    nowMs = (NOW + 300) * 1_000;
    expect(await codeOf(status.isRevoked(claimsOf(0)))).toBe("LIST_UNAVAILABLE");
  });
});

describe("fails closed", () => {
  test.each([
    ["no status", {}],
    ["another mechanism", { status: { other: {} } }],
    ["no uri", { status: { status_list: { idx: 0 } } }],
    ["an index that is no number", claimsOf("0")],
    ["a negative index", claimsOf(-1)],
    ["a fraction", claimsOf(0.5)],
  ])("for a token with %s", async (_name, claims) => {
    expect(await codeOf(client().isRevoked(claims))).toBe("STATUS_MISSING");
    expect(requests).toEqual([]);
  });

  test("for an index beyond the list", async () => {
    serve(listOf([0]));
    expect(await codeOf(client().isRevoked(claimsOf(8)))).toBe("LIST_INVALID");
  });

  test("for a list elsewhere, which is not even requested", async () => {
    expect(await codeOf(client().isRevoked(claimsOf(0, "http://169.254.169.254/latest")))).toBe(
      "LIST_INVALID",
    );
    expect(requests).toEqual([]);
  });

  test.each([
    ["of another issuer", () => listOf([0], { iss: "https://other.example" })],
    ["of another address", () => listOf([0], { sub: `${URI}2` })],
    ["that has expired", () => listOf([0], { exp: NOW })],
    ["without exp", () => listOf([0], { exp: undefined })],
    ["without ttl", () => listOf([0], { ttl: undefined })],
    ["from the future", () => listOf([0], { iat: NOW + 60 })],
    ["of two bits", () => listOf([0], { status_list: { bits: 2, lst: "" } })],
    ["without a list", () => listOf([0], { status_list: undefined })],
    ["of another type", () => listOf([0], {}, { typ: "at+jwt" })],
    ["of an unknown key", () => listOf([0], {}, { kid: "unknown" })],
    ["of another algorithm than its key's", () => listOf([0], {}, { alg: "none" })],
    ["with another's signature", () => listOf([0], {}, { kid: "RS256", alg: "RS256" })],
    [
      "with a changed payload",
      () => listOf([1]).replace(/\.[^.]+\./, `.${listOf([0]).split(".")[1] ?? ""}.`),
    ],
  ])("for a list %s", async (_name, list) => {
    serve(list());
    expect(await codeOf(client().isRevoked(claimsOf(0)))).toBe("LIST_INVALID");
  });

  test.each([
    ["an answer of 404", () => serve("", {}, 404)],
    ["no answer", () => undefined],
    ["no JWT", () => serve("hello")],
    [
      "bytes that inflate without end",
      () => {
        const lst = deflateSync(Buffer.alloc(2 ** 24)).toString("base64url");
        serve(listOf([0], { status_list: { bits: 1, lst } }));
      },
    ],
    ["a document that is too long", () => serve(randomBytes(1_000_000).toString("hex"))],
  ])("for %s", async (_name, prepare) => {
    prepare();
    expect(await codeOf(client().isRevoked(claimsOf(0)))).toBe("LIST_UNAVAILABLE");
  });
});

test("concurrent questions share one request, and a new key is found", async () => {
  serve(listOf([0]));
  const status = client();
  await Promise.all(Array.from({ length: 50 }, async () => await status.isRevoked(claimsOf(0))));
  expect(requests).toHaveLength(2);
  nowMs += 15_000;
  const { publicKey } = KINDS.RS256;
  answers.set(`${ISSUER}/.well-known/jwks.json`, () =>
    Response.json({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "RS256", alg: "RS256" }] }),
  );
  serve(listOf([1], {}, {}, "RS256"));
  // Known already, so the key set is not read again.
  expect(await status.isRevoked(claimsOf(0))).toBe(true);
  serve(listOf([1], {}, {}, "ES256"));
  nowMs += 300_001;
  expect(await codeOf(status.isRevoked(claimsOf(0)))).toBe("LIST_INVALID");
});

test.each([
  ["issuer is not set", {}],
  ["issuer is empty", { issuer: " \n" }],
  ["issuer is not a URL", { issuer: "api.example.com" }],
  ["staleSeconds is not a number of at least 0", { issuer: ISSUER, staleSeconds: "60" }],
  ["fetch is not a function", { issuer: ISSUER, fetch: {} }],
])("a client is not made with a mistake: %s", (message, options) => {
  expect(() => new StatusListClient(options as never)).toThrow(new TypeError(message));
});

test("an option that is undefined has its default", () => {
  expect(
    () => new StatusListClient({ issuer: `${ISSUER}\n`, staleSeconds: undefined as never }),
  ).not.toThrow();
});
