/** What an edge knows through hubs instead of a database: revocations, verification keys, and the time (decision 33). */
import { createRandomPool } from "#crypto/random-pool.ts";
import type { Config } from "#config/config.ts";
import { DatabaseClock } from "#database/database-clock.ts";
import { readVerificationKeys } from "#database/repositories/tokens/signing-keys.ts";
import { type Clock, type GuardedClock, unguardedClock } from "#domain/clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { Logger } from "#observability/logger.ts";
import { HubFollower } from "#revocation/hub-follower.ts";
import { createHubOpener } from "#revocation/hub-socket.ts";
import { createCodeCheck } from "#revocation/proof.ts";
import { KeyStore } from "#tokens/signing-keys/key-store.ts";
import { hubTls, openHubFiles } from "./certificate-files.ts";
import { followerIdentity, RunningFollower } from "./revocation.ts";

/**
 * The lease is shorter than the bound by this. Smaller than with a database of its own: at a round trip of 180 ms,
 * proofs that are 20 ms apart leave no more.
 */
export const HUB_MARGIN_MS = 10;

export interface HubKnowledge {
  readonly clock: GuardedClock;
  readonly keys: KeyStore;
  readonly revocation: RunningFollower;
}

/** Starts to follow the hubs. Resolves after the first proof, or after a while without one. */
export async function followHubs(
  config: Config & { readonly hubs: readonly string[]; readonly leaseKeys: readonly Buffer[] },
  {
    process = "edge",
    given,
    log,
  }: { readonly process?: string; readonly given?: Clock | undefined; readonly log: Logger },
): Promise<HubKnowledge> {
  const { hubs, leaseKeys, revocationMode: mode } = config;
  const files = await openHubFiles(config, log);
  const clock = given === undefined ? new DatabaseClock(machineTimers) : unguardedClock(given);
  let rows = readVerificationKeys("");
  let store: KeyStore | undefined;
  const follower = new HubFollower({
    hubs,
    open: createHubOpener(() => hubTls(config, files)),
    checkCode: createCodeCheck(leaseKeys),
    identity: followerIdentity(process, config),
    leaseMs: mode.boundMs - HUB_MARGIN_MS,
    onKeys: (text) => {
      rows = readVerificationKeys(text);
      store?.refresh().catch((error: unknown) => log.warn({ err: error }, "changed keys could not be read"));
    },
    clock: systemClock,
    time: clock,
    timers: machineTimers,
    randomBytes: createRandomPool(),
    log,
  });
  await follower.start();
  if (!clock.isKnown) {
    await follower.stop();
    files?.close();
    throw new Error("no hub has brought a proof, so neither keys nor the time are known");
  }
  store = await KeyStore.open({
    read: async () => await Promise.resolve(rows),
    clock,
    timers: machineTimers,
    log,
  });
  return {
    clock,
    keys: store,
    revocation: new RunningFollower(follower, mode, {
      log,
      files,
      close: async () => {
        await follower.stop();
        files?.close();
      },
    }),
  };
}
