/** A keyring with test keys. */
import { randomBytes } from "node:crypto";
import { createKeyEncryption, fixedKeys } from "#crypto/key-encryption.ts";
import { Keyring } from "#crypto/keyring.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** @param keks keys, newest first (default: one random key) */
export function testKeyring(...keks: readonly Buffer[]): Keyring {
  const keys = keks.length === 0 ? [randomBytes(32)] : keks;
  return new Keyring({
    keyEncryption: createKeyEncryption(fixedKeys(keys), randomBytes),
    randomBytes,
    monotonicMs: machineTimers.monotonic,
  });
}
