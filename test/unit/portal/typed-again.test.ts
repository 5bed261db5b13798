/** A form never returns a secret, in whichever field it was typed. */
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  addressAgain,
  certificatesAgain,
  headersAgain,
  isPrivateKey,
  publicKeyAgain,
  textAgain,
} from "#portal/typed-again.ts";

const PAIRS = [
  ["RSA", generateKeyPairSync("rsa", { modulusLength: 2_048 })],
  ["EC", generateKeyPairSync("ec", { namedCurve: "P-256" })],
  ["X25519", generateKeyPairSync("x25519")],
  ["Ed25519", generateKeyPairSync("ed25519")],
] as const;
const CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB+w==\n-----END CERTIFICATE-----\n";

describe("a public key", () => {
  test.each(PAIRS)("of type %s is returned, and its private key never is", (_name, pair) => {
    const known = JSON.stringify(pair.publicKey.export({ format: "jwk" }));
    expect(isPrivateKey(known)).toBe(false);
    expect(publicKeyAgain(known)).toBe(known);
    const secret = JSON.stringify(pair.privateKey.export({ format: "jwk" }));
    const pem = pair.privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    for (const text of [secret, pem]) {
      expect(isPrivateKey(text)).toBe(true);
    }
    // Also in a malformed spelling.
    for (const text of [
      secret,
      pem,
      secret.slice(0, -1),
      secret.slice(1),
      `[${secret}]`,
      `{"keys":[${secret}]}`,
    ]) {
      expect(publicKeyAgain(text)).toBe("");
    }
  });

  test("does not include a shared secret, or a secret nested in an allowed member", () => {
    expect(isPrivateKey('{"kty":"oct","k":"c2VjcmV0"}')).toBe(true);
    expect(publicKeyAgain('{"kty":"OKP","x":{"d":"c2VjcmV0"}}')).toBe("");
    expect(publicKeyAgain("correct horse battery staple")).toBe("");
  });
});

test("certificates are returned, but not with a private key between them", () => {
  expect(certificatesAgain(CERTIFICATE + CERTIFICATE)).toBe(CERTIFICATE + CERTIFICATE);
  const key = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\n";
  for (const text of [CERTIFICATE + key, key + CERTIFICATE, key, "MHcCAQEE"]) {
    expect(certificatesAgain(text)).toBe("");
  }
});

test.each([
  ["https://user:hunter2@example.com/hooks?a=b", "https://example.com/hooks?a=b"],
  ["https://example.com/@handle", "https://example.com/@handle"],
  ["https://a:b@c:d@example.com", "https://example.com"],
  ["user:hunter2@example.com", "example.com"],
  ["https:\\\\user:hunter2@example.com", "https:\\\\example.com"],
  ["not an address", "not an address"],
])("the address %s is returned as %s", (typed, again) => {
  expect(addressAgain(typed)).toBe(again);
});

test("headers are returned without the values of secret ones", () => {
  expect(
    headersAgain("X-Team: ml\r\nauthorization: Bearer abc\r\n Cookie : id=1\nX-Authorization: shown"),
  ).toBe("X-Team: ml\r\nauthorization:\r\n Cookie :\nX-Authorization: shown");
});

test.each([`whsec_${"a".repeat(32)}`, "sgn_live_sk_abc", "-----BEGIN PRIVATE KEY-----\nMC4="])(
  "%j is returned in no field",
  (secret) => {
    for (const again of [textAgain, addressAgain, headersAgain, certificatesAgain, publicKeyAgain]) {
      expect(again(`before ${secret} after`)).toBe("");
    }
  },
);
