/** A keyring over keys of the test's own. */
import { randomBytes } from "node:crypto";
import { createKeyEncryption, fixedKeys } from "../../src/crypto/key-encryption.ts";
import { createKeyring, type Keyring } from "../../src/crypto/keyring.ts";

/** @param keks newest first; a fresh one unless given */
export function testKeyring(...keks: readonly Buffer[]): Keyring {
  const keys = keks.length === 0 ? [randomBytes(32)] : keks;
  return createKeyring({ keyEncryption: createKeyEncryption(fixedKeys(keys), randomBytes), randomBytes });
}
