/** What an api learns from the home cell (decision 35): verification keys, revocations and the time. */
import { homeDatabase } from "#cells/home-cell.ts";
import type { Config } from "#config/config.ts";
import { named } from "#config/database-settings.ts";
import { requireReachable } from "#database/access.ts";
import { openDatabaseClock } from "#database/database-clock.ts";
import { createPool } from "#database/pool.ts";
import type { GuardedClock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { machineTimers } from "#runtime/machine-timers.ts";
import type { KeyStore } from "#tokens/signing-keys/key-store.ts";
import { followHubs } from "./hub-knowledge.ts";
import { followRevocations, type RunningFollower } from "./revocation.ts";
import { followKeys } from "./signing-keys.ts";

export interface FollowHomeOptions {
  readonly config: Config;
  readonly onPolicyChange: (tenantId: string) => void;
  readonly log: Logger;
}

/** What an api knows of the home cell. */
export interface KnownOfHome {
  readonly keys: KeyStore;
  readonly revocation: RunningFollower;
  /** The home cell's clock: it dates tokens, denials and signing keys (decision 39). */
  readonly clock: GuardedClock;
}

/** Follows the keys, the revocations and the time of the home cell, through hubs if SIGNET_HUBS names some. */
export async function followHome(options: FollowHomeOptions): Promise<KnownOfHome> {
  const { config, log } = options;
  const { hubs, leaseKeys } = config;
  if (hubs !== undefined && leaseKeys !== undefined) {
    return await followHubs({ ...config, hubs, leaseKeys }, { process: "api", log });
  }
  const url = homeDatabase(config);
  const home = { ...config, databaseUrl: url, databaseDirectUrl: undefined };
  await requireReachable(named(config, url));
  const pool = createPool({ url, role: "signet_edge", max: 2, log });
  const clock = await openDatabaseClock(pool, machineTimers);
  const keys = await followKeys(home, { db: pool, clock, timers: machineTimers, log });
  return {
    clock,
    keys: keys.endWith(async () => await pool.end()),
    revocation: await followRevocations({ ...options, config: home, time: clock }),
  };
}
