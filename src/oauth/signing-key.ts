/** One signing key: how it is made, kept and used. ES256: as fast as EdDSA here, and known to every library. */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  type KeyObject,
  sign as signBytes,
} from "node:crypto";
import { calculateJwkThumbprint, type JWK } from "jose";
import { envelopeAad } from "../crypto/envelope.ts";
import type { Keyring } from "../crypto/keyring.ts";
import type { SigningAlgorithm, SigningKeyRow } from "../database/repositories/signing-keys.ts";

/** A key as the JWKS publishes it: public members only. */
export type PublicJwk = Readonly<JWK> & { readonly kid: string; readonly alg: string; readonly use: "sig" };

export interface SigningKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  /** The signature of an ASCII text, base64url. */
  sign(text: string): string;
}

function keyAad(kid: string): string {
  return envelopeAad("signing_keys", "", kid, 1);
}

/** Makes a key; its id is its RFC 7638 thumbprint. */
export async function generateSigningKey(keyring: Keyring): Promise<Omit<SigningKeyRow, "state">> {
  const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const jwk = publicKey.export({ format: "jwk" });
  const kid = await calculateJwkThumbprint(jwk);
  const pkcs8 = privateKey.export({ format: "der", type: "pkcs8" });
  return {
    kid,
    alg: "ES256",
    public_jwk: { ...jwk, kid, alg: "ES256", use: "sig" },
    private_key: keyring.sealWithKek(keyAad(kid), pkcs8),
  };
}

function privateBytes({ kid, private_key: envelope }: SigningKeyRow, keyring: Keyring): Buffer {
  try {
    return keyring.openWithKek(keyAad(kid), envelope);
  } catch (error) {
    throw new Error(`signing key ${kid} does not open: SIGNET_KEK is not the one that it was made with`, {
      cause: error,
    });
  }
}

/** Opens the private half of a stored key. */
export function openSigningKey(row: SigningKeyRow, keyring: Keyring): SigningKey {
  const { kid, alg } = row;
  if (alg !== "ES256") {
    throw new Error(`signing with ${alg} is not supported`);
  }
  const key = createPrivateKey({ key: privateBytes(row, keyring), format: "der", type: "pkcs8" });
  return {
    kid,
    alg,
    sign: (text) =>
      signBytes("sha256", Buffer.from(text, "latin1"), { key, dsaEncoding: "ieee-p1363" }).toString(
        "base64url",
      ),
  };
}

/** The public half of a stored key. */
export function openVerificationKey(row: SigningKeyRow): KeyObject {
  return createPublicKey({ key: row.public_jwk, format: "jwk" });
}
