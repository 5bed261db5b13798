/**
 * Decides what the dispatcher does next, and whether it takes an offer (decision 42). Pure: it reads a state and returns
 * an action. The first row whose condition holds decides.
 *
 * | condition | an offer | the loop's mode | it claims | why |
 * | --- | --- | --- | --- | --- |
 * | the process ends | outbox | end | nothing | others take over what waits |
 * | not known to live, or nothing searched yet | outbox | as below | | others would hand the claims back, or older ones wait |
 * | the clock is wrong | outbox | wait | nothing | its instants would be wrong (decision 25) |
 * | one delivery per workflow | outbox | as below | | lists are off (decision 4) |
 * | something is known to wait, not only of busy tenants | outbox | as below | | no delivery overtakes older ones of its tenant |
 * | first attempts or lists are at their limit | outbox | beside, or wait | others than busy tenants, if they wait | decision 28 |
 * | the event loop rests for others | outbox | beside, or wait | the same | decision 28 |
 * | none of these | hand over | as below | what is offered | no claim reads it back |
 * | claims rest for others than busy tenants | | beside, or wait | these, if they wait | until the event loop was idle for long enough (decision 28) |
 * | few wait, and notifications named all of them | | named | these, by id | it costs less than a search |
 * | a full list waits, or something waits and there is a token, or it is time to poll | | latest | the oldest of each tenant, of two days | notifications are only hints |
 * | other days are known to have some | | other day | the same, of one day | a claim of the latest days would be slower if it read these |
 * | it is time to look for other days | | look | nothing; it reads their days | replays wait there |
 * | none of these | | wait | nothing | a notification ends it |
 *
 * A claim of the latest days reads what was made since claims last left nothing to claim, and everything once a second:
 * what waits for a slow lane would otherwise be read again by each (decision 43).
 *
 * The latest days and other days take turns. So each delivery that may be claimed is claimed within a bound: with the next
 * token if a notification told of it, otherwise within {@link POLL_MS}, or {@link SEARCH_MS} beside named ones.
 */
import { idDay } from "#domain/ids.ts";
import type { OutboxReason } from "./hand-over.ts";

/** Notifications are only hints, so the outbox is also polled. */
export const POLL_MS = 1_000;
/** How often to look for deliveries without a notification while all others are named. */
export const SEARCH_MS = 2_000;
/** For this long after many waited at once, those of the next notifications are claimed together. That costs less. */
export const MANY_MS = 1_000;
/**
 * How much later than its id a delivery may be committed, with different clocks. One that is later waits for the next
 * search, like one without a notification.
 */
export const COMMIT_MS = 2_000;
/** Pause while the limit of first attempts in progress is reached. */
const FULL_MS = 5;
/** Room for other tenants beyond the limit, as a share of it. */
const BESIDE_SHARE = 1 / 4;
/** Size of a claim beside other tenants. Two milliseconds of the event loop send one delivery, and nothing else meanwhile. */
export const SMALL_CLAIM = 4;
/** A full list is filled by at most this many claims. */
const CLAIMS_PER_LIST = 4;

/** What a worker knows of the outbox. All instants are those of a monotonic clock, in milliseconds. */
export interface OutboxView {
  /** Estimated number of deliveries that wait. */
  readonly waiting: number;
  /** Waiting deliveries that notifications named. */
  readonly named: readonly string[];
  /** When many last waited at once. */
  readonly manyAtMs: number;
  /** When a claim last looked for any deliveries of the latest days. Infinitely long ago before the first one. */
  readonly searchedAtMs: number;
  /** Whether the next claim of the latest days looks at deliveries of any age. */
  readonly searchesAll: boolean;
  /**
   * When claims began that left none to claim. What waited then waits for a slow lane or for its tenant, so the next
   * claims need not read it again. Infinitely long ago after news of older ones.
   */
  readonly clearedAtMs: number;
  /** The same of claims beside busy tenants. */
  readonly besideClearedAtMs: number;
  /** When to claim though nothing is known to wait. */
  readonly pollAtMs: number;
  /** The tenant after which the next claim of a mode continues; empty if it begins. */
  readonly afterTenant: string;
  /** Other days of which deliveries wait, and when to look for such days again. */
  readonly otherDays: readonly string[];
  readonly otherDayAfterTenant: string;
  readonly besideAfterTenant: string;
  readonly lookAtMs: number;
  /** Whether the latest days had the last turn. */
  readonly otherDaysTurn: boolean;
  /** Whether deliveries of others than busy tenants may wait. */
  readonly othersWait: boolean;
  /** Milliseconds until the next token of claims, and of named claims; 0 if there is one. */
  readonly tokenMs: number;
  readonly namedTokenMs: number;
}

