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

/** The keyring of a process. */
export class Keyring {
  readonly #options: KeyringOptions;
  readonly #cache = new Map<string, HeldKeys>();

  constructor(options: KeyringOptions) {
    this.#options = options;
  }

  /** Creates a data key for a tenant and returns it wrapped. */
  async newTenantDataKey(tenantId: string): Promise<string> {
    const { keyEncryption, randomBytes } = this.#options;
    return await keyEncryption.wrap(dataKeyAad(tenantId), randomBytes(KEY_BYTES));
  }

  /** Encrypts a tenant's value; `aad` comes from `envelopeAad`. */
  async sealForTenant(
    wrapped: string,
    tenantId: string,
    aad: string,
    plaintext: string | Uint8Array,
  ): Promise<string> {
    const { dataKey } = await this.#tenantKeys(wrapped, tenantId);
    return sealEnvelope(dataKey, aad, plaintext, this.#options.randomBytes);
  }

  /** Decrypts a tenant's value; rejects with EnvelopeError. */
  async openForTenant(wrapped: string, tenantId: string, aad: string, envelope: string): Promise<Buffer> {
    return openEnvelope((await this.#tenantKeys(wrapped, tenantId)).dataKey, aad, envelope);
  }

  /** Returns the root of the keys of a tenant's events (crypto/content.ts). Rejects with EnvelopeError. */
  async contentRoot(wrapped: string, tenantId: string): Promise<KeyObject> {
    return (await this.#tenantKeys(wrapped, tenantId)).contentRoot;
  }

  /** Encrypts a value that belongs to no tenant, for instance a signing key. */
  async sealWithKek(aad: string, plaintext: string | Uint8Array): Promise<string> {
    return await this.#options.keyEncryption.wrap(aad, Buffer.from(plaintext));
  }

  /** Decrypts a value that belongs to no tenant. Rejects with EnvelopeError. */
  async openWithKek(aad: string, envelope: string): Promise<Buffer> {
    return await this.#options.keyEncryption.unwrap(aad, envelope);
  }

  /** Returns the id of the key-encryption key that wraps now. */
  async kekId(): Promise<string> {
    return await this.#options.keyEncryption.currentKeyId();
  }

  /** Wraps the same content under the newest key-encryption key. Rejects with EnvelopeError. */
  async rewrap(aad: string, envelope: string): Promise<string> {
    return await this.sealWithKek(aad, await this.openWithKek(aad, envelope));
  }

  /** Unwraps again to see that it is still permitted. The data key cannot have changed. */
  async #renew(name: string, held: HeldKeys, unwrap: () => Promise<TenantKeys>): Promise<void> {
    const { monotonicMs } = this.#options;
    held.renewAtMs = monotonicMs() + AGAIN_MS;
    try {
      await unwrap();
      held.renewAtMs = monotonicMs() + FRESH_MS;
      held.untilMs = monotonicMs() + KEPT_MS;
    } catch (error) {
      const isLost = error instanceof EnvelopeError || (error instanceof KeyServiceError && error.refused);
      if (isLost && this.#cache.get(name) === held) {
        this.#cache.delete(name);
      }
    }
  }

  async #tenantKeys(wrapped: string, tenantId: string): Promise<TenantKeys> {
    const name = `${tenantId} ${wrapped}`;
    const unwrap = async (): Promise<TenantKeys> => {
      const key = await this.#options.keyEncryption.unwrap(dataKeyAad(tenantId), wrapped);
      return { dataKey: namedKey(key), contentRoot: contentRoot(key) };
    };
    const nowMs = this.#options.monotonicMs();
    const known = this.#cache.get(name);
    const held =
      known !== undefined && nowMs < known.untilMs
        ? known
        : { keys: unwrap(), renewAtMs: nowMs + FRESH_MS, untilMs: nowMs + KEPT_MS };
    putBounded(this.#cache, name, held, CACHED_KEYS_MAX);
    if (nowMs >= held.renewAtMs) {
      void this.#renew(name, held, unwrap);
    }
    try {
      return await held.keys;
    } catch (error) {
      // Let the next caller retry: a key service may have been unreachable.
      if (this.#cache.get(name) === held) {
        this.#cache.delete(name);
      }
      throw error;
    }
  }
}
