/**
 * Which endpoints were slow or failed lately. Their deliveries take the slow lane, so that receivers that hang hold
 * slots of their own and nobody else's (architecture 3). Bounded; time is an argument.
 */
import { putBounded } from "../../domain/bounded-map.ts";

/** An endpoint that was slow or failed is treated so for this long after the last sign of it. */
const SLOW_MS = 60_000;
/** A first attempt is waited for so long; what takes longer is slow. */
const SLOW_ANSWER_MS = 1_000;
const SMOOTHING = 0.3;
const ENDPOINTS_MAX = 50_000;
/** Renewals of what others know already are not written more often than this. */
const RENEW_MS = 20_000;

export interface SlowEndpoint {
  readonly endpointId: string;
  /** What a request to it takes, smoothed, in milliseconds. */
  readonly latencyMs: number;
  /** Unix milliseconds. */
  readonly slowUntilMs: number;
}

interface Health {
  latencyMs: number;
  slowUntilMs: number;
  writtenUntilMs: number;
}

/** While this process is so far behind itself, slow answers say nothing of receivers. */
const OWN_DELAY_MAX_MS = 100;
/** A process that was stopped for so long may have missed answers that came in time: not even failures say anything. */
const OWN_STOP_MS = 2_000;

export class EndpointHealth {
  readonly #ownDelayMs: () => number;
  readonly #endpoints = new Map<string, Health>();
  readonly #unwritten = new Set<string>();

  /** @param ownDelayMs how far this process is behind itself now */
  constructor(ownDelayMs: () => number) {
    this.#ownDelayMs = ownDelayMs;
  }

  /** An attempt has ended. */
  noteOutcome(
    endpointId: string,
    outcome: { readonly ok: boolean; readonly durationMs: number },
    nowMs: number,
  ): void {
    const health = this.#endpoints.get(endpointId);
    if (outcome.ok && outcome.durationMs < SLOW_ANSWER_MS) {
      // Healthy endpoints are the many: nothing is kept of them.
      if (health !== undefined) {
        health.slowUntilMs = Math.min(health.slowUntilMs, nowMs);
        this.#unwritten.add(endpointId);
      }
      return;
    }
    if (this.#ownDelayMs() < (outcome.ok ? OWN_DELAY_MAX_MS : OWN_STOP_MS)) {
      this.#slow(endpointId, outcome.durationMs, nowMs);
    }
  }

  /** A first attempt is still unanswered after the time that a healthy receiver needs. */
  noteUnanswered(endpointId: string, nowMs: number): void {
    if (this.#ownDelayMs() < OWN_DELAY_MAX_MS) {
      this.#slow(endpointId, SLOW_ANSWER_MS, nowMs);
    }
  }

  isSlow(endpointId: string, nowMs: number): boolean {
    return (this.#endpoints.get(endpointId)?.slowUntilMs ?? 0) > nowMs;
  }

  latencyMs(endpointId: string): number {
    return this.#endpoints.get(endpointId)?.latencyMs ?? SLOW_ANSWER_MS;
  }

  /** Endpoints that take the slow lane now. */
  slow(nowMs: number): string[] {
    return [...this.#endpoints]
      .filter(([, health]) => health.slowUntilMs > nowMs)
      .map(([endpointId]) => endpointId);
  }

  /** What other workers should know, once. */
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

  /** What other workers know; forgets what is over. */
  merge(known: readonly SlowEndpoint[], nowMs: number): void {
    for (const [endpointId, health] of this.#endpoints) {
      if (health.slowUntilMs <= nowMs && !this.#unwritten.has(endpointId)) {
        this.#endpoints.delete(endpointId);
      }
    }
    for (const { endpointId, latencyMs, slowUntilMs } of known) {
      const mine = this.#endpoints.get(endpointId);
      if (mine === undefined) {
        this.#keep(endpointId, { latencyMs, slowUntilMs, writtenUntilMs: slowUntilMs });
      } else if (!this.#unwritten.has(endpointId)) {
        mine.slowUntilMs = slowUntilMs;
        mine.writtenUntilMs = slowUntilMs;
      }
    }
  }

  #slow(endpointId: string, tookMs: number, nowMs: number): void {
    const health = this.#endpoints.get(endpointId) ?? {
      latencyMs: tookMs,
      slowUntilMs: 0,
      writtenUntilMs: 0,
    };
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
