/** private_key_jwt (RFC 7523 section 2.2): the client authenticates with a key that never leaves it. */
import { createPrivateKey, type KeyObject, randomUUID, sign } from "node:crypto";
import { signEs256 } from "../jws.ts";
import type { Clock } from "./runtime.ts";

/** Long enough for a request and some clock skew. */
const LIFETIME_S = 60;

/** Creates the assertion of one token request. @param audience the address of the token endpoint */
export type ClientAssertion = (audience: string) => string | Promise<string>;

export interface PrivateKeyOptions {
  readonly clientId: string;
  /** PEM, or a parsed key: P-256 (ES256), RSA (RS256) or Ed25519. */
  readonly key: string | Buffer | KeyObject;
  /** Names the key in the client's key set. */
  readonly kid?: string;
  readonly clock?: Clock;
}

type Signer = (input: Buffer) => Buffer;

function signerOf(key: KeyObject): { readonly alg: string; readonly signer: Signer } {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === "ec" && details?.namedCurve === "prime256v1") {
    return { alg: "ES256", signer: (input) => signEs256(input, key) };
  }
  if (type === "rsa") {
    return { alg: "RS256", signer: (input) => sign("sha256", input, key) };
  }
  if (type === "ed25519") {
    return { alg: "EdDSA", signer: (input) => sign(null, input, key) };
  }
  throw new TypeError("the key must be P-256, RSA or Ed25519");
}

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString("base64url");
}

/** @throws TypeError for a key of another kind, Error for an invalid private key */
export function privateKeyAssertion({
  clientId,
  key,
  kid,
  clock = Date,
}: PrivateKeyOptions): ClientAssertion {
  const privateKey = typeof key === "string" || Buffer.isBuffer(key) ? createPrivateKey(key) : key;
  const { alg, signer } = signerOf(privateKey);
  return (audience) => {
    const now = Math.floor(clock.now() / 1_000);
    const claims = {
      iss: clientId,
      sub: clientId,
      aud: audience,
      jti: randomUUID(),
      iat: now,
      exp: now + LIFETIME_S,
    };
    const input = `${encode({ alg, ...(kid === undefined ? {} : { kid }) })}.${encode(claims)}`;
    return `${input}.${signer(Buffer.from(input)).toString("base64url")}`;
  };
}
