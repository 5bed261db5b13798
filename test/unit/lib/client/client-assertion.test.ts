/** Assertions of private_key_jwt, parsed by a JOSE library. */
import { generateKeyPairSync, type KeyObject } from "node:crypto";
import { jwtVerify } from "jose";
import { expect, test } from "vitest";
import { privateKeyAssertion } from "#lib/client/client-assertion.ts";
import { testRuntime } from "#test/support/client-runtime.ts";
import { CLIENT_ID } from "#test/support/rotating-server.ts";

const AUDIENCE = "https://api.example.com";

test.each<[string, { publicKey: KeyObject; privateKey: KeyObject }]>([
  ["ES256", generateKeyPairSync("ec", { namedCurve: "P-256" })],
  ["RS256", generateKeyPairSync("rsa", { modulusLength: 2048 })],
  ["EdDSA", generateKeyPairSync("ed25519")],
])(
  "an assertion of %s has the claims of RFC 7523, valid for a minute",
  async (alg, { publicKey, privateKey }) => {
    const pem = privateKey.export({ format: "pem", type: "pkcs8" });
    const { clock } = testRuntime();
    const jwt = await privateKeyAssertion({ clientId: CLIENT_ID, key: pem, kid: "k1", clock })(AUDIENCE);
    const currentDate = new Date(clock.now() + 59_000);
    const required = {
      issuer: CLIENT_ID,
      subject: CLIENT_ID,
      audience: AUDIENCE,
      requiredClaims: ["jti", "iat"],
    };
    const { protectedHeader } = await jwtVerify(jwt, publicKey, { ...required, currentDate });
    expect(protectedHeader).toEqual({ alg, kid: "k1" });
    const late = new Date(clock.now() + 60_000);
    await expect(jwtVerify(jwt, publicKey, { ...required, currentDate: late })).rejects.toMatchObject({
      code: "ERR_JWT_EXPIRED",
    });
  },
);

test.each([generateKeyPairSync("x25519"), generateKeyPairSync("ec", { namedCurve: "P-384" })])(
  "a key of another kind is rejected at once",
  ({ privateKey }) => {
    expect(() => privateKeyAssertion({ clientId: CLIENT_ID, key: privateKey })).toThrow(TypeError);
  },
);
