/** Every algorithm from the key to the verified token, and no token of one algorithm under another's key. */
import { constants, createHmac, createPrivateKey, randomBytes, sign } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import type { NewSigningKey, SigningAlgorithm } from "#database/repositories/tokens/signing-keys.ts";
import { unguardedClock } from "#domain/clock.ts";
import type { SignetError } from "#domain/errors.ts";
import { createTokenMint } from "#tokens/oauth/access-token.ts";
import { jsonWebKeySet } from "#tokens/oauth/jwks.ts";
import {
  generateSigningKey,
  openSigningKey,
  openVerificationKey,
  type PublicJwk,
  type SigningKey,
  signingKeyAad,
} from "#tokens/signing-keys/signing-key.ts";
import { createTokenVerifier, type VerifyToken } from "#tokens/oauth/verify-access-token.ts";
import { testKeyring } from "#test/support/keyring.ts";

const NOW_MS = 1_763_650_000_000;
const ALGORITHMS = ["ES256", "RS256", "Ed25519"] as const satisfies SigningAlgorithm[];
const ISSUER = "https://service.example";
const keyring = testKeyring();
const rows = new Map<string, NewSigningKey>();
let verify: VerifyToken;

beforeAll(async () => {
  for (const alg of ALGORITHMS) {
    const row = await generateSigningKey(alg, keyring);
    rows.set(alg, row);
  }
  const byKid = new Map([...rows.values()].map((row) => [row.kid, openVerificationKey(row)]));
  verify = createTokenVerifier({
    issuer: ISSUER,
    audience: "signet",
    keys: { verificationKey: async (kid) => byKid.get(kid) },
    clock: { now: () => NOW_MS },
  });
});

function rowOf(alg: SigningAlgorithm): NewSigningKey {
  const row = rows.get(alg);
  if (row === undefined) {
    throw new Error("made in beforeAll");
  }
  return row;
}

async function mintWith(key: SigningKey): Promise<string> {
  const { token } = await createTokenMint({
    issuer: ISSUER,
    audience: "signet",
    keys: { signingKey: () => key },
    clock: unguardedClock({ now: () => NOW_MS }),
    randomBytes,
  })({
    clientId: "cl_000000000000000000000000",
    tenantId: "ten_06gzkqfw1vef5z17bwfnzgnc",
    principalId: "prn_06gzkqfw1vef5z17bwfnzgnc",
    credentialId: "crd_06gzkqfw1vef5z17bwfnzgnc",
    secretVersion: 1,
    region: "eu",
    scope: "events:publish",
  });
  return token;
}

async function refusal(token: string): Promise<string> {
  try {
    await verify(token);
    return "accepted";
  } catch (error) {
    return (error as SignetError).code;
  }
}

test("RS256 alone, ten times as expensive as the others, signs off the event loop", async () => {
  const promised = await Promise.all(
    ALGORITHMS.map(async (alg) => (await openSigningKey(rowOf(alg), keyring)).sign("x") instanceof Promise),
  );
  expect(ALGORITHMS.filter((_alg, index) => promised[index])).toEqual(["RS256"]);
});

describe.each(ALGORITHMS)("%s", (alg) => {
  test("a token is signed, names its algorithm, and is verified", async () => {
    const token = await mintWith(await openSigningKey(rowOf(alg), keyring));
    const [header = ""] = token.split(".");
    expect(JSON.parse(Buffer.from(header, "base64url").toString())).toEqual({
      alg,
      typ: "at+jwt",
      kid: rowOf(alg).kid,
    });
    expect(await verify(token)).toMatchObject({ region: "eu", kid: rowOf(alg).kid });
  });

  test("a token with a changed bit in its signature is rejected", async () => {
    const token = await mintWith(await openSigningKey(rowOf(alg), keyring));
    const [header, payload, signature = ""] = token.split(".");
    const bytes = Buffer.from(signature, "base64url");
    bytes[20] = (bytes[20] ?? 0) ^ 1;
    expect(await refusal(`${header}.${payload}.${bytes.toString("base64url")}`)).toBe("TOKEN_INVALID");
  });

  test("no private member is published, whatever a row holds", async () => {
    const row = rowOf(alg);
    const pkcs8 = await keyring.openWithKek(signingKeyAad(row.kid), row.private_key);
    const all = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" }).export({ format: "jwk" });
    const leaky = { ...all, k: "secret", ...row.public_jwk } as unknown as PublicJwk;
    const [published] = jsonWebKeySet([leaky]).keys;
    expect(Object.keys(published ?? {}).sort()).toEqual(
      {
        ES256: ["alg", "crv", "kid", "kty", "use", "x", "y"],
        RS256: ["alg", "e", "kid", "kty", "n", "use"],
        Ed25519: ["alg", "crv", "kid", "kty", "use", "x"],
      }[alg],
    );
    expect(Object.keys(row.public_jwk).sort()).toEqual(Object.keys(published ?? {}).sort());
  });
});

describe("algorithm confusion is rejected:", () => {
  const pairs = ALGORITHMS.flatMap((alg) =>
    ALGORITHMS.filter((other) => other !== alg).map((other) => [alg, other] as const),
  );

  test.each(pairs)("a token signed with %s under the kid of %s", async (alg, other) => {
    const key = await openSigningKey(rowOf(alg), keyring);
    expect(await refusal(await mintWith({ ...key, kid: rowOf(other).kid }))).toBe("TOKEN_INVALID");
    expect(await refusal(await mintWith({ ...key, alg: other, kid: rowOf(other).kid }))).toBe(
      "TOKEN_INVALID",
    );
  });

  test.each(["HS256", "RS384", "RS512", "PS256", "ES384", "EdDSA", "none"])(
    "%s with the key of RS256",
    async (alg) => {
      const row = rowOf("RS256");
      const pkcs8 = await keyring.openWithKek(signingKeyAad(row.kid), row.private_key);
      const key = createPrivateKey({ key: pkcs8, format: "der", type: "pkcs8" });
      const { key: publicKey } = openVerificationKey(row);
      const signers: Record<string, (bytes: Buffer) => Buffer> = {
        // The classic: the public key used as an HMAC key.
        HS256: (bytes) =>
          createHmac("sha256", publicKey.export({ format: "pem", type: "spki" }))
            .update(bytes)
            .digest(),
        RS384: (bytes) => sign("sha384", bytes, key),
        RS512: (bytes) => sign("sha512", bytes, key),
        PS256: (bytes) =>
          sign("sha256", bytes, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }),
        none: () => Buffer.alloc(0),
      };
      const signer = signers[alg] ?? ((bytes: Buffer) => sign("sha256", bytes, key));
      const token = await mintWith({
        kid: row.kid,
        alg: alg as SigningAlgorithm,
        sign: (text) => signer(Buffer.from(text)).toString("base64url"),
      });
      expect(await refusal(token)).toBe("TOKEN_INVALID");
    },
  );
});
