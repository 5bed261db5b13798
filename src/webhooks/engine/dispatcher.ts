/**
 * Takes deliveries over at their insert if it can (decision 42), and the others from the outbox: claims them by writing
 * their carrier, sends their first attempts, and starts the carrier's workflow. A lone delivery goes immediately;
 * deliveries that wait for a token go together. After a crash between claim and start, a sweep starts the claim again,
 * with the same carrier, members and epoch.
 */
import type { EventLoopUtilityFunction } from "node:perf_hooks";
import type { Logger } from "pino";
import type { Pool } from "#database/pool.ts";
import type { LiveWorkers } from "#database/repositories/health.ts";
import { EXPIRED_AT_ONCE, expireOverdue } from "#database/repositories/webhooks/carriers.ts";
import {
  type ClaimOfFirst,
  claimFirst,
  claimNamed,
  findOtherDays,
  type FirstClaim,
  reclaimUnstarted,
} from "#database/repositories/webhooks/claims.ts";
import type { GuardedClock, Timer, Timers } from "#domain/clock.ts";
import { DAY_MS, idAt, isId, type RandomBytes, utcDay } from "#domain/ids.ts";
import type { AttemptService } from "./attempt-service.ts";
import { byCarrier } from "./by-carrier.ts";
import { BusyTenants } from "./busy-tenants.ts";
import type { CarrierStarter } from "./carrier-starter.ts";
import type { EndpointHealth } from "../pacing/endpoint-health.ts";
import { Sleeper } from "#runtime/sleeper.ts";
import { FirstLists } from "./first-lists.ts";
import type { HandOver, OfferedDelivery, TakenOffer } from "../ingest/hand-over.ts";
import { refuseAll, takeOffer } from "./hand-over.ts";
import {
  type Action,
  type DispatchState,
  plan,
  type PlannedClaim,
  planOffer,
  POLL_MS,
} from "./dispatch-plan.ts";
import { KnownOutbox } from "./known-outbox.ts";
import { Targets } from "./targets.ts";
import { LANE_MS, ListLanes, SILENT_LANE_MS } from "./list-lanes.ts";
import { startList } from "./hand-back.ts";
import { Starts } from "./starts.ts";
import { tracer } from "#observability/tracing.ts";

/** When a worker looks that a notification did not pick. By then, the picked one has claimed, unless it is full. */
const OTHERS_MS = 250;
const SWEEP_MS = 5_000;
/** A claim without an outcome after this time may have no workflow. */
const UNSTARTED_AFTER_MS = 15_000;
const SWEEP_MAX = 500;
/** Rounds of expiry in a sweep: a million dead letters that lost their workflows end within 20 minutes. */
const EXPIRY_ROUNDS = 10;

export interface DispatcherOptions {
  /** Id of this worker in claims. */
  readonly worker: string;
  readonly pool: Pool;
  readonly starter: CarrierStarter;
  readonly health: EndpointHealth;
  readonly clock: GuardedClock;
  readonly timers: Timers;
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
  /** By default, that of this process. */
  readonly loopUtilization?: EventLoopUtilityFunction;
}

function isDelivery(id: string): boolean {
  return isId(id, "delivery");
}

export class Dispatcher implements HandOver {
  readonly #options: DispatcherOptions;
  readonly #starts: Starts;
  readonly #busy: BusyTenants;
  readonly #lists: FirstLists;
  readonly #lanes: ListLanes;
  readonly #targets: Targets;
  readonly #sleeper: Sleeper;
  /** Whether this worker is known to live, so that others leave its claims alone. */
  #isKnown = false;
  readonly #outbox: KnownOutbox;
  /** Claims per second of this worker. */
  #perSecond: number;
  #workers: LiveWorkers = { live: 1, rank: 0 };
  #later: Timer | undefined;
  /** The slow endpoints at the last claim. */
  #slow: readonly string[] = [];
  #loops: Promise<unknown> | undefined;

  constructor(options: DispatcherOptions) {
    this.#options = options;
    this.#perSecond = options.claimsPerSecond;
    const { timers } = options;
    this.#sleeper = new Sleeper(timers);
    this.#outbox = new KnownOutbox(options.batchMax, timers.monotonic());
    this.#starts = new Starts(timers, options.log);
    this.#busy = new BusyTenants({ ...options, monotonic: timers.monotonic });
    this.#lists = new FirstLists({ ...options, starts: this.#starts, busy: this.#busy });
    this.#lanes = new ListLanes({ ...options, starts: this.#starts });
    this.#targets = new Targets(options.pool, timers);
  }

