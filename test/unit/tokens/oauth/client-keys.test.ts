/** Which public keys of clients are registered, and for which algorithms. */
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { SignetError } from "#domain/errors.ts";
import { acceptedKeySet, algorithmsOf } from "#tokens/oauth/client-keys.ts";
import { PRINTED_KEYS } from "#tokens/oauth/printed-keys.ts";
import vectors from "#test/support/vectors/printed-keys.json" with { type: "json" };

const ALL = ["ES256", "ES384", "EdDSA", "Ed25519", "RS256", "PS256"];

/** Returns the detail of the only problem of a key; undefined if it is accepted. */
function problemOf(jwk: Readonly<Record<string, unknown>>, permitted = ALL): unknown {
  try {
    acceptedKeySet([jwk], permitted);
    return undefined;
  } catch (error) {
    const { status, extensions } = error as SignetError;
    return { status, ...extensions };
  }
}

describe("a key whose private half a standard prints", () => {
  test.each(vectors)("is refused: $printed_in", ({ printed_in: source, jwk }) => {
    const standard = /^RFC \d+/.exec(source)?.[0];
    expect(problemOf(jwk)).toMatchObject({ status: 422 });
    expect(JSON.stringify(problemOf(jwk))).toContain(
      `is an example of ${standard}, which prints its private half`,
    );
  });

  test("is refused in any spelling", () => {
    const rsa = vectors.find(({ jwk }) => jwk.kty === "RSA")?.jwk;
    const n = Buffer.concat([Buffer.alloc(1), Buffer.from(rsa?.n ?? "", "base64url")]).toString("base64url");
    expect(JSON.stringify(problemOf({ ...rsa, n, e: "AAEAAQ" }))).toContain("prints its private half");
  });

  test("is in the list of such keys, which has no others", () => {
    expect(PRINTED_KEYS.size).toBe(vectors.length);
  });
});

describe("a key of one's own", () => {
  const keys = (["P-256", "P-384"] as const).map((namedCurve) =>
    generateKeyPairSync("ec", { namedCurve }).publicKey.export({ format: "jwk" }),
  );
  const rsa = generateKeyPairSync("rsa", { modulusLength: 2_048 }).publicKey.export({ format: "jwk" });

  test("is accepted", () => {
    expect([...keys, rsa].map((jwk) => problemOf(jwk))).toEqual([undefined, undefined, undefined]);
  });

  test("is for the permitted algorithms of its kind, and refused if there is none", () => {
    expect(algorithmsOf(rsa as never, ALL)).toEqual(["RS256", "PS256"]);
    expect(algorithmsOf(rsa as never, ["PS256", "ES256"])).toEqual(["PS256"]);
    expect(problemOf({ ...rsa, alg: "RS256" }, ["PS256"])).toBeDefined();
    expect(JSON.stringify(problemOf(keys[1] ?? {}, ["PS256", "ES256"]))).toContain(
      "one of the algorithms PS256, ES256",
    );
  });
});
