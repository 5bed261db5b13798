/** Many followers behind hubs, with the product's own code, whose verdicts are sampled as requests would see them. */
import { randomBytes, randomInt } from "node:crypto";
import { systemClock } from "../../../src/domain/clock.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { HubFollower } from "../../../src/revocation/hub-follower.ts";
import { createHubOpener } from "../../../src/revocation/hub-socket.ts";
import { createCodeCheck } from "../../../src/revocation/proof.ts";
import { serve } from "./rpc.ts";

const LEASE_MS = 240;
const LOCK_KEYS = 2 ** 31;
const SAMPLE_MS = 5;
/** A request waits this long for a lease, then it is rejected. */
const REJECTED_AFTER_MS = 100;
const STARTED_AT_ONCE = 25;

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
  readonly stale: number;
  /** Stretches without a lease that would have rejected a request. */
  readonly rejecting: number;
  /** Longest stretch without a lease, in milliseconds. */
  readonly longestStaleMs: number;
  /** Longest pause between two samples, which hides what happened in it, in milliseconds. */
  readonly longestPauseMs: number;
}

const followers: HubFollower[] = [];
const log = createLogger({ level: "fatal" });
let target = "none";
let lastAdmitted: number[] = [];
let firstDenied: number[] = [];
let staleSince: number[] = [];
let sampledAt = 0;
const counts = { taken: 0, stale: 0, rejecting: 0, longestStaleMs: 0, longestPauseMs: 0 };

function wallMs(): number {
  return performance.timeOrigin + performance.now();
}

function sample(): void {
  const now = wallMs();
  if (sampledAt > 0) {
    counts.longestPauseMs = Math.max(counts.longestPauseMs, now - sampledAt);
  }
  sampledAt = now;
  followers.forEach(({ view }, index) => {
    const verdict = view.verdict({
      credentialId: "",
      principalId: "",
      tenantId: "",
      jti: target,
      kid: "",
      issuedAt: 0,
      certificateThumbprint: undefined,
    });
    counts.taken += 1;
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
      counts.stale += 1;
      staleSince[index] = since > 0 ? since : now;
    }
  });
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
        monotonic: () => performance.now(),
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
  setInterval(sample, SAMPLE_MS);
}

serve({
  follow,
  current: () => followers.filter(({ view }) => view.current).length,
  watch: (jti: string) => {
    target = jti;
    lastAdmitted = followers.map(() => 0);
    firstDenied = followers.map(() => 0);
  },
  watched: (): Watched => ({ lastAdmitted, firstDenied }),
  samples: (): Samples => {
    const taken = { ...counts };
    Object.assign(counts, { taken: 0, stale: 0, rejecting: 0, longestStaleMs: 0, longestPauseMs: 0 });
    staleSince = followers.map(() => 0);
    sampledAt = 0;
    return taken;
  },
});
