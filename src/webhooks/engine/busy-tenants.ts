/**
 * Keeps room for other tenants while one has very many first attempts, or very many that wait. Such a tenant is busy.
 * While others have deliveries, its claims are small and leave the event loop a rest, so that theirs are sent at once.
 */
import { performance, type EventLoopUtilityFunction } from "node:perf_hooks";
import type { Claimed, ClaimOfFirst } from "#database/repositories/webhooks/claims.ts";

/** A tenant is busy while its first attempts take this share of their limit. */
const BUSY_SHARE = 1 / 2;
/** Beside others, claims are small once a tenant has this share: a quarter of it may leave in one full list. */
const MANY_SHARE = 1 / 8;
/** A tenant with fewer places in full claims is not busy. */
const CROWD_MIN = 4;
/** Once full claims had so many places, the earlier ones count half. */
const PLACES_MAX = 256;
/** Beside others, the event loop is idle for so many times as long as it was busy since a claim of busy tenants. */
const IDLE_TIMES = 1.5;
/** A rest ends by itself, however busy the event loop is. */
export const REST_MAX_MS = 100;
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
  /** Tenants of which more waits than of others. */
  #crowds: readonly string[] = [];
  /** Their and others' places in the last full claims. */
  readonly #places = new Map<string, number>();
  /** When deliveries of another tenant were last sent, or waited. */
  #othersAtMs = Number.NEGATIVE_INFINITY;
  #loop: ReturnType<EventLoopUtilityFunction>;
  #loopAtMs: number;
  /** As they were when the last claim began that busy tenants take part in. */
  #claimLoop: ReturnType<EventLoopUtilityFunction>;
  #claimAtMs = Number.NEGATIVE_INFINITY;
  #loopIsBusy = false;

  constructor({ underWayMax, monotonic, loopUtilization }: BusyTenantsOptions) {
    this.#underWayMax = underWayMax;
    this.#now = monotonic;
    this.#loopUtilization = loopUtilization ?? performance.eventLoopUtilization;
    this.#loop = this.#loopUtilization();
    this.#loopAtMs = this.#now();
    this.#claimLoop = this.#loop;
  }

  /** Returns the busy tenants. */
  get ids(): string[] {
    return [...new Set([...this.#withShare(BUSY_SHARE), ...this.#crowds])];
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
    const many = [...this.#withShare(MANY_SHARE), ...this.#crowds];
    this.#othersAtMs = others(many) ? this.#now() : this.#othersAtMs;
    return others(this.ids);
  }

  /** Notes that a claim begins that busy tenants take part in. */
  claiming(): void {
    this.#claimLoop = this.#loopUtilization();
    this.#claimAtMs = this.#now();
  }

  /**
   * Notes what a claim took, in turns of the tenants. Of those that took more than others when more waits, more waits.
   * Only a claim that covers all tenants tells.
   */
  claimed(
    claim: { readonly mode: string; readonly limit: number; readonly afterTenant?: string },
    claimed: readonly Pick<Claimed, "tenant_id">[],
    { more, nextTenant }: Pick<ClaimOfFirst, "more" | "nextTenant">,
  ): void {
    if (claim.mode !== "latest" || claim.afterTenant !== "" || nextTenant !== "") {
      return;
    }
    if (more || claimed.length === claim.limit) {
      this.#crowds = this.#countPlaces(claimed);
    } else {
      this.#crowds = [];
      this.#places.clear();
    }
  }

  /** Returns the tenants with more places than others. */
  #countPlaces(claimed: readonly Pick<Claimed, "tenant_id">[]): string[] {
    for (const { tenant_id: tenantId } of claimed) {
      this.#places.set(tenantId, (this.#places.get(tenantId) ?? 0) + 1);
    }
    const total = this.#places.values().reduce((sum, count) => sum + count, 0);
    const least = Math.max(CROWD_MIN, total / this.#places.size);
    const crowds = [...this.#places].filter(([, count]) => count >= least).map(([tenantId]) => tenantId);
    for (const [tenantId, count] of total > PLACES_MAX ? this.#places : []) {
      if (count < 2) {
        this.#places.delete(tenantId);
      } else {
        this.#places.set(tenantId, count / 2);
      }
    }
    return crowds;
  }

  /** How long claims that busy tenants take part in still rest for others, in milliseconds. */
  restMs(): number {
    if (!this.isBesideOthers) {
      return 0;
    }
    const { active, idle } = this.#loopUtilization(this.#loopUtilization(), this.#claimLoop);
    const endsMs = this.#claimAtMs + REST_MAX_MS - this.#now();
    return Math.max(0, Math.min(IDLE_TIMES * active - idle, endsMs));
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
    return this.#loopIsBusy && this.isBesideOthers && this.#withShare(BUSY_SHARE).length > 0;
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
