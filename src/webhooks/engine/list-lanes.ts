/**
 * Lists beside the common ones: first attempts to slow endpoints, and retries and dead letters that wait for a workflow.
 * Each is for one endpoint, but silent endpoints of one tenant share lists. Their rounds leave the cores to first
 * attempts, and stay short while starts are slow.
 */
import type { Pool } from "#database/pool.ts";
import type { Claimed } from "#database/repositories/webhooks/claims.ts";
import {
  claimForEndpoints,
  claimLetters,
  claimRetries,
  hasWaitingRetries,
  type Listed,
  type ListsClaim,
  renameCarrier,
} from "#database/repositories/webhooks/list-claims.ts";
import { putBounded } from "#domain/bounded-map.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import { byCarrier } from "./by-carrier.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import type { Starts } from "./starts.ts";

/** Deliveries are collected for this long. Slow receivers add more latency than that. */
export const LANE_MS = 250;
/** Silent endpoints add ten seconds, so their deliveries are collected for longer. */
export const SILENT_LANE_MS = 1_000;
const SLOW_LISTS_MAX = 64;
/**
 * Silent endpoints for which fewer deliveries wait share lists with others of their tenant. A member that fails leaves for
 * a list of its endpoint, which costs more than it saves if many do.
 */
const SHARED_BELOW = 4;
const RETRY_LISTS_MAX = 32;
const RETRY_SPREAD_SECONDS = 2;
/**
 * After a list of dead letters, those of the same endpoint are collected, because nobody waits for them: 50 per second
 * make a full list in 20 s.
 */
const LETTERS_MS = 30_000;
const LETTER_ENDPOINTS_MAX = 10_000;
const LETTER_LISTS_MAX = 16;
/**
 * While an endpoint is silent, its next list waits this many times as long as it was silent at the last one, and until a
 * request of that one has timed out.
 */
const SILENCE_FACTOR = 3;
const SILENCE_MAX_MS = 10_000;
/** Slow endpoints of which the last claim is remembered. A forgotten one gets its next list at once. */
const SLOW_ENDPOINTS_MAX = 10_000;
/** Dead letters in a workflow. Its input takes about 60 bytes for each. */
const LETTERS_MAX = 1_000;
/**
 * How long a round should take. It claims less while starts are slow, because the next list of a tenant waits for its
 * end.
 */
const ROUND_MS = 500;
const LISTS_MIN = 4;
/**
 * Rounds of retries whose last attempt timed out are shorter. One more costs Temporal as much as any other, and those of
 * endpoints that answer wait behind it.
 */
const TIMED_OUT_ROUND_MS = 150;
const TIMED_OUT_LISTS_MAX = 128;
/**
 * Starts in progress while first attempts are claimed. Many at once, as after an outage of many receivers, would take
 * both cores. A second after the last claim, the lanes have all starts.
 */
const STARTS = 2;
const YIELD_MS = 1_000;
/** A lane whose timer is later than this waits for a core, and so do first attempts. */
const LATE_MS = 5;
/** Turns in a row that a late lane leaves to first attempts: it has one in a second, however late it is. */
const LEFT_MAX = 3;

export interface ListLanesOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly starter: Pick<CarrierStarter, "startSlow" | "startRetries" | "startLetters">;
  readonly starts: Starts;
  readonly health: Pick<EndpointHealth, "slow" | "silentSinceMs">;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly randomBytes: RandomBytes;
  /** Maximum number of deliveries per workflow. */
  readonly batchMax: number;
}

/** Starts the workflow of a carrier with its members. Resolves to false if another workflow has that id. */
type Start<T> = (carrier: string, members: readonly T[]) => Promise<unknown>;

/** A round that has ended. */
interface Round {
  /** Whether it claimed as many lists as it could. */
  readonly full: boolean;
  readonly tookMs: number;
}

type Claim = (lists: number) => Promise<Round | undefined>;

interface LaneOptions {
  readonly listsMax: number;
  readonly everyMs?: number;
  readonly roundMs?: number;
}

/** The turns of a lane, by which it measures how long this process waits for a core, and how much a round claims. */
class Lane {
  readonly #timers: Timers;
  readonly #everyMs: number;
  readonly #listsMax: number;
  readonly #roundMs: number;
  /** Whether the lane leaves the cores to first attempts. */
  readonly #yields: () => boolean;
  #lists: number;
  #endedAtMs: number | undefined;
  #left = 0;

  /**
   * @param everyMs time between the end of a turn and the next one
   * @param roundMs how long a round should take
   */
  constructor(
    timers: Timers,
    { everyMs = LANE_MS, roundMs = ROUND_MS, listsMax }: LaneOptions,
    yields: () => boolean,
  ) {
    this.#timers = timers;
    this.#everyMs = everyMs;
    this.#roundMs = roundMs;
    this.#listsMax = listsMax;
    this.#lists = listsMax;
    this.#yields = yields;
  }

