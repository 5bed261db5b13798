/** Many followers behind hubs, with the product's own code, whose verdicts are sampled as requests would see them. */
import { randomBytes, randomInt } from "node:crypto";
import { DatabaseClock } from "#database/database-clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { HubFollower } from "#revocation/hub-follower.ts";
import { createHubOpener } from "#revocation/hub-socket.ts";
import { createCodeCheck } from "#revocation/proof.ts";
import { serve } from "./rpc.ts";

const LEASE_MS = 240;
const LOCK_KEYS = 2 ** 31;
/** Between two samples: from `watch` until all deny, and otherwise. A denial is never lifted, so no sample shows a later one. */
const WATCH_MS = 5;
const SAMPLE_MS = 20;
/** A request waits this long for a lease, then it is rejected. */
const REJECTED_AFTER_MS = 250;
const STARTED_AT_ONCE = 25;

const NO_TARGET = "none";
const TOKEN = {
  credentialId: "",
  principalId: "",
  tenantId: "",
  kid: "",
  issuedAt: 0,
  certificateThumbprint: undefined,
};

export interface HubFollowersPlan {
  /** URLs of the hubs; follower n follows the n-th, and `hubsEach` in all. */
  readonly hubs: readonly string[];
  readonly hubsEach: number;
  readonly count: number;
  readonly key: Buffer;
}

/** What a follower decided about a token since `watch`. */
export interface Watched {
  /** Unix milliseconds when it last admitted; 0 for never. */
  readonly lastAdmitted: readonly number[];
  /** Unix milliseconds when it first denied; 0 for never. */
  readonly firstDenied: readonly number[];
}

/** Samples since the last call. */
export interface Samples {
  readonly taken: number;
  /** Time that the samples stand for, and that part of it without a lease, in milliseconds of all followers. */
  readonly sampledMs: number;
  readonly staleMs: number;
  /** Stretches without a lease that would have rejected a request. */
  readonly rejecting: number;
  /** Longest stretch without a lease, in milliseconds. */
  readonly longestStaleMs: number;
  /** Longest pause between two samples, which hides what happened in it, in milliseconds. */
  readonly longestPauseMs: number;
}

const followers: HubFollower[] = [];
const log = createLogger({ level: "fatal" });
let target = NO_TARGET;
let lastAdmitted: number[] = [];
let firstDenied: number[] = [];
let staleSince: number[] = [];
let sampledAt = 0;
let sampling: NodeJS.Timeout | undefined;
const counts = { taken: 0, sampledMs: 0, staleMs: 0, rejecting: 0, longestStaleMs: 0, longestPauseMs: 0 };

function wallMs(): number {
  return performance.timeOrigin + performance.now();
}

/** Notes what one follower decides now. @returns whether it denies */
function look(index: number, { view }: HubFollower, now: number, passedMs: number): boolean {
  const verdict = view.verdict({ ...TOKEN, jti: target });
  counts.taken += 1;
  counts.sampledMs += passedMs;
  if (verdict === "admit") {
    lastAdmitted[index] = now;
  } else if (verdict === "revoked" && !firstDenied[index]) {
    firstDenied[index] = now;
  }
  const since = staleSince[index] ?? 0;
  if (view.current) {
    counts.rejecting += since > 0 && now - since > REJECTED_AFTER_MS ? 1 : 0;
    counts.longestStaleMs = Math.max(counts.longestStaleMs, since > 0 ? now - since : 0);
    staleSince[index] = 0;
  } else {
    counts.staleMs += passedMs;
    // The lease says since when it has ended.
    const endedMs = view.ageMs - LEASE_MS;
    staleSince[index] = since > 0 ? since : now - (Number.isFinite(endedMs) ? endedMs : 0);
  }
  return verdict === "revoked";
}

function sample(): void {
  const now = wallMs();
  const passedMs = sampledAt > 0 ? now - sampledAt : 0;
  counts.longestPauseMs = Math.max(counts.longestPauseMs, passedMs);
  sampledAt = now;
  let denying = 0;
  followers.forEach((follower, index) => {
    denying += look(index, follower, now, passedMs) ? 1 : 0;
  });
  sampleEvery(target === NO_TARGET || denying === followers.length ? SAMPLE_MS : WATCH_MS);
}

function sampleEvery(ms: number): void {
  clearTimeout(sampling);
  sampling = setTimeout(sample, ms);
}

async function follow({ hubs, hubsEach, count, key }: HubFollowersPlan): Promise<void> {
  const checkCode = createCodeCheck([Buffer.from(key)]);
  const open = createHubOpener(() => undefined);
  for (let number = 0; number < count; number += 1) {
    followers.push(
      new HubFollower({
        hubs: Array.from({ length: hubsEach }, (_, step) => hubs[(number + step) % hubs.length] ?? ""),
        open,
        checkCode,
        identity: { lockKey: randomInt(LOCK_KEYS), process: "edge", region: "bench", version: "bench" },
        leaseMs: LEASE_MS,
        onKeys: () => undefined,
        clock: systemClock,
        time: new DatabaseClock(machineTimers),
        timers: machineTimers,
        randomBytes,
        log,
      }),
    );
  }
  for (let first = 0; first < count; first += STARTED_AT_ONCE) {
    await Promise.all(
      followers.slice(first, first + STARTED_AT_ONCE).map(async (follower) => await follower.start()),
    );
  }
}

serve({
  follow,
  current: () => followers.filter(({ view }) => view.current).length,
  watch: (jti: string) => {
    target = jti;
    lastAdmitted = followers.map(() => 0);
    firstDenied = followers.map(() => 0);
    sampleEvery(WATCH_MS);
  },
  watched: (): Watched => {
    target = NO_TARGET;
    return { lastAdmitted, firstDenied };
  },
  /** Ends the sampling, which costs more than following. `samples` or `watch` begins it again. */
  rest: () => clearTimeout(sampling),
  samples: (): Samples => {
    const taken = { ...counts };
    Object.assign(counts, {
      taken: 0,
      sampledMs: 0,
      staleMs: 0,
      rejecting: 0,
      longestStaleMs: 0,
      longestPauseMs: 0,
    });
    staleSince = followers.map(() => 0);
    sampledAt = 0;
    sampleEvery(SAMPLE_MS);
    return taken;
  },
});
