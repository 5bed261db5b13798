/**
 * Compares the token check with jose, its reference: both agree on every kind of altered token, except for spellings
 * that only jose accepts.
 */
import { generateKeyPairSync, sign } from "node:crypto";
import { assert, asyncProperty, constantFrom, integer, oneof, record, string } from "fast-check";
import { jwtVerify } from "jose";
import { describe, expect, test } from "vitest";
import { generateSigningKey, openSigningKey, openVerificationKey } from "#tokens/signing-keys/signing-key.ts";
import { createTokenVerifier } from "#tokens/oauth/verify-access-token.ts";
import { VerifiedTokens } from "#tokens/oauth/verified-tokens.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { cases } from "#test/support/properties.ts";

const ISSUER = "https://service.example";
const NOW_MS = 1_763_650_000_500;
const NOW = Math.floor(NOW_MS / 1_000);
const CLAIMS = {
  iss: ISSUER,
  aud: "signet",
  sub: "cl_1",
  client_id: "cl_1",
  scope: "a:b",
  jti: "j",
  tenant: "t",
  region: "eu",
  prn: "p",
  cid: "c",
  iat: NOW,
  nbf: NOW,
  exp: NOW + 900,
};

const keyring = testKeyring();
const keys = await Promise.all(
  (["ES256", "RS256", "Ed25519"] as const).map(async (alg) => {
    const row = await generateSigningKey(alg, keyring);
    return {
      alg,
      kid: row.kid,
      signing: await openSigningKey(row, keyring),
      public: openVerificationKey(row),
    };
  }),
);
type Key = (typeof keys)[number];

const encode = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

async function made(key: Key, header: object, payload: unknown): Promise<string> {
  const text = `${encode(header)}.${encode(payload)}`;
  return `${text}.${await key.signing.sign(text)}`;
}

const find = (kid: unknown) => keys.find((key) => key.kid === kid)?.public;

async function ours(token: string): Promise<boolean> {
  const verify = createTokenVerifier({
    issuer: ISSUER,
    audience: "signet",
    keys: { verificationKey: async (kid) => find(kid) },
    clock: { now: () => NOW_MS },
  });
  try {
    await verify(token);
    return true;
  } catch {
    return false;
  }
}

/** Verifies as the verifier call of security decisions A. */
async function reference(token: string): Promise<boolean> {
  try {
    await jwtVerify(
      token,
      ({ kid, alg }) => {
        const found = find(kid);
        if (found === undefined || found.alg !== alg) {
          throw new Error("no such key");
        }
        return found.key;
      },
      {
        algorithms: ["ES256", "RS256", "Ed25519"],
        typ: "at+jwt",
        issuer: ISSUER,
        audience: "signet",
        requiredClaims: Object.keys(CLAIMS).filter((name) => name !== "nbf"),
        clockTolerance: 5,
        maxTokenAge: 905,
        currentDate: new Date(NOW_MS),
      },
    );
    return true;
  } catch {
    return false;
  }
}

describe.each(keys)("$alg", (key) => {
  const header = { alg: key.alg, typ: "at+jwt", kid: key.kid };

  test("both accept our own tokens", async () => {
    const token = await made(key, header, CLAIMS);
    expect(await ours(token)).toBe(true);
    expect(await reference(token)).toBe(true);
  });

  test("both agree on any times, types and names of a signed token", async () => {
    const seconds = oneof(
      integer({ min: NOW - 1_000, max: NOW + 1_000 }),
      constantFrom(
        NOW - 910,
        NOW - 911,
        NOW - 5,
        NOW - 6,
        NOW + 5,
        NOW + 6,
        NOW - 905,
        0,
        -1,
        1e300,
        NOW + 0.5,
      ),
      constantFrom<unknown>(null, "1", String(NOW), true, [], {}, undefined),
    );
    const texts = constantFrom<unknown>(
      "signet",
      ISSUER,
      `${ISSUER}/`,
      "at+jwt",
      "AT+JWT",
      "JWT",
      null,
      1,
      undefined,
    );
    await assert(
      asyncProperty(
        record({ iat: seconds, nbf: seconds, exp: seconds }),
        record({ iss: texts, aud: texts, typ: texts, alg: texts }),
        integer({ min: 0, max: 127 }),
        async (times, names, which) => {
          // Each bit takes one member from the arbitrary ones: most tokens have one or two invalid members.
          const take = (bit: number, from: object, name: string): object =>
            (which >> bit) % 2 === 1 ? { [name]: (from as Record<string, unknown>)[name] } : {};
          const payload = {
            ...CLAIMS,
            ...take(0, times, "iat"),
            ...take(1, times, "nbf"),
            ...take(2, times, "exp"),
            ...take(3, names, "iss"),
            ...take(4, names, "aud"),
          };
          const token = await made(
            key,
            { ...header, ...take(5, names, "typ"), ...take(6, names, "alg") },
            payload,
          );
          expect(await ours(token)).toBe(await reference(token));
        },
      ),
      cases(60),
    );
  });

  test("both reject a token changed anywhere", async () => {
    const token = await made(key, header, CLAIMS);
    const characters = "ABCXYZabcxyz0189-_.=+/ ".split("");
    await assert(
      asyncProperty(
        integer({ min: 0, max: token.length - 1 }),
        constantFrom(...characters, ""),
        constantFrom(0, 1),
        async (at, character, keep) => {
          const altered = token.slice(0, at) + character + token.slice(at + 1 - keep);
          expect(await ours(altered)).toBe(altered === token);
        },
      ),
      cases(100),
    );
  });

  test("both reject signatures of other keys, of no length and of zeros", async () => {
    const text = `${encode(header)}.${encode(CLAIMS)}`;
    const stranger = generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey;
    const signatures = [
      "",
      Buffer.alloc(64).toString("base64url"),
      Buffer.alloc(256, 1).toString("base64url"),
      // DER instead of the two numbers (RFC 7518 section 3.4).
      sign("sha256", Buffer.from(text), stranger).toString("base64url"),
      sign("sha256", Buffer.from(text), { key: stranger, dsaEncoding: "ieee-p1363" }).toString("base64url"),
    ];
    for (const signature of signatures) {
      expect(await ours(`${text}.${signature}`), signature).toBe(false);
      expect(await reference(`${text}.${signature}`), signature).toBe(false);
    }
  });

  test("ours rejects bytes that are not a JSON object in UTF-8", async () => {
    await assert(
      asyncProperty(
        oneof(string({ maxLength: 20 }), constantFrom("null", "[]", "1", '"a"', "{", "\u00ff{}")),
        async (text) => {
          for (const encoding of ["utf8", "latin1"] as const) {
            const part = Buffer.from(text, encoding).toString("base64url");
            const bodies = [`${part}.${encode(CLAIMS)}`, `${encode(header)}.${part}`];
            for (const body of bodies) {
              expect(await ours(`${body}.${await key.signing.sign(body)}`)).toBe(false);
            }
          }
        },
      ),
      cases(20),
    );
  });
});

test("the store evicts the token checked first, and each when it expires", () => {
  const store = new VerifiedTokens<string>();
  const entry = { claims: "x", kid: "k", expiresAt: 1_000 };
  for (let index = 0; index < 10_000; index += 1) {
    store.set(String(index), entry);
  }
  expect(store.get("0", 0)).toBe(entry);
  store.set("one more", entry);
  expect(store.get("0", 0)).toBeUndefined();
  expect(store.get("1", 0)).toBe(entry);
  expect(store.get("2", 1_000)).toBeUndefined();
  expect(store.get("2", 0)).toBeUndefined();
});
