/** No secret comes back in a form, in whichever field it was typed. */
import { generateKeyPairSync } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  addressAgain,
  certificatesAgain,
  headersAgain,
  isPrivateKey,
  publicKeyAgain,
  textAgain,
} from "../../../src/portal/typed-again.ts";

const PAIRS = [
  ["RSA", generateKeyPairSync("rsa", { modulusLength: 2_048 })],
  ["EC", generateKeyPairSync("ec", { namedCurve: "P-256" })],
  ["X25519", generateKeyPairSync("x25519")],
  ["Ed25519", generateKeyPairSync("ed25519")],
] as const;
const CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB+w==\n-----END CERTIFICATE-----\n";

describe("a public key", () => {
  test.each(PAIRS)("%s comes back, and the private one of it never does", (_name, pair) => {
    const known = JSON.stringify(pair.publicKey.export({ format: "jwk" }));
    expect(isPrivateKey(known)).toBe(false);
    expect(publicKeyAgain(known)).toBe(known);
    const secret = JSON.stringify(pair.privateKey.export({ format: "jwk" }));
    const pem = pair.privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    for (const text of [secret, pem]) {
      expect(isPrivateKey(text)).toBe(true);
    }
    // Also where it is not spelt as it should be.
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

  test("one of a secret shared by two is none, nor is what hides in a member that may be there", () => {
    expect(isPrivateKey('{"kty":"oct","k":"c2VjcmV0"}')).toBe(true);
    expect(publicKeyAgain('{"kty":"OKP","x":{"d":"c2VjcmV0"}}')).toBe("");
    expect(publicKeyAgain("correct horse battery staple")).toBe("");
  });
});

test("certificates come back, with a private key between them they do not", () => {
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
])("of the address %s what comes back is %s", (typed, again) => {
  expect(addressAgain(typed)).toBe(again);
});

test("headers come back without the values of those that hold a secret", () => {
  expect(
    headersAgain("X-Team: ml\r\nauthorization: Bearer abc\r\n Cookie : id=1\nX-Authorization: shown"),
  ).toBe("X-Team: ml\r\nauthorization:\r\n Cookie :\nX-Authorization: shown");
});

test.each([`whsec_${"a".repeat(32)}`, "sgn_live_sk_abc", "-----BEGIN PRIVATE KEY-----\nMC4="])(
  "%j comes back in no field",
  (secret) => {
    for (const again of [textAgain, addressAgain, headersAgain, certificatesAgain, publicKeyAgain]) {
      expect(again(`before ${secret} after`)).toBe("");
    }
  },
);
