/** What a worker knows of the outbox: from notifications, and from its own claims. The caller passes the time. */
import { TokenBucket } from "#domain/token-buckets.ts";
import { type ListClaim, type OutboxView, type PlannedClaim, POLL_MS, SEARCH_MS } from "./dispatch-plan.ts";

/** Claims without waiting. Then a token per claim is needed. */
export const CLAIM_BURST = 10;
/** Claims of named deliveries per claim of others: they cost less, and gain latency at medium rates. */
export const NAMED_CLAIMS = 4;
/** If more wait at once, they are claimed together, and so are those of the next second. That costs less. */
const NAMED_MAX = 4;
/** A rest ends by itself, however long a claim took. */
const REST_MAX_MS = 250;
/** How soon to look for deliveries of other days after a notification of none of the latest. */
export const LOOK_SOON_MS = 100;

/** What a claim found. */
export interface ClaimResult {
  readonly claimed: number;
  /** Whether more are known to wait. */
  readonly more: boolean;
  readonly nextTenant: string;
}

export class KnownOutbox {
  readonly #batchMax: number;
  readonly #claims: TokenBucket;
  readonly #namedClaims: TokenBucket;
  #waiting = 0;
  #named: string[] = [];
  #manyAtMs = Number.NEGATIVE_INFINITY;
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  #pollAtMs = Number.NEGATIVE_INFINITY;
  #afterTenant = "";
  #otherDays: readonly string[] = [];
  #lookAtMs = Number.NEGATIVE_INFINITY;
  #restedAtMs = Number.NEGATIVE_INFINITY;
  #otherDaysTurn = false;
  /** How often others than busy tenants were noted, and how many of these notes are settled. */
  #othersNoted = 0;
  #othersSettled = 0;

  constructor(batchMax: number, nowMs: number) {
    this.#batchMax = batchMax;
    this.#claims = new TokenBucket(CLAIM_BURST, nowMs);
    this.#namedClaims = new TokenBucket(CLAIM_BURST, nowMs);
  }

  /** @param perSecond claims per second of this worker */
  view(perSecond: number, nowMs: number): OutboxView {
    return {
      waiting: this.#waiting,
      named: this.#named,
      manyAtMs: this.#manyAtMs,
      searchedAtMs: this.#searchedAtMs,
      pollAtMs: this.#pollAtMs,
      afterTenant: this.#afterTenant,
      otherDays: this.#otherDays,
      lookAtMs: this.#lookAtMs,
      restedAtMs: this.#restedAtMs,
      otherDaysTurn: this.#otherDaysTurn,
      othersWait: this.#othersNoted > this.#othersSettled,
      tokenMs: this.#claims.waitMs(perSecond, CLAIM_BURST, nowMs),
      namedTokenMs: this.#namedClaims.waitMs(perSecond * NAMED_CLAIMS, CLAIM_BURST, nowMs),
    };
  }

  /** Notes the deliveries that a notification of so many named, before {@link add}. */
  name(count: number, ids: readonly string[], nowMs: number): void {
    if (count > NAMED_MAX || this.#named.length + ids.length > NAMED_MAX) {
      this.#manyAtMs = nowMs;
    } else {
      this.#named.push(...ids);
    }
  }

  /** Notes that more deliveries wait. @returns whether they are worth waking for */
  add(count: number): boolean {
    const before = this.#waiting;
    this.#waiting += count;
    // Between the first delivery and a full list, only a token is.
    return before === 0 || this.#waiting >= this.#batchMax;
  }

  /** Notes that deliveries of others than busy tenants wait. */
  noteOthers(): void {
    this.#othersNoted += 1;
  }

  /**
   * Notes that a claim begins.
   *
   * @returns to be called when it has ended. If it fails, what it looked for still waits
   */
  begin(claim: PlannedClaim, nowMs: number): (result: ClaimResult, endedMs: number) => void {
    const known = this.#waiting;
    if (claim.mode === "other day") {
      return ({ claimed, more }, endedMs) => {
        this.#rest(endedMs - nowMs, endedMs);
        this.#otherDays = claimed < claim.limit && !more ? this.#otherDays.slice(1) : this.#otherDays;
        this.#otherDaysTurn = false;
      };
    }
    this.#named = [];
    if (claim.mode === "named") {
      this.#namedClaims.charge(1);
      return (_, endedMs) => {
        // Those that this claim did not find wait for the next search, or for the slow lane.
        this.#endFirst(claim.ids.length, endedMs);
        // It read nothing else, so it puts off no search.
        this.#pollAtMs = Math.min(this.#pollAtMs, this.#searchedAtMs + SEARCH_MS);
      };
    }
    this.#claims.charge(claim.spends ? 1 : 0);
    const noted = this.#othersNoted;
    return (result, endedMs) => {
      const { claimed, nextTenant } = result;
      const left = leftBy(claim, known, result, this.#batchMax);
      this.#othersSettled = left === 0 ? noted : this.#othersSettled;
      if (claim.mode === "beside") {
        // Those of busy tenants may wait, and none may overtake them.
        this.#waiting = Math.max(1, this.#waiting - claimed);
        return;
      }
      this.#rest(endedMs - nowMs, endedMs);
      this.#searchedAtMs = nowMs;
      this.#afterTenant = nextTenant;
      this.#endFirst(known - left, endedMs);
      if (claim.spends && (claimed === 0 || claimed === claim.limit)) {
        this.#claims.charge(-1);
      }
      if (claimed === 0 && known > 0) {
        this.#lookAtMs = Math.min(this.#lookAtMs, endedMs + LOOK_SOON_MS);
      }
    };
  }

  /** Notes that the worker has waited. What wakes it is mostly of the latest days. */
  waited(): void {
    this.#otherDaysTurn = false;
  }

  /** Notes that the other days are looked for. @returns to be called with them */
  beginLook(nowMs: number): (days: readonly string[]) => void {
    this.#lookAtMs = nowMs + POLL_MS;
    return (days) => {
      this.#otherDays = days;
    };
  }

  /** A claim that takes long means that others wait for the same cores. */
  #rest(tookMs: number, endedMs: number): void {
    this.#restedAtMs = endedMs + Math.min(REST_MAX_MS, tookMs);
  }

  #endFirst(gone: number, endedMs: number): void {
    this.#waiting -= gone;
    this.#pollAtMs = endedMs + POLL_MS;
    this.#otherDaysTurn = true;
  }
}

/** Returns how many of the known deliveries a claim has left, as far as it tells. */
function leftBy(
  { limit, atLeast }: ListClaim,
  known: number,
  { claimed, more }: ClaimResult,
  batchMax: number,
): number {
  if (claimed === limit) {
    return Math.max(known - claimed, batchMax);
  }
  if (more) {
    return Math.max(known - claimed, 1);
  }
  // A claim of a full list takes nothing if less waits.
  return claimed < atLeast && atLeast > 1 ? 1 : 0;
}
