/**
 * Takes deliveries over at their insert if it can (decision 42), and the others from the outbox: claims them by writing their carrier, sends their first attempts, and starts the
 * carrier's workflow. A lone delivery goes immediately; deliveries that wait for a token go together. After a crash
 * between claim and start, a sweep starts the claim again, with the same carrier, members and epoch.
 */
import type { Logger } from "pino";
import type { Pool } from "../../database/pool.ts";
import type { LiveWorkers } from "../../database/repositories/health.ts";
import { EXPIRED_AT_ONCE, expireOverdue } from "../../database/repositories/webhooks/carriers.ts";
import {
  claimFirst,
  claimNamed,
  findOtherDays,
  type FirstClaim,
  reclaimUnstarted,
} from "../../database/repositories/webhooks/claims.ts";
import type { GuardedClock } from "../../domain/clock.ts";
import { DAY_MS, idDay, isId, type RandomBytes, utcDay } from "../../domain/ids.ts";
import type { AttemptService } from "./attempt-service.ts";
import { byCarrier } from "./by-carrier.ts";
import { BusyTenants } from "./busy-tenants.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import { Sleeper } from "../../runtime/sleeper.ts";
import { FirstLists } from "./first-lists.ts";
import type { OfferedDelivery, TakenOffer } from "../ingest/hand-over.ts";
import { type OutboxReason, refuseAll, takeOffer } from "./hand-over.ts";
import { Targets } from "./targets.ts";
import { LANE_MS, ListLanes } from "./list-lanes.ts";
import { startList } from "./hand-back.ts";
import { Starts } from "./starts.ts";
import { TokenBucket } from "../../domain/token-buckets.ts";
import { tracer } from "../../observability/tracing.ts";

/** Notifications are only hints, so the outbox is also polled. */
const POLL_MS = 1_000;
/** When a worker looks that a notification did not pick. By then, the picked one has claimed, unless it is full. */
const OTHERS_MS = 250;
const SWEEP_MS = 5_000;
/** A claim without an outcome after this time may have no workflow. */
const UNSTARTED_AFTER_MS = 15_000;
const SWEEP_MAX = 500;
/** Rounds of expiry in a sweep: a million dead letters that lost their workflows end within 20 minutes. */
const EXPIRY_ROUNDS = 10;
/** How soon to look for deliveries of other days after a notification of none of the latest. */
const LOOK_SOON_MS = 100;
/** Claims without waiting. Then a token per claim is needed. */
const CLAIM_BURST = 10;
/** Claims of named deliveries per claim of others: they cost less, and gain latency at medium rates. */
const NAMED_CLAIMS = 4;
/** If more wait at once, they are claimed together, and so are those of the next second. That costs less. */
const NAMED_MAX = 4;
const MANY_MS = 1_000;
/** How often to look for deliveries without a notification while all others are named. */
const SEARCH_MS = 2_000;
/** Pause while the limit of first attempts in progress is reached. */
const FULL_MS = 5;
/** Room for other tenants beyond the limit, as a share of it. */
const BESIDE_SHARE = 1 / 4;

export interface DispatcherOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly health: EndpointHealth;
  readonly clock: GuardedClock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
  /** Claims with less than a full list, per second, of all live workers together. */
  readonly claimsPerSecond: number;
  /** How many days deliveries are kept. */
  readonly retentionDays: number;
  /** Maximum number of deliveries per workflow; 1 disables batching. */
  readonly batchMax: number;
  readonly attempts: AttemptService;
  /** Claims stop at this number of first attempts in progress. Deliveries then wait in the outbox. */
  readonly underWayMax: number;
}

/** What a claim of the latest days found. */
interface ClaimResult {
  readonly known: number;
  readonly claimed: number;
  /** Whether more deliveries are known to wait. */
  readonly more: boolean;
  /** Whether it claimed as many as it could. */
  readonly full: boolean;
}

