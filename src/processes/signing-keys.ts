/** The signing keys of a process: created if missing, and read again on every change. */
import { randomBytes } from "node:crypto";
import type { Config } from "#config/config.ts";
import { type DatabaseUrls, directUrl } from "#config/database-settings.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { listen } from "#database/listener.ts";
import type { Pool } from "#database/pool.ts";
import { type KeyPurpose, SIGNING_KEYS_CHANNEL } from "#database/repositories/tokens/signing-keys.ts";
import type { GuardedClock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";
import { ensureSigningKey, KeyStore, type KeyStoreOptions } from "#tokens/signing-keys/key-store.ts";
import { type KeyAlgorithms, signingKeysJob } from "#tokens/signing-keys/rotate.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface SigningKeyProcessServices {
  readonly config: Pick<Config, "jwtAlg" | "setAlg"> & DatabaseUrls;
  readonly pools: { readonly operator: Pool; readonly issuer: Pool };
  readonly keyring: Keyring;
  readonly clock: GuardedClock;
  readonly log: Logger;
}

/** The keys of an api. */
export interface ApiKeys {
  /** Of access tokens and status lists. Closing it closes the other, too. */
  readonly keys: KeyStore;
  /** Of security events. */
  readonly setKeys: Pick<KeyStore, "signingKey" | "publicKeys">;
  readonly jobs: readonly UpkeepJob[];
}

/** Returns the algorithms of new keys. */
export function keyAlgorithms({ jwtAlg, setAlg }: Pick<Config, "jwtAlg" | "setAlg">): KeyAlgorithms {
  return { access: jwtAlg, set: setAlg ?? jwtAlg };
}

/** Opens the key stores of an api, which rotates the keys of access tokens. */
export async function openSigningKeys(parts: SigningKeyProcessServices): Promise<ApiKeys> {
  const { config, pools, keyring, clock, log } = parts;
  const algs = keyAlgorithms(config);
  const open = async (purpose: KeyPurpose): Promise<KeyStore> => {
    await ensureSigningKey({ db: pools.operator, keyring, clock, purpose, alg: algs[purpose] });
    return await KeyStore.open({ db: pools.issuer, keyring, purpose, clock, timers: machineTimers, log });
  };
  const [keys, setKeys] = await Promise.all([open("access"), open("set")]);
  keys.endWith(follow(config, [keys, setKeys], log)).endWith(async () => await setKeys.close());
  const { operator: pool } = pools;
  return {
    keys,
    setKeys,
    jobs: [signingKeysJob({ pool, keyring, clock, timers: machineTimers, randomBytes, algs })],
  };
}

export interface SetKeyServices extends Pick<
  SigningKeyProcessServices,
  "config" | "keyring" | "clock" | "log"
> {
  readonly pools: { readonly operator: Pool; readonly worker: Pool };
  /** Whether this is a cell without keys of its own. */
  readonly away: boolean;
}

/** Opens the keys of a worker: those of security events. It starts without them, since webhooks need none. */
export async function openSetKeys(parts: SetKeyServices): Promise<KeyStore> {
  const { config, pools, keyring, clock, log, away } = parts;
  const purpose = "set";
  if (!away) {
    const alg = keyAlgorithms(config)[purpose];
    await ensureSigningKey({ db: pools.operator, keyring, clock, purpose, alg }).catch((error: unknown) =>
      log.warn({ err: error }, "the first key of security events could not be created"),
    );
  }
  return await KeyStore.open({
    db: pools.worker,
    keyring,
    purpose,
    optional: true,
    clock,
    timers: machineTimers,
    log,
  });
}

/** Opens a key store and reads it again whenever a key changes. */
export async function followKeys(config: DatabaseUrls, options: KeyStoreOptions): Promise<KeyStore> {
  const store = await KeyStore.open(options);
  return store.endWith(follow(config, [store], options.log));
}

/** Reads stores again whenever a key changes. Returns a function that ends that. */
function follow(config: DatabaseUrls, stores: readonly KeyStore[], log: Logger): () => Promise<void> {
  const refresh = (store: KeyStore): void => {
    store
      .refresh()
      .catch((error: unknown) => log.warn({ err: error }, "changed signing keys could not be read"));
  };
  return listen({
    url: directUrl(config),
    channels: { [SIGNING_KEYS_CHANNEL]: () => stores.forEach(refresh) },
    timers: machineTimers,
    log,
  });
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