/** What the decision depends on. All instants are those of a monotonic clock, in milliseconds. */
export interface DispatchState extends OutboxView {
  readonly nowMs: number;
  readonly stopped: boolean;
  /** Whether this worker is known to live, so that others leave its claims alone. */
  readonly isKnown: boolean;
  readonly clockIsRight: boolean;
  /** Maximum number of deliveries per workflow; 1 disables batching. */
  readonly batchMax: number;
  /** First attempts in progress, and their limit. */
  readonly underWay: number;
  readonly underWayMax: number;
  /** Whether as many deliveries wait for their workflow as the memory may hold. */
  readonly listsAreFull: boolean;
  /** How many members the open list can still take. */
  readonly places: number;
  /** Tenants with very many first attempts in progress, or very many that wait. */
  readonly busyTenants: readonly string[];
  /** Whether claims are small, because more of others are expected. */
  readonly besideOthers: boolean;
  /** Whether busy tenants leave the event loop to others. */
  readonly rests: boolean;
  /** How long claims that busy tenants take part in still rest for others, in milliseconds. */
  readonly restMs: number;
}

/** A claim of the deliveries that notifications named. */
export interface NamedClaim {
  readonly mode: "named";
  readonly ids: readonly string[];
  readonly limit: number;
}

/** A claim of what waits, in turns of the tenants. */
export interface ListClaim {
  readonly mode: "latest" | "beside" | "other day";
  /** Undefined for the latest two days. */
  readonly day?: string;
  /** Claims nothing if fewer wait. */
  readonly atLeast: number;
  readonly limit: number;
  readonly afterTenant: string;
  readonly exceptTenants: readonly string[];
  /** How long ago its deliveries were made at most, in milliseconds. */
  readonly madeWithinMs: number;
  /** Whether it takes a token. */
  readonly spends: boolean;
}

export type PlannedClaim = NamedClaim | ListClaim;

export interface Wait {
  readonly mode: "wait";
  readonly ms: number;
  /** Whether a notification leaves it asleep. */
  readonly soundly: boolean;
}

export type Action = PlannedClaim | Wait | { readonly mode: "look" } | { readonly mode: "end" };

export type OfferAction =
  | { readonly mode: "hand over" }
  | { readonly mode: "outbox"; readonly reason: OutboxReason };

/** What keeps offers out, and perhaps the loop from its claims. */
interface Obstacle {
  readonly reason: OutboxReason;
  /** @param count of the deliveries that are offered; 1 for a claim */
  readonly holds: (state: DispatchState, count: number) => boolean;
  /** What the loop does meanwhile. Undefined if it goes on. */
  readonly meanwhile?: (state: DispatchState) => Action;
}

/** In the order in which they are counted. */
const OBSTACLES: readonly Obstacle[] = [
  { reason: "ending", holds: ({ stopped }) => stopped, meanwhile: () => ({ mode: "end" }) },
  {
    reason: "starting",
    holds: ({ isKnown, searchedAtMs }) => !isKnown || searchedAtMs === Number.NEGATIVE_INFINITY,
  },
  { reason: "clock", holds: ({ clockIsRight }) => !clockIsRight, meanwhile: () => pause(POLL_MS) },
  { reason: "unbatched", holds: ({ batchMax }) => batchMax === 1 },
  { reason: "backlog", holds: hasBacklog },
  {
    reason: "limit",
    holds: ({ underWay, underWayMax, listsAreFull }, count) => underWay + count > underWayMax || listsAreFull,
    meanwhile: planBeside,
  },
  { reason: "rest", holds: ({ rests }) => rests, meanwhile: planBeside },
];

/** Whether deliveries of others than busy tenants may wait. Those of busy ones are not handed over anyway. */
function hasBacklog({ waiting, otherDays, busyTenants, othersWait }: DispatchState): boolean {
  return otherDays.length > 0 || (waiting > 0 && (busyTenants.length === 0 || othersWait));
}

/** Returns whether deliveries that are about to be inserted are handed over. */
export function planOffer(state: DispatchState, count: number): OfferAction {
  const obstacle = OBSTACLES.find(({ holds }) => holds(state, count));
  return obstacle === undefined ? { mode: "hand over" } : { mode: "outbox", reason: obstacle.reason };
}

/** Returns what the loop does next. */
export function plan(state: DispatchState): Action {
  const meanwhile = OBSTACLES.find((each) => each.meanwhile !== undefined && each.holds(state, 1))?.meanwhile;
  if (meanwhile !== undefined) {
    return meanwhile(state);
  }
  const restMs = untilRested(state);
  if (restMs > 0) {
    return planRest(state, restMs);
  }
  const firstMs = untilFirst(state);
  const otherMs = untilOther(state);
  if (otherMs === 0 && (state.otherDaysTurn || firstMs > 0)) {
    return planOther(state);
  }
  if (firstMs > 0) {
    return { mode: "wait", ms: Math.min(firstMs, otherMs), soundly: false };
  }
  return mayNameAll(state)
    ? { mode: "named", ids: state.named, limit: state.named.length }
    : planLatest(state);
}

