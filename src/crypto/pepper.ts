/**
 * The pepper is the key under which client secrets are stored as MACs. A secret has 256 random bits, so no slow hash is
 * needed. Without the pepper, the database alone cannot even test a guess (security decisions A). Earlier peppers still
 * verify their MACs. A MAC verified by one is replaced under the newest (mac_key_id names the pepper).
 */
import { createHmac, createSecretKey, hkdfSync, type KeyObject } from "node:crypto";

const DERIVED_KEY_BYTES = 32;

/** A MAC with the id of its pepper. */
export interface PepperedMac {
  readonly keyId: string;
  /** HMAC-SHA-256 of the secret, 32 bytes. */
  readonly mac: Buffer;
}

export interface Pepper {
  /** Id of the newest pepper, stored in rows with its MACs. */
  readonly id: string;
  /** HMAC-SHA-256 of a secret under the newest pepper, 32 bytes. */
  mac(secret: string): Buffer;
  /** Returns the secret's MACs under every known pepper, newest first, in constant work. */
  macs(secret: string): readonly PepperedMac[];
  /**
   * Derives a key from both the secret and a pepper: HKDF-SHA-256 with the pepper as salt, 32 bytes. Returns
   * `undefined` if the pepper is unknown.
   */
  deriveKey(secret: string, info: string, pepperId: string): KeyObject | undefined;
}

type Mac = (text: string) => Buffer;

function macUnder(bytes: Buffer): Mac {
  const key = createSecretKey(bytes);
  return (text) => createHmac("sha256", key).update(text).digest();
}

/** Creates the pepper from its key and earlier ones, each 32 bytes or more. */
export function createPepper(key: Buffer, previous: readonly Buffer[] = []): Pepper {
  const known = [key, ...previous].map((bytes) => {
    const mac = macUnder(bytes);
    return { id: mac("signet pepper id").toString("hex").slice(0, 8), mac, bytes };
  });
  const [newest] = known as [(typeof known)[number]];
  return {
    id: newest.id,
    mac: newest.mac,
    macs: (secret) => known.map(({ id, mac }) => ({ keyId: id, mac: mac(secret) })),
    deriveKey: (secret, info, pepperId) => {
      const salt = known.find(({ id }) => id === pepperId)?.bytes;
      return salt && createSecretKey(Buffer.from(hkdfSync("sha256", secret, salt, info, DERIVED_KEY_BYTES)));
    },
  };
}
