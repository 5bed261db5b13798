/** Follows revocations with the product's own code, as edges do. One process runs many followers. */
import { randomInt } from "node:crypto";
import { DatabaseClock } from "#database/database-clock.ts";
import { createPool } from "#database/pool.ts";
import { subscribe } from "#database/subscription.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { REVOCATION_CHANNEL, RevocationFollower } from "#revocation/follower.ts";
import { STRICT_BOUND_MS } from "#config/revocation.ts";
import { monotonicMs } from "./monotonic.ts";
import { serve } from "./rpc.ts";

const MARGIN_MS = 50;
const IDLE_MS = 5_000;
const LOCK_KEYS = 2 ** 31;
const WATCH_EVERY_MS = 1;

export interface FollowPlan {
  readonly url: string;
  readonly count: number;
}

/** When a follower applied a revocation: its sequence number, and Unix milliseconds. */
export type Applied = readonly [sequence: number, atMs: number];

const followers: RevocationFollower[] = [];
const applied: Applied[] = [];
const log = createLogger({ level: "fatal" });
let lastCurrent: number[] = [];
let watch: NodeJS.Timeout | undefined;

async function follow({ url, count }: FollowPlan): Promise<void> {
  for (let number = 0; number < count; number += 1) {
    const follower = new RevocationFollower({
      subscribe: async ({ onNotification, onLost }) =>
        await subscribe({
          timers: machineTimers,
          url,
          role: "signet_edge",
          channel: REVOCATION_CHANNEL,
          idleMs: IDLE_MS,
          onLost,
          onNotification: (payload) => {
            onNotification(payload);
            applied.push([Number(payload.split(":")[0]), performance.timeOrigin + performance.now()]);
          },
        }),
      other: createPool({ url, role: "signet_edge", max: 1, log }),
      identity: { lockKey: randomInt(LOCK_KEYS), process: "bench", region: null, version: "bench" },
      leaseMs: STRICT_BOUND_MS - MARGIN_MS,
      clock: systemClock,
      time: new DatabaseClock(machineTimers),
      timers: machineTimers,
      log,
    });
    followers.push(follower);
    await follower.start();
  }
}

serve({
  follow,
  /** Returns and clears the entries recorded since the last call. */
  applied: () => applied.splice(0),
  current: () => followers.filter(({ view }) => view.current).length,
  /** From now on, records when each follower could last have admitted a token. */
  watch: () => {
    lastCurrent = followers.map(() => 0);
    watch = setInterval(() => {
      const now = monotonicMs();
      followers.forEach(({ view }, index) => {
        lastCurrent[index] = view.current ? now : (lastCurrent[index] ?? 0);
      });
    }, WATCH_EVERY_MS);
  },
  watched: () => {
    clearInterval(watch);
    return lastCurrent;
  },
});
