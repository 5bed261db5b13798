/** Which public keys are used at all, by Wycheproof's vectors and by keys made to be weak. */
import { createPublicKey, generateKeyPairSync, type JsonWebKey } from "node:crypto";
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { verifySignature } from "#lib/jws.ts";
import { weaknessOf } from "#lib/public-key.ts";
import { verifyAsymmetric } from "#lib/receiver/ed25519.ts";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { acceptedKeySet } from "#tokens/oauth/client-keys.ts";

interface Vector {
  readonly tcId: number;
  readonly flags: readonly string[];
  readonly result: "valid" | "invalid" | "acceptable";
  readonly msg: string;
  readonly sig: string;
  readonly public: JsonWebKey;
}

interface Group {
  readonly publicKeyJwk: JsonWebKey;
  readonly publicKeyDer: string;
  readonly tests: readonly Vector[];
}

function groupsOf(file: string): readonly Group[] {
  const path = new URL(`../../corpora/wycheproof/${file}_test.json.gz`, import.meta.url);
  return (JSON.parse(gunzipSync(readFileSync(path)).toString()) as { readonly testGroups: readonly Group[] })
    .testGroups;
}

const weakness = (jwk: JsonWebKey): string | undefined =>
  weaknessOf(createPublicKey({ key: jwk, format: "jwk" }));

function isRegistered(jwk: JsonWebKey): boolean {
  try {
    acceptedKeySet([jwk], ["ES256", "Ed25519", "RS256", "PS256"]);
    return true;
  } catch {
    return false;
  }
}

test.each([
  ["ES256", "ecdsa_secp256r1_sha256_p1363"],
  ["Ed25519", "ed25519"],
  ["RS256", "rsa_signature_2048_sha256"],
])("signatures by %s are those that Wycheproof calls valid", (alg, file) => {
  const wrong: number[] = [];
  let count = 0;
  for (const { publicKeyDer, tests } of groupsOf(file)) {
    const key = createPublicKey({ key: Buffer.from(publicKeyDer, "hex"), format: "der", type: "spki" });
    expect(weaknessOf(key)).toBeUndefined();
    for (const { tcId, msg, sig, result } of tests) {
      const valid = verifySignature(alg, Buffer.from(msg, "hex"), key, Buffer.from(sig, "hex"));
      count += 1;
      if (result !== "acceptable" && valid !== (result === "valid")) {
        wrong.push(tcId);
      }
    }
  }
  expect(wrong).toEqual([]);
  expect(count).toBeGreaterThan(100);
});

test("of Wycheproof's P-256 points, those on the curve are registered", () => {
  const wrong = groupsOf("ecdh_secp256r1_webcrypto")
    .flatMap(({ tests }) => tests)
    .filter(({ public: jwk, result }) => isRegistered(jwk) !== (result === "valid"))
    .map(({ tcId, flags }) => [tcId, ...flags]);
  expect(wrong).toEqual([]);
});

test("of Wycheproof's X25519 points, those of small order are refused", () => {
  const vectors = groupsOf("x25519_jwk").flatMap(({ tests }) => tests);
  const small = vectors.filter(
    ({ flags }) => flags.includes("LowOrderPublic") || flags.includes("ZeroSharedSecret"),
  );
  expect(small.length).toBeGreaterThan(5);
  expect(small.filter(({ public: jwk }) => weakness(jwk) === undefined)).toEqual([]);
  const normal = vectors.filter(({ flags }) => flags.includes("Normal"));
  expect(normal.filter(({ public: jwk }) => weakness(jwk) !== undefined)).toEqual([]);
});

describe("an RSA key is refused with", () => {
  const { n = "", ...rest } = generateKeyPairSync("rsa", { modulusLength: 2_048 }).publicKey.export({
    format: "jwk",
  });
  const exponent = (e: bigint): string =>
    Buffer.from(
      e.toString(16).padStart(e.toString(16).length + (e.toString(16).length % 2), "0"),
      "hex",
    ).toString("base64url");
  const even = Buffer.from(n, "base64url");
  even[even.length - 1] = (even.at(-1) ?? 0) & 0xfe;
  const huge = Buffer.concat([Buffer.from([0xc1]), Buffer.alloc(1_030, 7)]).toString("base64url");

  test.each([
    ["the exponent 1", { n, e: exponent(1n) }],
    ["an even exponent", { n, e: exponent(65_536n) }],
    ["a large even exponent", { n, e: exponent(65_538n) }],
    ["a small exponent", { n, e: exponent(17n) }],
    ["an even modulus", { n: even.toString("base64url"), e: exponent(65_537n) }],
    ["a modulus of more than 8,192 bits", { n: huge, e: exponent(65_537n) }],
    ["1,024 bits", generateKeyPairSync("rsa", { modulusLength: 1_024 }).publicKey.export({ format: "jwk" })],
  ])("%s", (_what, members) => {
    expect(isRegistered({ ...rest, ...members })).toBe(false);
  });

  test("but not with 65537, 3 or a large odd one", () => {
    for (const e of [65_537n, 3n, 2n ** 32n + 1n]) {
      expect(isRegistered({ ...rest, n, e: exponent(e) })).toBe(true);
    }
  });
});

describe("an Ed25519 point is refused", () => {
  const SMALL = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    // The same in other spellings.
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
  ];
  const encodings = SMALL.flatMap((hex) => {
    const signed = Buffer.from(hex, "hex");
    signed[31] = (signed[31] ?? 0) | 0x80;
    return [hex, signed.toString("hex")];
  });

  test.each(encodings)("of small order, by each verifier (%s)", (hex) => {
    const raw = Buffer.from(hex, "hex");
    expect(isRegistered({ kty: "OKP", crv: "Ed25519", x: raw.toString("base64url") })).toBe(false);
    const message = { id: "evt_1", timestamp: "1", body: Buffer.from("{}") };
    // R is the neutral point and S is 0.
    const forged = Buffer.alloc(64);
    forged[0] = 1;
    const value = `v1a,${forged.toString("base64")}`;
    expect(() => verifyAsymmetric(`whpk_${raw.toString("base64")}`, message, value)).toThrow("small order");
    expect(() => NODE_CRYPTO.verify(raw, Buffer.from("text"), forged)).toThrow("small order");
  });
});