  start(): void {
    this.#loops ??= Promise.all([
      this.#firstLane(),
      this.#every(LANE_MS, "slow lane", async () => await this.#lanes.slowRound()),
      this.#every(SILENT_LANE_MS, "silent lane", async () => await this.#lanes.silentRound()),
      this.#every(LANE_MS, "retry lane", async () => await this.#lanes.retryRound()),
      this.#every(SILENT_LANE_MS, "lane of timed-out retries", async () => {
        await this.#lanes.timedOutRound();
        return false;
      }),
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
    if (!ids.some(isDelivery)) {
      // New ones are named, so these wait again.
      this.#outbox.noteOlder();
    }
    if (Number(turn) % this.#workers.live === this.#workers.rank) {
      const tenantIds = ids.filter((id) => !isDelivery(id));
      this.#outbox.noteTenants(tenantIds);
      if (this.#busy.note(tenantIds)) {
        this.#sleeper.wake();
      }
      this.#outbox.name(Number(count), ids.filter(isDelivery), this.#options.timers.monotonic());
      this.hint(Math.max(1, Number(count)));
    } else {
      this.#later ??= this.#options.timers.after(OTHERS_MS, () => {
        this.#later = undefined;
        this.#outbox.noteTenants([]);
        this.hint(1);
      });
    }
  }

  /**
   * Takes over deliveries that this process is about to insert. They wait in the outbox whenever a claim would leave them
   * there, and while others wait: no delivery overtakes older ones of its tenant.
   */
  offer(offered: readonly OfferedDelivery[]): TakenOffer | undefined {
    const state = this.#state();
    const action = planOffer(state, offered.length);
    if (action.mode === "outbox") {
      return refuseAll(offered, action.reason);
    }
    const { worker, health, clock } = this.#options;
    this.#busy.note(offered.map(({ event }) => event.tenantId));
    const now = clock.now();
    const [lists, targets] = [this.#lists, this.#targets];
    const onTaken = (): void => this.#lanes.noteFirstAttempts();
    return takeOffer({ worker, lists, targets, onTaken }, offered, ({ event, delivery }) =>
      state.busyTenants.includes(event.tenantId)
        ? "busy_tenant"
        : health.isSlow(delivery.endpointId, now)
          ? "slow_endpoint"
          : undefined,
    );
  }

  /** Reports a delivery that this process has queued once more. */
  requeued(): void {
    this.#outbox.noteOlder();
    this.#outbox.noteTenants([]);
    this.hint(1);
  }

  /** Reports deliveries in the outbox. */
  hint(count: number): void {
    if (this.#outbox.add(count)) {
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
    this.#options.timers.cancel(this.#later);
    await this.#loops;
    this.#starts.stop();
    await this.#lists.settle();
    await this.#starts.settle();
  }

  async #firstLane(): Promise<void> {
    for (let action = plan(this.#state()); action.mode !== "end"; action = plan(this.#state())) {
      try {
        await this.#act(action);
      } catch (error) {
        this.#options.log.warn({ err: error }, "outbox could not be read");
        await this.#sleeper.sleep(POLL_MS, { soundly: true });
      }
    }
  }

  #state(): DispatchState {
    const { attempts, clock, timers, batchMax, underWayMax } = this.#options;
    const nowMs = timers.monotonic();
    const busyTenants = this.#busy.ids;
    return {
      ...this.#outbox.view(this.#perSecond, busyTenants, nowMs),
      nowMs,
      stopped: this.#sleeper.stopped,
      isKnown: this.#isKnown,
      clockIsRight: clock.isRight,
      batchMax,
      underWay: attempts.firstUnderWay,
      underWayMax,
      listsAreFull: this.#lists.isFull,
      places: this.#lists.places,
      busyTenants,
      besideOthers: this.#busy.isBesideOthers,
      rests: this.#busy.rests(),
      restMs: this.#busy.restMs(),
    };
  }

  async #act(action: Exclude<Action, { mode: "end" }>): Promise<void> {
    if (action.mode === "wait") {
      await this.#sleeper.sleep(action.ms, action);
      this.#outbox.waited();
    } else if (action.mode === "look") {
      const { pool, retentionDays } = this.#options;
      const found = this.#outbox.beginLook(this.#options.timers.monotonic());
      found(await findOtherDays(pool, this.#latestDays(), retentionDays));
    } else {
      await this.#claim(action);
    }
  }

  async #claim(claim: PlannedClaim): Promise<void> {
    if (this.#noteRecovered()) {
      return;
    }
    const ended = this.#outbox.begin(claim, this.#options.timers.monotonic());
    if (claim.mode !== "beside") {
      this.#busy.claiming();
    }
    const { claimed, more, nextTenant } = await this.#lists.claim(
      claim.limit,
      async (list) => await this.#query(claim, list),
    );
    if (claimed.length > 0) {
      this.#lanes.noteFirstAttempts();
    }
    this.#busy.claimed(claim, claimed, { more, nextTenant });
    ended({ claimed: claimed.length, more, nextTenant }, this.#options.timers.monotonic());
  }

  /** Returns whether an endpoint is no longer slow since the last claim, so that its deliveries may be claimed. */
  #noteRecovered(): boolean {
    const before = this.#slow;
    this.#slow = this.#options.health.slow(this.#options.clock.now());
    const slow = new Set(this.#slow);
    const recovered = before.some((endpointId) => !slow.has(endpointId));
    if (recovered) {
      this.#outbox.noteOlder();
    }
    return recovered;
  }

  async #query(claim: PlannedClaim, list: Pick<FirstClaim, "carrier" | "alone">): Promise<ClaimOfFirst> {
    const { pool, clock, worker } = this.#options;
    const now = clock.now();
    const common = {
      ...list,
      exceptEndpoints: this.#slow,
      worker,
      now: new Date(now),
      traced: tracer() !== undefined,
    };
    if (claim.mode === "named") {
      return { claimed: await claimNamed(pool, { ...common, ids: claim.ids }), more: false, nextTenant: "" };
    }
    return await claimFirst(pool, {
      ...common,
      ...claim,
      days: claim.day === undefined ? this.#latestDays() : [claim.day],
      afterDelivery:
        claim.madeWithinMs === Number.POSITIVE_INFINITY ? "" : idAt("delivery", now - claim.madeWithinMs),
    });
  }

  /** The two days of almost all waiting deliveries: ids are made shortly before. */
  #latestDays(): [string, string] {
    const now = this.#options.clock.now();
    return [utcDay(now - DAY_MS), utcDay(now)];
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
