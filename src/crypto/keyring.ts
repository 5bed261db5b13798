/**
 * Keys at rest: the key-encryption key wraps one data key per tenant (tenants.data_key), and the data key seals that
 * tenant's values. Erasing a tenant's data key makes all of them noise.
 */
import { hkdfSync } from "node:crypto";
import type { RandomBytes } from "../domain/ids.ts";
import { type EnvelopeKey, envelopeAad, namedKey, openEnvelope, sealEnvelope } from "./envelope.ts";

const KEY_BYTES = 32;
/** Unwrapped data keys kept at hand. */
const CACHED_KEYS_MAX = 1_000;

export interface KeyringOptions {
  /** Key-encryption key, 32 bytes or more. */
  readonly kek: Buffer;
  readonly randomBytes: RandomBytes;
}

export interface Keyring {
  /** A fresh data key for a tenant, wrapped. */
  newTenantDataKey(tenantId: string): string;
  /** Encrypts a tenant's value; `aad` is made with `envelopeAad`. */
  sealForTenant(
    wrappedDataKey: string,
    tenantId: string,
    aad: string,
    plaintext: string | Uint8Array,
  ): string;
  /** Decrypts a tenant's value; throws EnvelopeError. */
  openForTenant(wrappedDataKey: string, tenantId: string, aad: string, envelope: string): Buffer;
  /** Encrypts what belongs to no tenant, for instance signing keys. */
  sealWithKek(aad: string, plaintext: string | Uint8Array): string;
  /** Decrypts what belongs to no tenant; throws EnvelopeError. */
  openWithKek(aad: string, envelope: string): Buffer;
}

function dataKeyAad(tenantId: string): string {
  return envelopeAad("tenants", tenantId, tenantId, 1);
}

/** Makes the keyring of a process. */
export function createKeyring({ kek, randomBytes }: KeyringOptions): Keyring {
  const root = namedKey(Buffer.from(hkdfSync("sha256", kek, "", "signet key-encryption key", KEY_BYTES)));
  const cache = new Map<string, EnvelopeKey>();

  function dataKey(wrapped: string, tenantId: string): EnvelopeKey {
    const name = `${tenantId} ${wrapped}`;
    const cached = cache.get(name);
    // The newest entry goes to the end, so that the first one is the least recently used.
    cache.delete(name);
    const key = cached ?? namedKey(openEnvelope(root, dataKeyAad(tenantId), wrapped));
    cache.set(name, key);
    const oldest = cache.keys().next().value;
    if (cache.size > CACHED_KEYS_MAX && oldest !== undefined) {
      cache.delete(oldest);
    }
    return key;
  }

  return {
    newTenantDataKey: (tenantId) =>
      sealEnvelope(root, dataKeyAad(tenantId), randomBytes(KEY_BYTES), randomBytes),
    sealForTenant: (wrapped, tenantId, aad, plaintext) =>
      sealEnvelope(dataKey(wrapped, tenantId), aad, plaintext, randomBytes),
    openForTenant: (wrapped, tenantId, aad, envelope) =>
      openEnvelope(dataKey(wrapped, tenantId), aad, envelope),
    sealWithKek: (aad, plaintext) => sealEnvelope(root, aad, plaintext, randomBytes),
    openWithKek: (aad, envelope) => openEnvelope(root, aad, envelope),
  };
}
