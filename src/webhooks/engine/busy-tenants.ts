/**
 * Keeps room for other tenants while one has very many first attempts. Such a tenant is busy. While others have
 * deliveries, its claims are small and leave the event loop a rest, so that theirs are sent at once.
 */
import { performance, type EventLoopUtilityFunction } from "node:perf_hooks";
import type { Claimed } from "#database/repositories/webhooks/claims.ts";

/** A tenant is busy while its first attempts take this share of their limit. */
const BUSY_SHARE = 1 / 2;
/** Beside others, claims are small once a tenant has this share: a quarter of it may leave in one full list. */
const MANY_SHARE = 1 / 8;
/** For this long after a notification of another tenant, further ones are expected. */
const OTHERS_EXPECTED_MS = 1_000;
/** Beside other tenants, busy ones get no claim while the event loop was busier than this for {@link LOOP_MS}. */
const LOOP_SHARE = 0.75;
const LOOP_MS = 20;

export interface BusyTenantsOptions {
  /** Maximum number of first attempts in progress. */
  readonly underWayMax: number;
  /** Monotonic clock, in milliseconds. */
  readonly monotonic: () => number;
  readonly loopUtilization?: EventLoopUtilityFunction;
}

export class BusyTenants {
  readonly #underWayMax: number;
  readonly #now: () => number;
  readonly #loopUtilization: EventLoopUtilityFunction;
  /** First attempts in progress, by tenant. */
  readonly #underWay = new Map<string, number>();
  /** When deliveries of another tenant were last sent, or waited. */
  #othersAtMs = Number.NEGATIVE_INFINITY;
  #loop: ReturnType<EventLoopUtilityFunction>;
  #loopAtMs: number;
  #loopIsBusy = false;

  constructor({ underWayMax, monotonic, loopUtilization }: BusyTenantsOptions) {
    this.#underWayMax = underWayMax;
    this.#now = monotonic;
    this.#loopUtilization = loopUtilization ?? performance.eventLoopUtilization;
    this.#loop = this.#loopUtilization();
    this.#loopAtMs = this.#now();
  }

  /** Returns the busy tenants. */
  get ids(): string[] {
    return this.#withShare(BUSY_SHARE);
  }

  /** Whether a tenant had many first attempts lately, and more deliveries of others are expected. */
  get isBesideOthers(): boolean {
    return this.#now() - this.#othersAtMs < OTHERS_EXPECTED_MS;
  }

  /** Counts first attempts that begin. Returns the function to call when they have ended. */
  begin(members: readonly Pick<Claimed, "tenant_id">[]): () => void {
    this.#count(members, 1);
    return () => this.#count(members, -1);
  }

  /**
   * Notes deliveries that are sent or wait.
   *
   * @param tenants theirs; none if they are unknown
   * @returns whether a tenant is busy, and others have some
   */
  note(tenants: readonly string[]): boolean {
    const others = (many: readonly string[]): boolean =>
      many.length > 0 && (tenants.length === 0 || tenants.some((id) => !many.includes(id)));
    this.#othersAtMs = others(this.#withShare(MANY_SHARE)) ? this.#now() : this.#othersAtMs;
    return others(this.ids);
  }

  /** Whether busy tenants now leave the event loop to others. */
  rests(): boolean {
    const nowMs = this.#now();
    if (nowMs - this.#loopAtMs >= LOOP_MS) {
      const loop = this.#loopUtilization();
      this.#loopIsBusy = this.#loopUtilization(loop, this.#loop).utilization > LOOP_SHARE;
      this.#loop = loop;
      this.#loopAtMs = nowMs;
    }
    return this.#loopIsBusy && this.isBesideOthers && this.ids.length > 0;
  }

  /** Returns the tenants that have at least this share of all first attempts. */
  #withShare(share: number): string[] {
    const least = this.#underWayMax * share;
    return [...this.#underWay].filter(([, count]) => count >= least).map(([tenantId]) => tenantId);
  }

  #count(members: readonly Pick<Claimed, "tenant_id">[], sign: 1 | -1): void {
    for (const { tenant_id: tenantId } of members) {
      const count = (this.#underWay.get(tenantId) ?? 0) + sign;
      if (count === 0) {
        this.#underWay.delete(tenantId);
      } else {
        this.#underWay.set(tenantId, count);
      }
    }
  }
}
