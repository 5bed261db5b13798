/**
 * Keys at rest. The key-encryption key wraps one data key per tenant (tenants.data_key), which seals that tenant's
 * values. Erasing a tenant's data key makes all of them unreadable.
 */
import type { KeyObject } from "node:crypto";
import { putBounded } from "#domain/bounded-map.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { contentRoot } from "./content.ts";
import {
  type EnvelopeKey,
  EnvelopeError,
  envelopeAad,
  namedKey,
  openEnvelope,
  sealEnvelope,
} from "./envelope.ts";
import type { KeyEncryption } from "./key-encryption.ts";
import { KeyServiceError } from "./key-service.ts";

const KEY_BYTES = 32;
/** Maximum number of cached data keys. */
const CACHED_KEYS_MAX = 10_000;
/** After this time in use, a data key is unwrapped again in the background: its key-encryption key may be disabled. */
const FRESH_MS = 3_600_000;
/** Time between such attempts while they fail. */
const AGAIN_MS = 60_000;
/** How long a data key is used although a key management service does not answer. */
const KEPT_MS = 12 * FRESH_MS;

export interface KeyringOptions {
  readonly keyEncryption: KeyEncryption;
  readonly randomBytes: RandomBytes;
  readonly monotonicMs: () => number;
}

export interface Keyring {
  /** Creates a data key for a tenant and returns it wrapped. */
  newTenantDataKey(tenantId: string): Promise<string>;
  /** Encrypts a tenant's value; `aad` comes from `envelopeAad`. */
  sealForTenant(
    wrappedDataKey: string,
    tenantId: string,
    aad: string,
    plaintext: string | Uint8Array,
  ): Promise<string>;
  /** Decrypts a tenant's value; rejects with EnvelopeError. */
  openForTenant(wrappedDataKey: string, tenantId: string, aad: string, envelope: string): Promise<Buffer>;
  /** Returns the root of the keys of a tenant's events (crypto/content.ts). Rejects with EnvelopeError. */
  contentRoot(wrappedDataKey: string, tenantId: string): Promise<KeyObject>;
  /** Encrypts a value that belongs to no tenant, for instance a signing key. */
  sealWithKek(aad: string, plaintext: string | Uint8Array): Promise<string>;
  /** Decrypts a value that belongs to no tenant. Rejects with EnvelopeError. */
  openWithKek(aad: string, envelope: string): Promise<Buffer>;
  /** Returns the id of the key-encryption key that wraps now. */
  kekId(): Promise<string>;
  /** Wraps the same content under the newest key-encryption key. Rejects with EnvelopeError. */
  rewrap(aad: string, envelope: string): Promise<string>;
}

interface TenantKeys {
  readonly dataKey: EnvelopeKey;
  readonly contentRoot: KeyObject;
}

interface HeldKeys {
  readonly keys: Promise<TenantKeys>;
  renewAtMs: number;
  untilMs: number;
}

/** Returns the additional data of a tenant's data key. */
export function dataKeyAad(tenantId: string): string {
  return envelopeAad("tenants", tenantId, tenantId, 1);
}

/** Creates the keyring of a process. */
export function createKeyring({ keyEncryption, randomBytes, monotonicMs }: KeyringOptions): Keyring {
  const cache = new Map<string, HeldKeys>();

  async function unwrapDataKey(wrapped: string, tenantId: string): Promise<TenantKeys> {
    const key = await keyEncryption.unwrap(dataKeyAad(tenantId), wrapped);
    return { dataKey: namedKey(key), contentRoot: contentRoot(key) };
  }

  /** Unwraps again to see that it is still permitted. The data key cannot have changed. */
  async function renew(name: string, held: HeldKeys, unwrap: () => Promise<TenantKeys>): Promise<void> {
    held.renewAtMs = monotonicMs() + AGAIN_MS;
    try {
      await unwrap();
      held.renewAtMs = monotonicMs() + FRESH_MS;
      held.untilMs = monotonicMs() + KEPT_MS;
    } catch (error) {
      const isLost = error instanceof EnvelopeError || (error instanceof KeyServiceError && error.refused);
      if (isLost && cache.get(name) === held) {
        cache.delete(name);
      }
    }
  }

  async function tenantKeys(wrapped: string, tenantId: string): Promise<TenantKeys> {
    const name = `${tenantId} ${wrapped}`;
    const unwrap = async (): Promise<TenantKeys> => await unwrapDataKey(wrapped, tenantId);
    const nowMs = monotonicMs();
    const known = cache.get(name);
    const held =
      known !== undefined && nowMs < known.untilMs
        ? known
        : { keys: unwrap(), renewAtMs: nowMs + FRESH_MS, untilMs: nowMs + KEPT_MS };
    putBounded(cache, name, held, CACHED_KEYS_MAX);
    if (nowMs >= held.renewAtMs) {
      void renew(name, held, unwrap);
    }
    try {
      return await held.keys;
    } catch (error) {
      // Let the next caller retry: a key service may have been unreachable.
      if (cache.get(name) === held) {
        cache.delete(name);
      }
      throw error;
    }
  }

  return {
    newTenantDataKey: async (tenantId) =>
      await keyEncryption.wrap(dataKeyAad(tenantId), randomBytes(KEY_BYTES)),
    sealForTenant: async (wrapped, tenantId, aad, plaintext) =>
      sealEnvelope((await tenantKeys(wrapped, tenantId)).dataKey, aad, plaintext, randomBytes),
    openForTenant: async (wrapped, tenantId, aad, envelope) =>
      openEnvelope((await tenantKeys(wrapped, tenantId)).dataKey, aad, envelope),
    contentRoot: async (wrapped, tenantId) => (await tenantKeys(wrapped, tenantId)).contentRoot,
    sealWithKek: async (aad, plaintext) => await keyEncryption.wrap(aad, Buffer.from(plaintext)),
    openWithKek: async (aad, envelope) => await keyEncryption.unwrap(aad, envelope),
    kekId: async () => await keyEncryption.currentKeyId(),
    rewrap: async (aad, envelope) => await keyEncryption.wrap(aad, await keyEncryption.unwrap(aad, envelope)),
  };
}
