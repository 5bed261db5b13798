/**
 * Key-encryption keys wrap the tenants' data keys and the private signing keys. Several may be known at once. The
 * newest wraps; the others open what they have wrapped, until `signet keys rewrap` is complete.
 */
import { hkdfSync } from "node:crypto";
import { readFile } from "node:fs/promises";
import type { RandomBytes } from "#domain/ids.ts";
import {
  type EnvelopeKey,
  EnvelopeError,
  envelopeKeyId,
  namedKey,
  openEnvelope,
  sealEnvelope,
} from "./envelope.ts";

const KEY_BYTES = 32;

/**
 * Wraps and unwraps keys. The interface is asynchronous, so that a key management service can implement it without
 * revealing its root key. An envelope consists of parts joined by dots. The second part is the id of its key.
 */
export interface KeyEncryption {
  /** Returns the id of the key that wraps now. */
  currentKeyId(): Promise<string>;
  /** Encrypts for one place, named by `aad` (envelopeAad). */
  wrap(aad: string, plaintext: Uint8Array): Promise<string>;
  /** Decrypts. Rejects with EnvelopeError if the key is unknown or the envelope belongs elsewhere. */
  unwrap(aad: string, envelope: string): Promise<Buffer>;
}

/** Reads the keys: at least one, 32 bytes or more each, newest first. */
export type ReadKeys = () => Promise<readonly Buffer[]>;

/** Creates a provider from keys that this process may read. */
export function createKeyEncryption(readKeys: ReadKeys, randomBytes: RandomBytes): KeyEncryption {
  let known: readonly EnvelopeKey[] = [];

  async function read(): Promise<EnvelopeKey> {
    const keys = await readKeys();
    known = keys.map((key) =>
      namedKey(Buffer.from(hkdfSync("sha256", key, "", "signet key-encryption key", KEY_BYTES))),
    );
    const [newest] = known;
    if (newest === undefined) {
      throw new Error("there is no key-encryption key");
    }
    return newest;
  }

  async function keyOf(envelope: string): Promise<EnvelopeKey> {
    const id = envelopeKeyId(envelope);
    const find = (): EnvelopeKey | undefined => known.find((key) => key.id === id);
    const key = find();
    if (key !== undefined) {
      return key;
    }
    await read();
    const added = find();
    if (added === undefined) {
      throw new EnvelopeError(`sealed with key ${id}, which this process does not have`);
    }
    return added;
  }

  return {
    // Wrapping is rare, so the newest key is read each time: a key file may have a new line.
    currentKeyId: async () => (await read()).id,
    wrap: async (aad, plaintext) => sealEnvelope(await read(), aad, plaintext, randomBytes),
    unwrap: async (aad, envelope) => openEnvelope(await keyOf(envelope), aad, envelope),
  };
}

/** Returns the keys from the settings, which change only with a restart. */
export function fixedKeys(keys: readonly Buffer[]): ReadKeys {
  return async () => keys;
}

/**
 * Reads the keys of a file: one per line in base64, newest first. Ignores empty lines and lines that begin with `#`.
 * The file is read again when a key is wrapped or a key id is unknown, so a new line needs no restart.
 */
export function keysOfFile(path: string): ReadKeys {
  return async () => {
    const keys: Buffer[] = [];
    for (const [index, line] of (await readFile(path, "utf8")).split("\n").entries()) {
      const text = line.trim();
      if (text === "" || text.startsWith("#")) {
        continue;
      }
      const key = Buffer.from(text, "base64");
      if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || key.length < KEY_BYTES) {
        throw new Error(`${path}, line ${index + 1}: a key must be at least 32 bytes in base64`);
      }
      keys.push(key);
    }
    if (keys.length === 0) {
      throw new Error(`${path} contains no key`);
    }
    return keys;
  };
}