  /** Carries out a round, unless its turn is left to first attempts. Parameters and result are those of `round`. */
  async turn(claim: Claim): Promise<boolean> {
    const isFollowed = !this.#leaves() && (await this.round(claim));
    this.#endedAtMs = isFollowed ? undefined : this.#timers.monotonic();
    return isFollowed;
  }

  /**
   * Carries out a round.
   *
   * @param claim claims and starts this number of lists. Undefined if it could not: the next round claims as many
   * @returns whether the next round should follow at once
   */
  async round(claim: Claim): Promise<boolean> {
    const round = await claim(this.#lists);
    if (round === undefined) {
      return false;
    }
    this.#lists =
      round.tookMs > this.#roundMs
        ? Math.max(LISTS_MIN, this.#lists >> 1)
        : Math.min(this.#listsMax, this.#lists * 2);
    return round.full && (round.tookMs > LANE_MS || !this.#yields());
  }

  #leaves(): boolean {
    const lateMs =
      this.#endedAtMs === undefined ? 0 : this.#timers.monotonic() - this.#endedAtMs - this.#everyMs;
    const leaves = this.#yields() && lateMs > LATE_MS && this.#left < LEFT_MAX;
    this.#left = leaves ? this.#left + 1 : 0;
    return leaves;
  }
}

export class ListLanes {
  readonly #options: ListLanesOptions;
  readonly #slow: Lane;
  readonly #silent: Lane;
  readonly #retries: Lane;
  readonly #timedOut: Lane;
  readonly #letters: Lane;
  /** The tenant after which claims of retries go on: of those that timed out, and of the others. */
  readonly #afterRetryTenant = new Map<boolean, string>();
  #afterLetterEndpoint = "";
  /** When the last list of a slow endpoint was claimed, in Unix milliseconds, unless it was full. */
  readonly #slowAtMs = new Map<string, number>();
  /** When the last list of an endpoint's dead letters was claimed. */
  readonly #lettersAtMs = new Map<string, number>();
  /** When first attempts were last claimed. */
  #claimedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: ListLanesOptions) {
    this.#options = options;
    const laneOf = (lane: LaneOptions): Lane => new Lane(options.timers, lane, () => this.#yields);
    this.#slow = laneOf({ listsMax: SLOW_LISTS_MAX });
    this.#silent = laneOf({ listsMax: SLOW_LISTS_MAX, everyMs: SILENT_LANE_MS });
    this.#retries = laneOf({ listsMax: RETRY_LISTS_MAX });
    this.#timedOut = laneOf({
      listsMax: TIMED_OUT_LISTS_MAX,
      everyMs: SILENT_LANE_MS,
      roundMs: TIMED_OUT_ROUND_MS,
    });
    this.#letters = laneOf({ listsMax: LETTER_LISTS_MAX });
  }

  /** Notes that first attempts were claimed. */
  noteFirstAttempts(): void {
    this.#claimedAtMs = this.#options.timers.monotonic();
  }

  /** Starts lists of slow endpoints that answer. Returns whether the next round should follow at once. */
  async slowRound(): Promise<boolean> {
    return await this.#slow.turn(async (lists) => await this.#claimSlow(this.#answeringOnes(), lists, 0));
  }

  /**
   * Starts lists of silent endpoints, which others must not wait for. Returns whether the next round should follow at
   * once.
   *
   * While an endpoint is silent, its deliveries are collected: the list before is the probe for those that wait. After a
   * full list, the next one follows at once. After an answer, none waits.
   */
  async silentRound(): Promise<boolean> {
    return await this.#silent.turn(
      async (lists) => await this.#claimSlow(this.#silentOnes(), lists, SHARED_BELOW),
    );
  }

  /** Starts lists of retries at endpoints that answered. Returns whether the next round should follow at once. */
  async retryRound(): Promise<boolean> {
    return await this.#retries.turn(async (lists) => await this.#claimRetries(lists, false));
  }

  /** Starts lists of retries whose last attempt timed out. The next round never follows at once. */
  async timedOutRound(): Promise<void> {
    await this.#timedOut.turn(async (lists) => await this.#claimRetries(lists, true));
  }

