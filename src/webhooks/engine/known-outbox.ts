/** What a worker knows of the outbox: from notifications, and from its own claims. The caller passes the time. */
import { TokenBucket } from "#domain/token-buckets.ts";
import { type ListClaim, type OutboxView, type PlannedClaim, POLL_MS, SEARCH_MS } from "./dispatch-plan.ts";

/** Claims without waiting. Then a token per claim is needed. */
export const CLAIM_BURST = 10;
/** Claims of named deliveries per claim of others: they cost less, and gain latency at medium rates. */
export const NAMED_CLAIMS = 4;
/** If more wait at once, they are claimed together, and so are those of the next second. That costs less. */
const NAMED_MAX = 4;
/** If more tenants have news, it is not kept whose they are. */
const TENANTS_MAX = 64;
/** How soon to look for deliveries of other days after a notification of none of the latest. */
export const LOOK_SOON_MS = 100;

/** What a claim found. */
export interface ClaimResult {
  readonly claimed: number;
  /** Whether more of its tenants are known to wait. */
  readonly more: boolean;
  /** The tenant after which the next claim continues; empty if it begins again. */
  readonly nextTenant: string;
}

/** Claims of one mode, until they have covered all tenants. */
interface Round {
  /** The tenant after which the next claim continues. */
  readonly afterTenant: string;
  readonly beganAtMs: number;
  /** Whether its claims look at deliveries of any age. */
  readonly whole: boolean;
  /** How many had been told of when it began, and how often older ones and tenants had been noted. */
  readonly told: number;
  readonly olderNoted: number;
  readonly tenantsNoted: number;
  /** Busy tenants that any of its claims left out. */
  readonly leftOut: readonly string[];
  /** Whether its claims so far may have found anything. */
  readonly found: boolean;
}

export class KnownOutbox {
  readonly #batchMax: number;
  readonly #claims: TokenBucket;
  readonly #namedClaims: TokenBucket;
  #waiting = 0;
  /** How many were ever told of. */
  #told = 0;
  #named: string[] = [];
  #manyAtMs = Number.NEGATIVE_INFINITY;
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  #searchedAllAtMs = Number.NEGATIVE_INFINITY;
  #clearedAtMs = Number.NEGATIVE_INFINITY;
  #besideClearedAtMs = Number.NEGATIVE_INFINITY;
  #pollAtMs = Number.NEGATIVE_INFINITY;
  /** The rounds under way. */
  readonly #rounds = new Map<ListClaim["mode"], Round | undefined>();
  #otherDays: readonly string[] = [];
  #lookAtMs = Number.NEGATIVE_INFINITY;
  #otherDaysTurn = false;
  /** How often older deliveries were noted. */
  #olderNoted = 0;
  /**
   * Tenants with news since claims last left none of others than busy ones, and when these came: a number that counts
   * them. Unknown tenants have the number 0 if there is none. At first, anyone's may wait.
   */
  readonly #tenants = new Map<string, number>();
  #unknownTenants = 1;
  #tenantsNoted = 1;
  /** Busy tenants that those claims left out. */
  #leftOut: readonly string[] = [];

  constructor(batchMax: number, nowMs: number) {
    this.#batchMax = batchMax;
    this.#claims = new TokenBucket(CLAIM_BURST, nowMs);
    this.#namedClaims = new TokenBucket(CLAIM_BURST, nowMs);
  }

