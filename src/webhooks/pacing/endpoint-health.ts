/**
 * Endpoints that were recently slow, or have failed for a while. Their deliveries take the slow lane, so that a hanging
 * receiver uses only its own slots. Bounded. The caller passes the time.
 */
import type { Pool } from "#database/pool.ts";
import { readHealth, writeHealth } from "#database/repositories/health.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock } from "#domain/clock.ts";
import type { UpkeepJob } from "#runtime/upkeep.ts";

const EXCHANGE_MS = 1_000;
/** An endpoint counts as slow for this long after its last slow or failed attempt. */
const SLOW_MS = 60_000;
/**
 * An endpoint that fails quickly counts as slow once it has failed for this long without a success. Before, its failures
 * cost less in common lists.
 */
const FAILING_MS = 10_000;
/** A first attempt waits this long for its response. A response that takes longer is slow. */
const SLOW_ANSWER_MS = 1_000;
const SMOOTHING = 0.3;
const ENDPOINTS_MAX = 50_000;
/** Minimum interval between renewals that other workers already know of. */
const RENEW_MS = 20_000;

export interface SlowEndpoint {
  readonly endpointId: string;
  /** Smoothed request duration, in milliseconds. */
  readonly latencyMs: number;
  /** Unix milliseconds. */
  readonly slowUntilMs: number;
}

interface Health {
  latencyMs: number;
  slowUntilMs: number;
  writtenUntilMs: number;
  /** When the first and the last quick failure since its last success were, in Unix milliseconds. */
  failingSinceMs: number;
  failedAtMs: number;
  /** When the first of the requests began that got no answer, in Unix milliseconds; undefined after an answer. */
  silentSinceMs?: number | undefined;
}

const NOTHING_KNOWN = {
  slowUntilMs: 0,
  writtenUntilMs: 0,
  failingSinceMs: Number.NEGATIVE_INFINITY,
  failedAtMs: Number.NEGATIVE_INFINITY,
} as const;

/** Result of an attempt. */
export interface HealthOutcome {
  readonly ok: boolean;
  /** Whether the receiver said nothing until the end of the request. */
  readonly timedOut: boolean;
  readonly durationMs: number;
}

/** If this process is delayed by this much, slow responses say nothing about receivers. */
const OWN_DELAY_MAX_MS = 100;
/** A process that stopped for this long may have missed timely responses, so it ignores failures too. */
const OWN_STOP_MS = 2_000;

export class EndpointHealth {
  readonly #ownDelayMs: () => number;
  readonly #endpoints = new Map<string, Health>();
  readonly #unwritten = new Set<string>();

  /** @param ownDelayMs current delay of this process's event loop, in milliseconds */
  constructor(ownDelayMs: () => number) {
    this.#ownDelayMs = ownDelayMs;
  }

  /** Records the result of an attempt. */
  noteOutcome(endpointId: string, outcome: HealthOutcome, nowMs: number): void {
    const health = this.#endpoints.get(endpointId);
    if (health !== undefined && !outcome.timedOut) {
      health.silentSinceMs = undefined;
    }
    const isQuick = outcome.durationMs < SLOW_ANSWER_MS && !outcome.timedOut;
    if (outcome.ok && isQuick) {
      this.#recover(endpointId, health, nowMs);
    } else if (this.#ownDelayMs() < (outcome.ok ? OWN_DELAY_MAX_MS : OWN_STOP_MS)) {
      if (!isQuick || this.#failsForLong(endpointId, outcome.durationMs, nowMs)) {
        this.#slow(endpointId, outcome.durationMs, nowMs, outcome.timedOut);
      }
    }
  }

  /** Records that a first attempt has exceeded the response time of a healthy receiver. */
  noteUnanswered(endpointId: string, nowMs: number): void {
    if (this.#ownDelayMs() < OWN_DELAY_MAX_MS) {
      this.#slow(endpointId, SLOW_ANSWER_MS, nowMs, true);
    }
  }