function isDelivery(id: string): boolean {
  return isId(id, "delivery");
}

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #claims = new TokenBucket(CLAIM_BURST, performance.now());
  readonly #starts: Starts;
  readonly #busy: BusyTenants;
  readonly #lists: FirstLists;
  readonly #lanes: ListLanes;
  readonly #targets: Targets;
  readonly #sleeper = new Sleeper();
  /** Whether this worker is known to live, so that others leave its claims alone. */
  #isKnown = false;
  /** Estimated size of the outbox, from notifications. */
  #waiting = 0;
  /** Waiting deliveries that notifications named. If they are all that is known to wait, they are claimed by id. */
  #named: string[] = [];
  /** When more than {@link NAMED_MAX} last waited at once. */
  #manyAtMs = Number.NEGATIVE_INFINITY;
  /** When a claim last looked for any deliveries. */
  #searchedAtMs = Number.NEGATIVE_INFINITY;
  readonly #namedClaims = new TokenBucket(CLAIM_BURST, performance.now());
  #afterTenant = "";
  /** Claims per second of this worker. */
  #perSecond: number;
  #workers: LiveWorkers = { live: 1, rank: 0 };
  #later: NodeJS.Timeout | undefined;
  /** Other days of which deliveries wait, and when to look for such days again. */
  #otherDays: string[] = [];
  #lookMs = 0;
  #loops: Promise<unknown> | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#perSecond = options.claimsPerSecond;
    this.#starts = new Starts(options.log);
    this.#busy = new BusyTenants(options);
    this.#lists = new FirstLists({ ...options, starts: this.#starts, busy: this.#busy });
    this.#lanes = new ListLanes({ ...options, starts: this.#starts });
    this.#targets = new Targets(options.pool, () => performance.now());
  }

  start(): void {
    this.#loops ??= Promise.all([
      this.#firstLane(),
      this.#every(LANE_MS, "slow lane", async () => await this.#lanes.slowRound()),
      this.#every(LANE_MS, "retry lane", async () => await this.#lanes.retryRound()),
      this.#every(SWEEP_MS, "dead-letter lane", async () => await this.#lanes.letterRound()),
      this.#every(SWEEP_MS, "sweep", async () => {
        await this.#sweep();
        return false;
      }),
    ]);
  }

  /**
   * Receives the notification of new deliveries in the outbox: their number, a random number that picks one worker, and
   * perhaps the ids of their tenants and of the deliveries. The others look a little later, if at all: every worker gets
   * every notification, and one claim is enough.
   */
  notified(payload: string): void {
    const [count = "", turn = "", ...ids] = payload.split(" ");
    if (Number(turn) % this.#workers.live === this.#workers.rank) {
      this.#busy.noteWaiting(ids.filter((id) => !isDelivery(id)));
      this.#noteNamed(Number(count), ids.filter(isDelivery));
      this.hint(Math.max(1, Number(count)));
    } else {
      this.#later ??= setTimeout(() => {
        this.#later = undefined;
        this.hint(1);
      }, OTHERS_MS);
    }
  }

  /**
   * Takes over deliveries that this process is about to insert. They wait in the outbox whenever a claim would leave them
   * there, and while others wait: no delivery overtakes older ones of its tenant.
   */
  offer(offered: readonly OfferedDelivery[]): TakenOffer | undefined {
    const reason = this.#refusal(offered.length);
    if (reason !== undefined) {
      return refuseAll(offered, reason);
    }
    const { worker, health, clock } = this.#options;
    this.#busy.noteSent(offered.map(({ event }) => event.tenantId));
    const slow = new Set(health.slow(clock.now()));
    const busy = new Set(this.#busy.ids);
    const [lists, targets] = [this.#lists, this.#targets];
    const onTaken = (): void => this.#lanes.noteFirstAttempts();
    return takeOffer({ worker, lists, targets, onTaken }, offered, ({ event, delivery }) =>
      busy.has(event.tenantId) ? "busy_tenant" : slow.has(delivery.endpointId) ? "slow_endpoint" : undefined,
    );
  }

  /** Returns why so many deliveries all have to wait in the outbox; undefined if they need not. */
  #refusal(count: number): OutboxReason | undefined {
    const { attempts, underWayMax, batchMax, clock } = this.#options;
    if (this.#sleeper.stopped) {
      return "ending";
    }
    // What waits from earlier is known after the first search.
    if (!this.#isKnown || this.#searchedAtMs === Number.NEGATIVE_INFINITY) {
      return "starting";
    }
    if (!clock.isRight) {
      return "clock";
    }
    if (batchMax === 1) {
      return "unbatched";
    }
    if (this.#waiting > 0 || this.#otherDays.length > 0) {
      return "backlog";
    }
    if (attempts.firstUnderWay + count > underWayMax || this.#lists.isFull) {
      return "limit";
    }
    return this.#busy.rests() ? "rest" : undefined;
  }

  #noteNamed(count: number, ids: readonly string[]): void {
    if (count > NAMED_MAX || this.#named.length + ids.length > NAMED_MAX) {
      this.#manyAtMs = performance.now();
    } else {
      this.#named.push(...ids);
    }
  }

  /** Reports new deliveries in the outbox. */
  hint(count: number): void {
    const before = this.#waiting;
    this.#waiting += count;
    // Between the first delivery and a full list, only a token is worth waking for.
    if (before === 0 || this.#waiting >= this.#options.batchMax) {
      this.#sleeper.wake();
    }
  }

  /** Sets the live workers, which share the rate and the notifications. */
  shareWith(workers: LiveWorkers): void {
    this.#workers = workers;
    this.#isKnown = true;
    this.#perSecond = this.#options.claimsPerSecond / workers.live;
  }

  /** Repeats the starts in progress: their answers can no longer come, because the connection was replaced. */
  reconnected(): void {
    this.#starts.reconnected();
  }

  /** Stops claiming and waits for the starts in progress. */
  async stop(): Promise<void> {
    this.#sleeper.stop();
    clearTimeout(this.#later);
    await this.#loops;
    this.#starts.stop();
    await this.#lists.settle();
    await this.#starts.settle();
  }

  async #firstLane(): Promise<void> {
    while (!this.#sleeper.stopped) {
      try {
        if (!this.#options.clock.isRight) {
          await this.#sleeper.sleep(POLL_MS, { soundly: true });
        } else if (this.#isFull() || this.#busy.rests()) {
          await this.#claimBeside();
          await this.#sleeper.sleep(FULL_MS, { soundly: true });
        } else {
          const waitMs = await this.#claimFirst();
          await this.#sleeper.sleep((await this.#claimOther()) ? 0 : waitMs);
        }
      } catch (error) {
        this.#options.log.warn({ err: error }, "outbox could not be read");
        await this.#sleeper.sleep(POLL_MS, { soundly: true });
      }
    }
  }

  #isFull(): boolean {
    const { attempts, underWayMax } = this.#options;
    return attempts.firstUnderWay >= underWayMax || this.#lists.isFull;
  }

  /** Claims once if it is time to. Returns how long to wait for the next claim unless a notification comes first. */
  async #claimFirst(): Promise<number> {
    const { batchMax } = this.#options;
    // Without lists, waiting gains nothing. The requests in flight are the only limit.
    const alone = batchMax === 1;
    if (!alone && this.#mayClaimNamed()) {
      return await this.#claimNamed();
    }
    const token = !alone && this.#claims.take(this.#perSecond, CLAIM_BURST, performance.now()) === 0;
    const known = this.#waiting;
    if (!alone && !token && known < batchMax) {
      return this.#waitMs();
    }
    const room = this.#busy.claimSize(this.#lists.room(known));
    this.#busy.noteClaim(false);
    this.#named = [];
    this.#searchedAtMs = performance.now();
    // The last ones of very many tenants may have less than a list.
    const last = this.#afterTenant !== "";
    const { claimed, more, nextTenant } = await this.#claimList({
      days: this.#latestDays(),
      atLeast: alone || token || last ? 1 : room,
      limit: room,
      afterTenant: this.#afterTenant,
    });
    this.#afterTenant = nextTenant;
    this.#estimate({ known, claimed, more, full: claimed === room });
    if (token && (claimed === 0 || claimed === room)) {
      this.#claims.charge(-1);
    }
    return this.#waitForNext(alone);
  }

  /** Whether the named deliveries are all that is known to wait, and can be claimed by id. */
  #mayClaimNamed(): boolean {
    const named = this.#named;
    const nowMs = performance.now();
    return (
      named.length > 0 &&
      named.length === this.#waiting &&
      nowMs - this.#manyAtMs >= MANY_MS &&
      nowMs - this.#searchedAtMs < SEARCH_MS &&
      named.length <= this.#lists.room(named.length) &&
      named.every((id) => idDay(id) === idDay(named[0] as string))
    );
  }

  /** Claims the named deliveries if it is time to. Returns how long to wait for the next claim, as {@link #claimFirst}. */
  async #claimNamed(): Promise<number> {
    const waitMs = this.#namedClaims.take(this.#perSecond * NAMED_CLAIMS, CLAIM_BURST, performance.now());
    if (waitMs > 0) {
      return waitMs;
    }
    const ids = this.#named;
    this.#named = [];
    const { pool } = this.#options;
    const { claimed } = await this.#lists.claim(async (list) => ({
      claimed: await claimNamed(pool, { ...list, ...this.#claim(), ids }),
    }));
    this.#noteClaimed(claimed.length);
    // Those that this claim did not find wait for the next search, or for the slow lane.
    this.#waiting -= ids.length;
    return this.#waiting === 0 ? POLL_MS : 0;
  }

  /** Claims for other tenants while busy ones fill the limit of first attempts in progress, or rest. */
  async #claimBeside(): Promise<void> {
    const { attempts, underWayMax } = this.#options;
    const busy = this.#busy.ids;
    const room = attempts.firstUnderWay < underWayMax * (1 + BESIDE_SHARE) && !this.#lists.isFull;
    if (!this.#busy.othersWait || !room || busy.length === 0) {
      return;
    }
    if (this.#claims.take(this.#perSecond, CLAIM_BURST, performance.now()) > 0) {
      return;
    }
    const limit = this.#busy.claimSize(this.#lists.room(0));
    this.#busy.noteClaim(false);
    this.#named = [];
    const { claimed } = await this.#claimList({
      days: this.#latestDays(),
      atLeast: 1,
      limit,
      afterTenant: "",
      exceptTenants: busy,
    });
    this.#waiting = Math.max(0, this.#waiting - claimed);
    if (claimed === limit) {
      this.#busy.noteClaim(true);
    }
  }

  /** Updates the estimate of the outbox after a claim. `known` is the estimate before it. */
  #estimate({ known, claimed, more, full }: ClaimResult): void {
    const left = more || full ? Math.max(known - claimed, full ? this.#options.batchMax : 1) : 0;
    this.#waiting += left - known;
    if (claimed === 0 && known > 0) {
      this.#lookMs = Math.min(this.#lookMs, performance.now() + LOOK_SOON_MS);
    }
  }

  #waitForNext(alone: boolean): number {
    if (this.#waiting === 0) {
      return POLL_MS;
    }
    return alone || this.#waiting >= this.#options.batchMax ? 0 : this.#waitMs();
  }

  #waitMs(): number {
    return this.#claims.waitMs(this.#perSecond, CLAIM_BURST, performance.now());
  }

  /** The two days of almost all waiting deliveries: ids are made shortly before. */
  #latestDays(): [string, string] {
    const now = this.#options.clock.now();
    return [utcDay(now - DAY_MS), utcDay(now)];
  }

  /**
   * Claims once from another day, of which mostly replayed deliveries wait. Returns whether more may wait there. The
   * claim of the latest days would be slower if it read those, too.
   */
  async #claimOther(): Promise<boolean> {
    const { pool, retentionDays } = this.#options;
    const nowMs = performance.now();
    if (this.#otherDays.length === 0 && nowMs >= this.#lookMs) {
      this.#lookMs = nowMs + POLL_MS;
      this.#otherDays = await findOtherDays(pool, this.#latestDays(), retentionDays);
    }
    const [day] = this.#otherDays;
    if (day === undefined || this.#isFull()) {
      return false;
    }
    const limit = this.#busy.claimSize(this.#lists.room(this.#options.batchMax));
    const { claimed } = await this.#claimList({ days: [day], atLeast: 1, limit, afterTenant: "" });
    if (claimed < limit) {
      this.#otherDays.shift();
    }
    return this.#otherDays.length > 0;
  }

  /** Claims for a list. */
  async #claimList(
    claim: Pick<FirstClaim, "days" | "atLeast" | "limit" | "afterTenant"> &
      Partial<Pick<FirstClaim, "exceptTenants">>,
  ): Promise<{ readonly claimed: number; readonly more: boolean; readonly nextTenant: string }> {
    const { claimed, ...rest } = await this.#lists.claim(
      async (list) =>
        await claimFirst(this.#options.pool, { exceptTenants: [], ...claim, ...list, ...this.#claim() }),
    );
    this.#noteClaimed(claimed.length);
    return { claimed: claimed.length, ...rest };
  }

  #noteClaimed(count: number): void {
    if (count > 0) {
      this.#lanes.noteFirstAttempts();
    }
  }

  /** What all claims of first attempts have in common. */
  #claim(): Pick<FirstClaim, "exceptEndpoints" | "worker" | "now" | "traced"> {
    const { clock, health, worker } = this.#options;
    const now = clock.now();
    return { exceptEndpoints: health.slow(now), worker, now: new Date(now), traced: tracer() !== undefined };
  }

  async #sweep(): Promise<void> {
    const { pool, clock } = this.#options;
    const now = clock.now();
    const unstarted = await reclaimUnstarted(pool, {
      before: new Date(now - UNSTARTED_AFTER_MS),
      now: new Date(now),
      limit: SWEEP_MAX,
    });
    await this.#lanes.startAll(
      byCarrier(unstarted),
      async (carrier, members) => await startList(this.#options, carrier, members),
    );
    await this.#lists.sweep();
    let expired = EXPIRED_AT_ONCE;
    for (let round = 0; round < EXPIRY_ROUNDS && expired === EXPIRED_AT_ONCE; round += 1) {
      expired = await expireOverdue(pool, new Date(now));
    }
  }

  /** Repeats a round. It returns whether more waits, so that the next one follows at once. */
  async #every(ms: number, name: string, round: () => Promise<boolean>): Promise<void> {
    while (!this.#sleeper.stopped) {
      let more = false;
      try {
        more = this.#options.clock.isRight && (await round());
      } catch (error) {
        this.#options.log.warn({ err: error }, `${name} failed`);
      }
      if (!more) {
        await this.#sleeper.sleep(ms, { soundly: true });
      }
    }
  }
}
