/** Creates, stores and uses a signing key. A key has one algorithm for its life. */
import {
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  type KeyObject,
  type KeyPairKeyObjectResult,
  sign as signBytes,
} from "node:crypto";
import { promisify } from "node:util";
import { calculateJwkThumbprint, type JWK } from "jose";
import { envelopeAad, EnvelopeError } from "#crypto/envelope.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type {
  NewSigningKey,
  SigningAlgorithm,
  SigningKeyRow,
} from "#database/repositories/tokens/signing-keys.ts";
import { signEs256 } from "#lib/jws.ts";

/** A key in the JWKS, with public members only. */
export type PublicJwk = Readonly<JWK> & { readonly kid: string; readonly alg: string; readonly use: "sig" };

export interface SigningKey {
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  /** Signs a text whose characters are bytes (Latin-1). Returns base64url. */
  sign(text: string): string | Promise<string>;
}

/** A key that verifies signatures, of its own algorithm only (RFC 8725 section 3.1). */
export interface VerificationKey {
  readonly alg: SigningAlgorithm;
  readonly key: KeyObject;
}

interface Algorithm {
  readonly generate: () => Promise<KeyPairKeyObjectResult>;
  readonly sign: (bytes: Buffer, key: KeyObject) => Buffer | Promise<Buffer>;
}

const generate = promisify(generateKeyPair);
const signInPool = promisify<string, Buffer, KeyObject, Buffer>(signBytes);
const RSA_BITS = 2_048;

/**
 * ES256 is as fast as EdDSA here, and every library supports it. RFC 9068 section 2.1 requires RS256. An RSA signature
 * takes ten times as long, 0.3 ms. Libuv's pool keeps the event loop free: with 32 under way, a turn takes 1.3 ms in
 * the median instead of 8, at the same throughput. For the other algorithms the pool costs more than it saves.
 */
const ALGORITHMS: Readonly<Record<SigningAlgorithm, Algorithm>> = {
  ES256: {
    generate: async () => await generate("ec", { namedCurve: "P-256" }),
    sign: signEs256,
  },
  RS256: {
    generate: async () => await generate("rsa", { modulusLength: RSA_BITS }),
    sign: async (bytes, key) => await signInPool("sha256", bytes, key),
  },
  Ed25519: {
    generate: async () => await generate("ed25519"),
    sign: (bytes, key) => signBytes(null, bytes, key),
  },
};

/** Returns the additional data of a signing key's envelope. */
export function signingKeyAad(kid: string): string {
  return envelopeAad("signing_keys", "", kid, 1);
}

/** Creates a key. Its id is its RFC 7638 thumbprint. */
export async function generateSigningKey(
  alg: SigningAlgorithm,
  keyring: Pick<Keyring, "sealWithKek">,
): Promise<NewSigningKey> {
  const { publicKey, privateKey } = await ALGORITHMS[alg].generate();
  const jwk = publicKey.export({ format: "jwk" });
  const kid = await calculateJwkThumbprint(jwk);
  const pkcs8 = privateKey.export({ format: "der", type: "pkcs8" });
  return {
    kid,
    alg,
    public_jwk: { ...jwk, kid, alg, use: "sig" },
    private_key: await keyring.sealWithKek(signingKeyAad(kid), pkcs8),
  };
}

async function privateBytes(
  { kid, private_key: envelope }: Pick<SigningKeyRow, "kid" | "private_key">,
  keyring: Keyring,
): Promise<Buffer> {
  try {
    return await keyring.openWithKek(signingKeyAad(kid), envelope);
  } catch (error) {
    if (!(error instanceof EnvelopeError)) {
      throw error;
    }
    throw new Error(`signing key ${kid} cannot be opened: SIGNET_KEK is not the key that wrapped it`, {
      cause: error,
    });
  }
}

function base64url(bytes: Buffer): string {
  return bytes.toString("base64url");
}

/** Opens the private half of a stored key. */
export async function openSigningKey(row: NewSigningKey, keyring: Keyring): Promise<SigningKey> {
  const { kid, alg } = row;
  const { sign } = ALGORITHMS[alg];
  const key = createPrivateKey({ key: await privateBytes(row, keyring), format: "der", type: "pkcs8" });
  return {
    kid,
    alg,
    sign: (text) => {
      const signature = sign(Buffer.from(text, "latin1"), key);
      return signature instanceof Promise ? signature.then(base64url) : base64url(signature);
    },
  };
}

/** Opens the public half of a stored key. */
export function openVerificationKey({
  alg,
  public_jwk: jwk,
}: Pick<NewSigningKey, "alg" | "public_jwk">): VerificationKey {
  return { alg, key: createPublicKey({ key: jwk, format: "jwk" }) };
}
