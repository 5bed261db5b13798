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

function knownPepper(bytes: Buffer) {
  const key = createSecretKey(bytes);
  const mac = (text: string): Buffer => createHmac("sha256", key).update(text).digest();
  return { id: mac("signet pepper id").toString("hex").slice(0, 8), mac, bytes };
}

export class Pepper {
  /** Id of the newest pepper, stored in rows with its MACs. */
  readonly id: string;
  /** Returns the HMAC-SHA-256 of a secret under the newest pepper, 32 bytes. */
  readonly mac: (secret: string) => Buffer;
  readonly #known: readonly ReturnType<typeof knownPepper>[];

  /** Takes the key and earlier ones, each 32 bytes or more. */
  constructor(key: Buffer, previous: readonly Buffer[] = []) {
    const newest = knownPepper(key);
    this.id = newest.id;
    this.mac = newest.mac;
    this.#known = [newest, ...previous.map(knownPepper)];
  }

  /** Returns the secret's MACs under every known pepper, newest first, in constant work. */
  macs(secret: string): readonly PepperedMac[] {
    return this.#known.map(({ id, mac }) => ({ keyId: id, mac: mac(secret) }));
  }

  /**
   * Derives a key from both the secret and a pepper: HKDF-SHA-256 with the pepper as salt, 32 bytes. Returns
   * `undefined` if the pepper is unknown.
   */
  deriveKey(secret: string, info: string, pepperId: string): KeyObject | undefined {
    const salt = this.#known.find(({ id }) => id === pepperId)?.bytes;
    return salt && createSecretKey(Buffer.from(hkdfSync("sha256", secret, salt, info, DERIVED_KEY_BYTES)));
  }
}