function pause(ms: number): Wait {
  return { mode: "wait", ms, soundly: true };
}

/** Others than busy tenants get a part of the limit, or what the event loop has left. */
function planBeside(state: DispatchState): Action {
  const { underWay, underWayMax, listsAreFull, busyTenants, othersWait, namedTokenMs } = state;
  const hasRoom = underWay < underWayMax * (1 + BESIDE_SHARE) && !listsAreFull;
  return !othersWait || !hasRoom || busyTenants.length === 0 || namedTokenMs > 0
    ? pause(FULL_MS)
    : besideBusy(state);
}

/** While claims rest, others than busy tenants do not wait. */
function planRest(state: DispatchState, restMs: number): Action {
  const { busyTenants, othersWait, namedTokenMs } = state;
  const others = othersWait && busyTenants.length > 0;
  return others && namedTokenMs === 0
    ? besideBusy(state)
    : { mode: "wait", ms: others ? Math.min(restMs, namedTokenMs) : restMs, soundly: false };
}

function besideBusy(state: DispatchState): ListClaim {
  const { besideClearedAtMs, busyTenants, nowMs } = state;
  return {
    mode: "beside",
    atLeast: 1,
    limit: claimSize(state, 0),
    afterTenant: state.besideAfterTenant,
    exceptTenants: busyTenants,
    madeWithinMs: nowMs - besideClearedAtMs + COMMIT_MS,
    spends: true,
  };
}

/** Returns how long claims rest. Those of a few new deliveries do not, while it is not known which tenants are busy. */
function untilRested({ busyTenants, named, restMs }: DispatchState): number {
  return busyTenants.length > 0 || named.length === 0 ? restMs : 0;
}

/** Whether the named deliveries are all that is known to wait, and can be claimed by id. */
function mayNameAll({ named, waiting, nowMs, manyAtMs, searchedAtMs, batchMax }: DispatchState): boolean {
  const [first] = named;
  return (
    batchMax > 1 &&
    first !== undefined &&
    named.length === waiting &&
    named.length <= batchMax &&
    nowMs - manyAtMs >= MANY_MS &&
    nowMs - searchedAtMs < SEARCH_MS &&
    named.every((id) => idDay(id) === idDay(first))
  );
}

/** Returns the milliseconds until the latest days are claimed from; 0 if now. */
function untilFirst(state: DispatchState): number {
  const { waiting, batchMax, pollAtMs, nowMs, tokenMs, namedTokenMs } = state;
  if (mayNameAll(state)) {
    return namedTokenMs;
  }
  const pollMs = waiting > 0 ? 0 : Math.max(0, pollAtMs - nowMs);
  // A full list needs no token. Without lists, waiting gains nothing: the requests in flight are the only limit.
  return batchMax === 1 || waiting >= batchMax ? pollMs : Math.max(pollMs, tokenMs);
}

function planLatest(state: DispatchState): ListClaim {
  const { batchMax, tokenMs, afterTenant, waiting, nowMs, searchesAll, clearedAtMs } = state;
  const spends = batchMax > 1 && tokenMs === 0;
  const limit = claimSize(state, waiting);
  // The last ones of very many tenants may have less than a list.
  const few = spends || batchMax === 1 || afterTenant !== "";
  const madeWithinMs = searchesAll ? Number.POSITIVE_INFINITY : nowMs - clearedAtMs + COMMIT_MS;
  const atLeast = few ? 1 : limit;
  return { mode: "latest", atLeast, limit, afterTenant, exceptTenants: [], madeWithinMs, spends };
}

/** Returns the milliseconds until other days have a claim or are looked for; 0 if now. */
function untilOther({ otherDays, lookAtMs, nowMs }: DispatchState): number {
  return otherDays.length > 0 ? 0 : Math.max(0, lookAtMs - nowMs);
}

function planOther(state: DispatchState): Action {
  const [day] = state.otherDays;
  if (day === undefined) {
    return { mode: "look" };
  }
  return {
    mode: "other day",
    day,
    atLeast: 1,
    limit: claimSize(state, state.batchMax),
    afterTenant: state.otherDayAfterTenant,
    exceptTenants: [],
    madeWithinMs: Number.POSITIVE_INFINITY,
    spends: false,
  };
}

/** Returns how many to claim if so many wait. An open list with few places is closed if more wait. */
function claimSize({ places, batchMax, besideOthers }: DispatchState, waiting: number): number {
  const stays = waiting <= places || places * CLAIMS_PER_LIST >= batchMax;
  const room = stays ? places : batchMax;
  return besideOthers ? Math.min(SMALL_CLAIM, room) : room;
}
