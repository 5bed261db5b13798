/** Client certificates that are valid and trusted but too weak, and strong ones of every accepted kind. */
import "reflect-metadata";
import { createPrivateKey, generateKeyPairSync, KeyObject, type webcrypto } from "node:crypto";
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  X509CertificateGenerator,
} from "@peculiar/x509";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { today } from "./certificates.ts";

const EXPONENT = new Uint8Array([1, 0, 1]);
const rsa = (modulusLength: number, name = "RSASSA-PKCS1-v1_5") => ({
  name,
  modulusLength,
  publicExponent: EXPONENT,
  hash: "SHA-256",
});

/** Keys by their names in tests. */
export const KEYS = {
  "RSA-1024": rsa(1_024),
  "RSA-2048": rsa(2_048),
  "P-256": { name: "ECDSA", namedCurve: "P-256" },
  "P-384": { name: "ECDSA", namedCurve: "P-384" },
  "P-521": { name: "ECDSA", namedCurve: "P-521" },
  Ed25519: { name: "Ed25519" },
} as const;

export interface WeakRequest {
  readonly key?: keyof typeof KEYS;
  /** Hash of the issuer's signature. */
  readonly hash?: "SHA-1" | "SHA-256";
  readonly subject?: string;
  /** Whether it is an authority itself. */
  readonly authority?: boolean;
}

const rsaKeys = new Map<number, ReturnType<typeof generateRsa>>();

function generateRsa(modulusLength: number) {
  return generateKeyPairSync("rsa", { modulusLength });
}

/** Returns the process's only RSA key of this length. Making one takes up to a second, so tests share it. */
async function sharedRsa(algorithm: ReturnType<typeof rsa>): Promise<webcrypto.CryptoKeyPair> {
  const { modulusLength } = algorithm;
  const pair = rsaKeys.get(modulusLength) ?? generateRsa(modulusLength);
  rsaKeys.set(modulusLength, pair);
  const { subtle } = crypto;
  const [privateKey, publicKey] = [
    pair.privateKey.export({ format: "der", type: "pkcs8" }),
    pair.publicKey.export({ format: "der", type: "spki" }),
  ];
  return {
    privateKey: await subtle.importKey("pkcs8", privateKey, algorithm, true, ["sign"]),
    publicKey: await subtle.importKey("spki", publicKey, algorithm, true, ["verify"]),
  };
}

/** Makes a key of this kind. */
export async function keyPairOf(key: keyof typeof KEYS): Promise<webcrypto.CryptoKeyPair> {
  const algorithm = KEYS[key];
  return "modulusLength" in algorithm
    ? await sharedRsa(algorithm)
    : ((await crypto.subtle.generateKey(algorithm, true, ["sign", "verify"])) as webcrypto.CryptoKeyPair);
}

/** Issues a certificate by an authority with a P-256 key. */
export async function issueWith(
  issuer: KeyPair & { readonly subject: string },
  { key = "P-256", hash = "SHA-256", subject = "CN=client", authority = false }: WeakRequest,
): Promise<KeyPair> {
  const keys = await keyPairOf(key);
  const signingKey = await crypto.subtle.importKey(
    "jwk",
    createPrivateKey(issuer.key).export({ format: "jwk" }),
    KEYS["P-256"],
    true,
    ["sign"],
  );
  const made = await X509CertificateGenerator.create({
    subject,
    issuer: issuer.subject,
    ...today(),
    signingAlgorithm: { name: "ECDSA", hash },
    publicKey: keys.publicKey,
    signingKey,
    extensions: [
      new BasicConstraintsExtension(authority, undefined, true),
      ...(authority ? [] : [new ExtendedKeyUsageExtension([ExtendedKeyUsage.clientAuth])]),
    ],
  });
  return {
    key: KeyObject.from(keys.privateKey).export({ format: "pem", type: "pkcs8" }) as string,
    cert: `${made.toString("pem")}\n`,
  };
}

/** Creates a certificate that the shared RSA key of 2,048 bits signs for itself. */
export async function selfSigned(name: "RSA-PSS" | "RSASSA-PKCS1-v1_5", hash: string): Promise<string> {
  const keys = await sharedRsa({ ...rsa(2_048, name), hash });
  const made = await X509CertificateGenerator.createSelfSigned({
    name: "CN=self",
    keys,
    ...today(),
    signingAlgorithm: { name, hash, saltLength: 32 },
    extensions: [new BasicConstraintsExtension(true, undefined, true)],
  });
  return `${made.toString("pem")}\n`;
}
