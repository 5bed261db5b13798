/** The signing keys of a process: created if missing, and read again on every change. */
import type { Config } from "../config/config.ts";
import { type DatabaseUrls, directUrl } from "../config/database-settings.ts";
import type { Keyring } from "../crypto/keyring.ts";
import { listen } from "../database/listener.ts";
import type { Pool } from "../database/pool.ts";
import { SIGNING_KEYS_CHANNEL } from "../database/repositories/tokens/signing-keys.ts";
import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../observability/logger.ts";
import {
  ensureSigningKey,
  type KeyStore,
  type KeyStoreOptions,
  openKeyStore,
} from "../tokens/signing-keys/key-store.ts";

export interface SigningKeyParts {
  readonly config: Pick<Config, "jwtAlg"> & DatabaseUrls;
  readonly pools: { readonly operator: Pool; readonly issuer: Pool };
  readonly keyring: Keyring;
  readonly clock: Clock;
  readonly log: Logger;
}

/** A key store that follows changes. */
export type FollowingKeyStore = Omit<KeyStore, "close"> & { close(): Promise<void> };

/** Opens the key store of a process that signs. */
export async function openSigningKeys(parts: SigningKeyParts): Promise<FollowingKeyStore> {
  const { config, pools, keyring, clock, log } = parts;
  await ensureSigningKey({ db: pools.operator, keyring, clock, alg: config.jwtAlg });
  return await followKeys(config, { db: pools.issuer, keyring, clock, log });
}

/** Opens a key store and reads it again whenever a key changes. */
export async function followKeys(config: DatabaseUrls, options: KeyStoreOptions): Promise<FollowingKeyStore> {
  const { log } = options;
  const store = await openKeyStore(options);
  const listener = listen({
    url: directUrl(config),
    channels: {
      [SIGNING_KEYS_CHANNEL]: () => {
        store
          .refresh()
          .catch((error: unknown) => log.warn({ err: error }, "changed signing keys could not be read"));
      },
    },
    log,
  });
  return {
    ...store,
    close: async () => {
      store.close();
      await listener.stop();
    },
  };
}

/** @throws Error if there are no keys to check tokens with */
export async function requireVerificationKeys(keys: Pick<KeyStore, "publicKeys" | "refresh">): Promise<void> {
  if (keys.publicKeys().length === 0) {
    await keys.refresh();
  }
  if (keys.publicKeys().length === 0) {
    throw new Error("there are no keys to check tokens with");
  }
}