  isSlow(endpointId: string, nowMs: number): boolean {
    return (this.#endpoints.get(endpointId)?.slowUntilMs ?? 0) > nowMs;
  }

  latencyMs(endpointId: string): number {
    return this.#endpoints.get(endpointId)?.latencyMs ?? SLOW_ANSWER_MS;
  }

  /**
   * Returns since when an endpoint has answered no request of this process: when the first of them began, in Unix
   * milliseconds. Undefined if it answered the last one.
   */
  silentSinceMs(endpointId: string): number | undefined {
    return this.#endpoints.get(endpointId)?.silentSinceMs;
  }

  /** Returns the endpoints that take the slow lane now. */
  slow(nowMs: number): string[] {
    return [...this.#endpoints]
      .filter(([, health]) => health.slowUntilMs > nowMs)
      .map(([endpointId]) => endpointId);
  }

  /** Returns each change that other workers should know of once. */
  takeChanges(): SlowEndpoint[] {
    const changes = [...this.#unwritten].flatMap((endpointId): SlowEndpoint[] => {
      const health = this.#endpoints.get(endpointId);
      if (health === undefined) {
        return [];
      }
      health.writtenUntilMs = health.slowUntilMs;
      return [{ endpointId, latencyMs: Math.round(health.latencyMs), slowUntilMs: health.slowUntilMs }];
    });
    this.#unwritten.clear();
    return changes;
  }

  /** Merges what other workers know, and drops expired entries. */
  merge(known: readonly SlowEndpoint[], nowMs: number): void {
    for (const [endpointId, health] of this.#endpoints) {
      const isOver = Math.max(health.slowUntilMs, health.failedAtMs + SLOW_MS) <= nowMs;
      if (isOver && !this.#unwritten.has(endpointId)) {
        this.#endpoints.delete(endpointId);
      }
    }
    for (const { endpointId, latencyMs, slowUntilMs } of known) {
      const mine = this.#endpoints.get(endpointId);
      if (mine === undefined) {
        this.#keep(endpointId, {
          ...NOTHING_KNOWN,
          latencyMs,
          slowUntilMs,
          writtenUntilMs: slowUntilMs,
        });
      } else if (!this.#unwritten.has(endpointId)) {
        mine.slowUntilMs = slowUntilMs;
        mine.writtenUntilMs = slowUntilMs;
      }
    }
  }

  /** Most endpoints are healthy, so they are not stored. */
  #recover(endpointId: string, health: Health | undefined, nowMs: number): void {
    if (health?.slowUntilMs === 0) {
      this.#endpoints.delete(endpointId);
    } else if (health !== undefined) {
      health.failedAtMs = Number.NEGATIVE_INFINITY;
      health.slowUntilMs = Math.min(health.slowUntilMs, nowMs);
      this.#unwritten.add(endpointId);
    }
  }

  /** Notes a quick failure. Returns whether the endpoint is slow by it, or was so before. */
  #failsForLong(endpointId: string, tookMs: number, nowMs: number): boolean {
    const health: Health = this.#endpoints.get(endpointId) ?? { ...NOTHING_KNOWN, latencyMs: tookMs };
    health.failingSinceMs = health.failedAtMs + SLOW_MS > nowMs ? health.failingSinceMs : nowMs;
    health.failedAtMs = nowMs;
    this.#keep(endpointId, health);
    return nowMs - health.failingSinceMs >= FAILING_MS || health.slowUntilMs > nowMs;
  }

  #slow(endpointId: string, tookMs: number, nowMs: number, isSilent: boolean): void {
    const health: Health = this.#endpoints.get(endpointId) ?? { ...NOTHING_KNOWN, latencyMs: tookMs };
    if (isSilent) {
      const isKnown = health.slowUntilMs > nowMs;
      health.silentSinceMs = (isKnown ? health.silentSinceMs : undefined) ?? nowMs - tookMs;
    }
    health.latencyMs += SMOOTHING * (tookMs - health.latencyMs);
    health.slowUntilMs = nowMs + SLOW_MS;
    this.#keep(endpointId, health);
    if (health.slowUntilMs > health.writtenUntilMs + RENEW_MS) {
      this.#unwritten.add(endpointId);
    }
  }

  #keep(endpointId: string, health: Health): void {
    const forgotten = putBounded(this.#endpoints, endpointId, health, ENDPOINTS_MAX);
    if (forgotten !== undefined) {
      this.#unwritten.delete(forgotten);
    }
  }
}

/**
 * Returns the job that exchanges the health of endpoints with other workers. Without others it only writes, for ingest and
 * for later ones.
 */
export function healthJob(
  health: EndpointHealth,
  { pool, clock }: { readonly pool: Pool; readonly clock: Clock },
  presence: { readonly alone: boolean },
): UpkeepJob {
  return {
    name: "endpoint health",
    everyMs: EXCHANGE_MS,
    run: async () => {
      await writeHealth(pool, health.takeChanges());
      const now = clock.now();
      health.merge(presence.alone ? [] : await readHealth(pool, new Date(now)), now);
    },
  };
}