  /**
   * @param perSecond claims per second of this worker
   * @param busyTenants those that claims beside busy tenants leave out
   */
  view(perSecond: number, busyTenants: readonly string[], nowMs: number): OutboxView {
    const isBusy = (tenantId: string): boolean => busyTenants.includes(tenantId);
    const hasCalmed = !this.#leftOut.every(isBusy);
    const afterTenant = (mode: ListClaim["mode"]): string => this.#rounds.get(mode)?.afterTenant ?? "";
    const isWhole = this.#rounds.get("latest")?.whole === true;
    const beginsWhole = !isWhole && nowMs - this.#searchedAllAtMs >= POLL_MS;
    return {
      waiting: this.#waiting,
      named: this.#named,
      manyAtMs: this.#manyAtMs,
      searchedAtMs: this.#searchedAtMs,
      searchesAll: beginsWhole || isWhole,
      clearedAtMs: this.#clearedAtMs,
      besideClearedAtMs: hasCalmed ? Number.NEGATIVE_INFINITY : this.#besideClearedAtMs,
      pollAtMs: this.#pollAtMs,
      afterTenant: beginsWhole ? "" : afterTenant("latest"),
      besideAfterTenant: afterTenant("beside"),
      otherDays: this.#otherDays,
      otherDayAfterTenant: afterTenant("other day"),
      lookAtMs: this.#lookAtMs,
      otherDaysTurn: this.#otherDaysTurn,
      othersWait: hasCalmed || this.#unknownTenants > 0 || !this.#tenants.keys().every(isBusy),
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
    this.#told += count;
    // Between the first delivery and a full list, only a token is.
    return before === 0 || this.#waiting >= this.#batchMax;
  }

  /** Notes that older deliveries may wait again, or that their endpoint is no longer slow. */
  noteOlder(): void {
    this.#olderNoted += 1;
    this.#clearedAtMs = Number.NEGATIVE_INFINITY;
    this.#besideClearedAtMs = Number.NEGATIVE_INFINITY;
  }

  /** Notes that deliveries of tenants wait. @param tenantIds none if they are unknown */
  noteTenants(tenantIds: readonly string[]): void {
    this.#tenantsNoted += 1;
    if (tenantIds.length === 0 || this.#tenants.size + tenantIds.length > TENANTS_MAX) {
      this.#unknownTenants = this.#tenantsNoted;
    } else {
      tenantIds.forEach((id) => this.#tenants.set(id, this.#tenantsNoted));
    }
  }

  /**
   * Notes that a claim begins.
   *
   * @returns to be called when it has ended. If it fails, what it looked for still waits
   */
  begin(claim: PlannedClaim, nowMs: number): (result: ClaimResult, endedMs: number) => void {
    if (claim.mode === "named") {
      this.#named = [];
      this.#namedClaims.charge(1);
      return (_, endedMs) => {
        // Those that this claim did not find wait for the next search, or for the slow lane.
        this.#endFirst(claim.ids.length, endedMs);
        // It read nothing else, so it puts off no search.
        this.#pollAtMs = Math.min(this.#pollAtMs, this.#searchedAtMs + SEARCH_MS);
      };
    }
    const round = this.#roundOf(claim, nowMs);
    if (claim.mode === "other day") {
      return (result) => {
        this.#otherDays = leavesSome(claim, result, round) ? this.#otherDays : this.#otherDays.slice(1);
        this.#rounds.set(claim.mode, goesOn(claim, result, round));
        this.#otherDaysTurn = false;
      };
    }
    this.#named = [];
    (claim.mode === "beside" ? this.#namedClaims : this.#claims).charge(claim.spends ? 1 : 0);
    const [known, told] = [this.#waiting, this.#told];
    return (result, endedMs) => {
      const { claimed } = result;
      const left = leftBy(claim, result, { round, known, told, batchMax: this.#batchMax });
      if (left === 0) {
        this.#settle(round);
      }
      this.#rounds.set(claim.mode, goesOn(claim, result, round));
      if (claim.mode === "beside") {
        this.#endBeside(claimed, left, round);
        return;
      }
      if (known === 0 && left > 0) {
        // Nothing told of these.
        this.noteTenants([]);
      }
      this.#searchedAtMs = nowMs;
      this.#searchedAllAtMs = round.whole ? round.beganAtMs : this.#searchedAllAtMs;
      this.#noteCleared(left, round);
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

  /** Returns the round that a claim continues or begins. */
  #roundOf({ mode, afterTenant, exceptTenants, madeWithinMs }: ListClaim, nowMs: number): Round {
    const begun: Round = {
      afterTenant: "",
      beganAtMs: nowMs,
      whole: madeWithinMs === Number.POSITIVE_INFINITY,
      told: this.#told,
      olderNoted: this.#olderNoted,
      tenantsNoted: this.#tenantsNoted,
      leftOut: exceptTenants,
      found: false,
    };
    const round = this.#rounds.get(mode);
    return afterTenant === "" || round === undefined
      ? begun
      : { ...round, leftOut: [...new Set([...round.leftOut, ...exceptTenants])] };
  }

  /** Forgets the tenants with news from before a round that left none but those of busy tenants. */
  #settle({ tenantsNoted, leftOut }: Round): void {
    for (const [tenantId, noted] of this.#tenants) {
      if (noted <= tenantsNoted) {
        this.#tenants.delete(tenantId);
      }
    }
    this.#unknownTenants = this.#unknownTenants > tenantsNoted ? this.#unknownTenants : 0;
    this.#leftOut = leftOut;
  }

  #endBeside(claimed: number, left: number, round: Round): void {
    this.#besideClearedAtMs = this.#clears(left, round) ? round.beganAtMs : this.#besideClearedAtMs;
    // Those of busy tenants may wait, and none may overtake them.
    this.#waiting = Math.max(1, this.#waiting - claimed);
  }

  /** Whether what waits from before a round then waits for a slow lane, or for its tenant. */
  #clears(left: number, round: Round): boolean {
    return left === 0 && round.olderNoted === this.#olderNoted;
  }

  #noteCleared(left: number, round: Round): void {
    if (left > 0 && round.whole) {
      this.#clearedAtMs = Number.NEGATIVE_INFINITY;
    } else if (this.#clears(left, round)) {
      this.#clearedAtMs = round.beganAtMs;
    }
  }

  #endFirst(gone: number, endedMs: number): void {
    this.#waiting -= gone;
    this.#pollAtMs = endedMs + POLL_MS;
    this.#otherDaysTurn = true;
  }
}

/** Whether more may wait after a claim that found something, or after an earlier one of its round. */
function leavesSome(
  { limit, afterTenant }: ListClaim,
  { claimed, more, nextTenant }: ClaimResult,
  round: Round,
): boolean {
  return (
    claimed === limit || more || nextTenant !== "" || (afterTenant !== "" && (round.found || claimed > 0))
  );
}

/** Returns the round after a claim; undefined if it has covered all tenants. */
function goesOn(
  { atLeast }: ListClaim,
  { claimed, nextTenant }: ClaimResult,
  round: Round,
): Round | undefined {
  // A claim of a full list tells of none if less waits.
  const found = round.found || claimed > 0 || atLeast > 1;
  return nextTenant === "" ? undefined : { ...round, afterTenant: nextTenant, found };
}

interface Known {
  readonly round: Round;
  /** How many were known to wait, and had ever been told of, when the claim began. */
  readonly known: number;
  readonly told: number;
  readonly batchMax: number;
}

/** Returns how many of the known deliveries a claim has left, as far as it tells. */
function leftBy(claim: ListClaim, result: ClaimResult, { round, known, told, batchMax }: Known): number {
  const { claimed } = result;
  if (leavesSome(claim, result, round)) {
    return Math.max(known - claimed, claimed === claim.limit ? batchMax : 1);
  }
  if (claim.afterTenant !== "") {
    // What was told of since the round began may be of tenants that it had passed.
    return Math.min(known, told - round.told);
  }
  // A claim of a full list takes nothing if less waits.
  return claimed < claim.atLeast && claim.atLeast > 1 ? 1 : 0;
}