  async #claimSlow(
    endpointIds: readonly string[],
    count: number,
    sharedBelow: number,
  ): Promise<Round | undefined> {
    const { pool, starter, starts } = this.#options;
    if (endpointIds.length === 0 || starts.pauseMs > 0) {
      return undefined;
    }
    const lists = this.#newLists(count);
    const claimed = await claimForEndpoints(pool, { ...lists, endpointIds, sharedBelow });
    this.#noteSlow(claimed);
    return await this.#startRound(
      lists,
      claimed,
      async (carrier, members) => await starter.startSlow(carrier, members),
    );
  }

  /** Returns the slow endpoints that have answered their last request. */
  #answeringOnes(): string[] {
    const { clock, health } = this.#options;
    return health.slow(clock.now()).filter((id) => health.silentSinceMs(id) === undefined);
  }

  /** Returns the silent endpoints of which deliveries may go now. */
  #silentOnes(): string[] {
    const { clock, health } = this.#options;
    const nowMs = clock.now();
    return health.slow(nowMs).filter((id) => {
      const [sinceMs, atMs] = [health.silentSinceMs(id), this.#slowAtMs.get(id)];
      return (
        sinceMs !== undefined &&
        (atMs === undefined || nowMs - atMs >= Math.min(SILENCE_MAX_MS, SILENCE_FACTOR * (atMs - sinceMs)))
      );
    });
  }

  #noteSlow(claimed: readonly Listed[]): void {
    const nowMs = this.#options.clock.now();
    for (const [endpoint, members] of Map.groupBy(claimed, (member) => member.endpoint_id)) {
      if (members.length < this.#options.batchMax) {
        putBounded(this.#slowAtMs, endpoint, nowMs, SLOW_ENDPOINTS_MAX);
      } else {
        this.#slowAtMs.delete(endpoint);
      }
    }
  }

  async #claimRetries(count: number, timedOut: boolean): Promise<Round | undefined> {
    const { pool, starter, starts } = this.#options;
    if (starts.pauseMs > 0 || !(await hasWaitingRetries(pool, timedOut))) {
      return undefined;
    }
    const lists = this.#newLists(count);
    const { claimed, nextTenant } = await claimRetries(pool, {
      ...lists,
      spreadSeconds: RETRY_SPREAD_SECONDS,
      afterTenant: this.#afterRetryTenant.get(timedOut) ?? "",
      timedOut,
    });
    this.#afterRetryTenant.set(timedOut, nextTenant);
    return await this.#startRound(
      lists,
      claimed,
      async (carrier, members) => await starter.startRetries(carrier, members),
    );
  }

  /** Starts lists of dead letters. Returns whether the next round should follow at once. */
  async letterRound(): Promise<boolean> {
    if (this.#options.starts.pauseMs > 0) {
      return false;
    }
    const isFollowed = await this.#letters.round(async (lists) => await this.#claimLetters(lists));
    return this.#afterLetterEndpoint !== "" || isFollowed;
  }

  async #claimLetters(count: number): Promise<Round> {
    const { pool, clock, starter } = this.#options;
    const lists = { ...this.#newLists(count), listMax: LETTERS_MAX };
    const nowMs = this.#options.timers.monotonic();
    const recent = [...this.#lettersAtMs].filter(([, atMs]) => atMs > nowMs - LETTERS_MS);
    const { claimed, nextEndpoint } = await claimLetters(pool, {
      ...lists,
      recentEndpoints: recent.map(([endpoint]) => endpoint),
      diedBefore: new Date(clock.now() - LETTERS_MS),
      afterEndpoint: this.#afterLetterEndpoint,
    });
    this.#afterLetterEndpoint = nextEndpoint;
    for (const { endpoint_id: endpointId } of claimed) {
      putBounded(this.#lettersAtMs, endpointId, nowMs, LETTER_ENDPOINTS_MAX);
    }
    return await this.#startRound(
      lists,
      claimed,
      async (carrier, members) => await starter.startLetters(carrier, members),
    );
  }

  /** Starts each carrier with all the members that were claimed for it. */
  async startAll<T extends Claimed>(
    lists: Iterable<readonly [carrier: string, members: readonly T[]]>,
    start: Start<T>,
  ): Promise<void> {
    for (const [carrier, members] of lists) {
      const slots = this.#yields ? STARTS : undefined;
      await this.#options.starts.begin(carrier, async () => await start(carrier, members), slots);
    }
  }

  /** Starts the lists of a round in the order of their numbers, in which tenants take turns. */
  async #startRound<T extends Listed>(
    { carriers }: ListsClaim,
    claimed: readonly T[],
    start: Start<T>,
  ): Promise<Round> {
    const began = this.#options.timers.monotonic();
    const lists = byCarrier(claimed.toSorted((a, b) => a.list - b.list));
    await this.startAll(lists, async (carrier, members) => {
      if ((await start(carrier, members)) === false) {
        await this.#startElsewhere(carrier, members, start);
      }
    });
    return { full: lists.size === carriers.length, tookMs: this.#options.timers.monotonic() - began };
  }

  /** Another workflow has the delivery's id, and is open: an earlier carrier of it, or a list of 0.3.0. */
  async #startElsewhere<T extends Listed>(id: string, members: readonly T[], start: Start<T>): Promise<void> {
    const { pool, clock, randomBytes } = this.#options;
    const carrier = newId("batch", clock.now(), randomBytes);
    if (await renameCarrier(pool, { id, carrier })) {
      await start(
        carrier,
        members.map((member) => ({ ...member, carrier })),
      );
    }
  }

  /** Whether the lanes leave the cores to first attempts. */
  get #yields(): boolean {
    return this.#options.timers.monotonic() - this.#claimedAtMs < YIELD_MS;
  }

  #newLists(count: number): ListsClaim {
    const { worker, clock, batchMax, randomBytes } = this.#options;
    const now = clock.now();
    const carriers = Array.from({ length: count }, () => newId("batch", now, randomBytes));
    return { carriers, listMax: batchMax, worker, now: new Date(now) };
  }
}
