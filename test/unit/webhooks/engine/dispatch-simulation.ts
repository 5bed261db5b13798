/**
 * A worker's first lane in simulated time: the planner and what the worker knows are real, PostgreSQL and the sleeper are
 * models. It checks what is promised at every claim and every offer.
 */
import assert from "node:assert/strict";
import { BusyTenants, REST_MAX_MS } from "#webhooks/engine/busy-tenants.ts";
import {
  type DispatchState,
  plan,
  type PlannedClaim,
  planOffer,
  POLL_MS,
  SEARCH_MS,
} from "#webhooks/engine/dispatch-plan.ts";
import { CLAIM_BURST, KnownOutbox, LOOK_SOON_MS, NAMED_CLAIMS } from "#webhooks/engine/known-outbox.ts";
import { seededBytes } from "#test/support/seeded-random.ts";
import { beginWait, expectWithin, find, type Published, type Waiting, waitingOf } from "./outbox-model.ts";
import {
  type Activity,
  Agenda,
  loopOf,
  Places,
  roundsOf,
  type SimulationOptions,
  spend,
  type Spent,
} from "./simulated-worker.ts";

const CLAIM_MS = 10;
const OTHERS_MS = 250;
/** The slow lane takes a delivery after this time, and that of silent endpoints within the longer one. */
const SLOW_LANE_MS = 300;
const SILENT_LANE_MS = 10_000;

export class Simulation {
  nowMs = 0;
  /** Time in which claims could be made. */
  freeMs = 0;
  /** Time in which claims for others than busy tenants could be made. */
  besideMs = 0;
  clockIsRight = true;
  isKnown = false;
  stopped = false;
  listsAreFull = false;
  /** Utilization of the event loop. */
  load = 0;
  /** Whether statements fail: before or after what they do. */
  faults: "none" | "before" | "after" = "none";
  attemptMs = 20;
  today = 100;
  statements = 0;
  handedOver = 0;
  /** Claims that the buckets must have allowed. */
  readonly spent: Spent = { latest: 0, named: 0 };
  readonly outbox = new Map<string, Waiting>();
  readonly held = new Set<string>();
  activity: Activity = "claims";
  readonly #options: SimulationOptions;
  readonly #known: KnownOutbox;
  readonly #busy: BusyTenants;
  readonly #agenda = new Agenda();
  #underWay = 0;
  readonly #places: Places;
  #mostWaiting = 0;
  #searched = false;
  #called = false;
  #wakes = 0;
  #otherHint = false;
  #recovered = false;
  #hasRested = false;

  readonly #randomBytes: (size: number) => Buffer;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.#randomBytes = seededBytes(options.random);
    this.#places = new Places(options.batchMax);
    this.#known = new KnownOutbox(options.batchMax, 0);
    this.#busy = new BusyTenants({
      ...options,
      monotonic: () => this.nowMs,
      loopUtilization: loopOf(this),
    });
    this.#agenda.at(0, () => this.#loop());
  }

  /** Lets time pass. */
  advance(ms: number): void {
    const end = this.nowMs + ms;
    for (;;) {
      const next = this.#agenda.next;
      this.#pass(Math.min(next?.atMs ?? end, end));
      if (next === undefined || next.atMs > end) {
        return;
      }
      this.#agenda.shift();
      next.run();
    }
  }

  /** Deliveries are inserted into the outbox, and notified. */
  publish(published: Published): void {
    const { slow = false, old = false, named = !old, told } = published;
    const added = waitingOf(published, this.#randomBytes, {
      nowMs: this.nowMs,
      today: this.today,
      sinceMs: this.freeMs,
    });
    for (const each of added) {
      this.outbox.set(each.id, each);
      if (slow) {
        const waits = this.#below(2) === 0 ? SLOW_LANE_MS : this.#below(SILENT_LANE_MS);
        this.#agenda.at(this.nowMs + waits, () => void (each.slow && this.outbox.delete(each.id)));
      }
    }
    this.#mostWaiting = Math.max(this.#mostWaiting, this.outbox.size);
    if (told !== "nobody") {
      this.#agenda.at(this.nowMs + this.#below(5), () =>
        this.#notified(added, { me: told === "me", named, old }),
      );
    }
  }

  /** Slow endpoints answer. */
  recover(): void {
    for (const each of [...this.outbox.values()].filter(({ slow }) => slow)) {
      each.slow = false;
      beginWait(each, this.freeMs);
    }
    this.#recovered = true;
  }

  /** Deliveries are offered before their insert. Checks that none is taken that must wait. */
  offer(tenant: string, count: number): void {
    const state = this.#state();
    const action = planOffer(state, count);
    if (action.mode === "outbox") {
      this.publish({ tenants: [tenant], count, told: "me" });
      return;
    }
    assert.ok(!this.stopped && this.isKnown && this.#searched && this.clockIsRight, "handed over too soon");
    assert.ok(this.#options.batchMax > 1, "handed over without lists");
    assert.ok(
      this.#underWay + count <= this.#options.underWayMax && !this.listsAreFull,
      "handed over past a limit",
    );
    assert.ok(!this.#busy.rests(), "handed over while the event loop rests for others");
    const overtaken = [...this.outbox.values()].filter(
      (each) =>
        each.tenant === tenant &&
        this.#mayClaim(each) &&
        (this.#isLatest(each) ? each.toldMs !== undefined : each.looked),
    );
    assert.ok(overtaken.length === 0 || state.busyTenants.includes(tenant), "handed over past what waits");
    this.#busy.note([tenant]);
    if (state.busyTenants.includes(tenant)) {
      this.publish({ tenants: [tenant], count, told: "me" });
    } else {
      this.handedOver += count;
      this.#begin(Array.from({ length: count }, () => tenant));
    }
  }

  hold(tenant: string, held: boolean): void {
    if (held) {
      this.held.add(tenant);
    } else {
      this.held.delete(tenant);
    }
    for (const each of this.outbox.values()) {
      if (each.tenant === tenant) {
        beginWait(each, this.freeMs);
      }
    }
  }

  /** The process ends. */
  stop(): void {
    this.stopped = true;
    if (this.activity === "light" || this.activity === "sound" || this.activity === "beside") {
      this.#resume();
    }
  }

  /** Another worker claims some. */
  steal(count: number): void {
    [...this.outbox.keys()].slice(0, count).forEach((id) => this.outbox.delete(id));
  }

  /** Checks that nothing waits for too long. */
  check(): void {
    for (const each of this.outbox.values()) {
      this.#checkBound(each);
    }
    const seconds = this.nowMs / 1_000;
    const { perSecond } = this.#options;
    assert.ok(this.spent.latest <= CLAIM_BURST + perSecond * seconds + 1, "more claims than tokens");
    assert.ok(
      this.spent.named <= CLAIM_BURST + NAMED_CLAIMS * perSecond * seconds + 1,
      "more named claims than tokens",
    );
  }

  /** How long a delivery may wait that this worker was told of, in milliseconds in which claims could be made. */
  get toldBoundMs(): number {
    return this.#boundMs + (this.#hasRested ? roundsOf(this.#mostWaiting, this.#options) * REST_MAX_MS : 0);
  }

  /** The same if claims need not rest for it. */
  get #boundMs(): number {
    return roundsOf(this.#mostWaiting, this.#options) * (3 * CLAIM_MS + 1_000 / this.#options.perSecond);
  }

  get #days(): readonly [number, number] {
    return [this.today - 1, this.today];
  }

  #isLatest({ day }: Waiting): boolean {
    return this.#days.includes(day);
  }

  #mayClaim({ tenant, slow }: Waiting): boolean {
    return !slow && !this.held.has(tenant);
  }

  #checkBound(each: Waiting): void {
    if (!this.#mayClaim(each)) {
      return;
    }
    const { freeMs, toldBoundMs } = this;
    const isLatest = this.#isLatest(each);
    const untoldMs = (each.wasLatest ? SEARCH_MS : 0) + (isLatest ? 0 : POLL_MS + LOOK_SOON_MS);
    expectWithin(untoldMs + toldBoundMs, freeMs - each.sinceMs, each);
    if (isLatest && each.toldMs !== undefined) {
      expectWithin(toldBoundMs, freeMs - each.toldMs, each);
    }
    if (isLatest && each.besideMs !== undefined) {
      expectWithin(this.#boundMs, freeMs + this.besideMs - each.besideMs, each);
    }
  }

  #notified(
    added: readonly Waiting[],
    { me, named, old }: { readonly me: boolean; readonly named: boolean; readonly old: boolean },
  ): void {
    // An older version names no delivery if there are many.
    if (old || !named) {
      this.#known.noteOlder();
    }
    if (!me) {
      this.#agenda.at(this.nowMs + (this.#otherHint ? 0 : OTHERS_MS), () => {
        this.#otherHint = false;
        this.#known.noteTenants([]);
        this.#tell(added, 1);
      });
      this.#otherHint = true;
      return;
    }
    const tenants = [...new Set(added.map(({ tenant }) => tenant))];
    const busy = new Set(this.#busy.ids);
    const noted = named && tenants.length <= 4 ? tenants : [];
    this.#known.noteTenants(noted);
    if (this.#busy.note(noted)) {
      this.#wake();
      for (const each of added.filter(({ tenant }) => !busy.has(tenant))) {
        each.besideMs = this.freeMs + this.besideMs;
      }
    }
    const ids = added.slice(0, added.length <= 4 ? 4 : 1).map(({ id }) => id);
    this.#known.name(added.length, named ? ids : [], this.nowMs);
    this.#tell(added, added.length);
  }

  #tell(added: readonly Waiting[], count: number): void {
    added.forEach((each) => (each.toldMs ??= this.freeMs));
    if (this.#known.add(count)) {
      this.#wake();
    }
  }

  #wake(): void {
    if (this.activity === "light") {
      this.#resume();
    } else {
      this.#called = true;
    }
  }

  #resume(): void {
    this.#wakes += 1;
    this.#known.waited();
    this.activity = "claims";
    this.#agenda.at(this.nowMs, () => this.#loop());
  }

  #sleep(ms: number, soundly: boolean): void {
    if (ms <= 0 || (!soundly && this.#called)) {
      this.#called = soundly && this.#called;
      this.#resume();
      return;
    }
    const wakes = this.#wakes;
    this.#agenda.at(this.nowMs + ms, () => {
      if (this.#wakes === wakes) {
        this.#resume();
      }
    });
  }

  #loop(): void {
    const state = this.#state();
    const action = plan(state);
    this.#hasRested ||= state.restMs > 0;
    if (action.mode === "end") {
      assert.ok(this.stopped);
      this.activity = "ended";
      return;
    }
    assert.ok(!this.stopped, "goes on after its end");
    if (action.mode === "wait") {
      assert.ok(action.ms > 0, "turns without a pause");
      this.activity = action.soundly ? "sound" : "light";
      if (action.soundly && this.clockIsRight) {
        this.activity = "beside";
      }
      this.#sleep(action.ms, action.soundly);
      return;
    }
    assert.ok(this.clockIsRight, "reads with a wrong clock");
    if (action.mode !== "look" && this.#recovered) {
      this.#recovered = false;
      this.#known.noteOlder();
      this.#loop();
      return;
    }
    this.statements += 1;
    const tookMs = 1 + this.#below(CLAIM_MS);
    const fails = this.faults;
    this.activity = fails !== "none" ? "fails" : action.mode === "beside" ? "beside" : "claims";
    const look = action.mode === "look";
    const ended = look ? this.#beginLook() : this.#beginClaim(action, state);
    this.#agenda.at(this.nowMs + tookMs / 2, () => {
      const end = fails === "before" ? () => undefined : ended();
      this.#agenda.at(this.nowMs + tookMs / 2, () => {
        if (fails === "none") {
          end();
          this.#loop();
        } else {
          this.activity = "fails";
          this.#sleep(POLL_MS, true);
        }
      });
    });
  }

  #beginLook(): () => () => void {
    const found = this.#known.beginLook(this.nowMs);
    return () => {
      const others = [...this.outbox.values()].filter((each) => !this.#isLatest(each));
      return () => {
        found([...new Set(others.map(({ day }) => String(day)))].toSorted());
        for (const each of others.filter((other) => this.#mayClaim(other))) {
          each.looked = true;
        }
      };
    };
  }

  /** @returns what the claim does in the database, and it what the worker does with the answer */
  #beginClaim(claim: PlannedClaim, state: DispatchState): () => () => void {
    const ended = this.#known.begin(claim, this.nowMs);
    if (claim.mode !== "beside") {
      this.#busy.claiming();
    }
    assert.ok(claim.limit > 0 && state.waiting >= 0);
    if (claim.mode === "latest" || claim.mode === "named" || claim.mode === "other day") {
      assert.ok(state.underWay < this.#options.underWayMax && !this.listsAreFull, "claims past the limit");
    }
    return () => {
      const waiting = [...this.outbox.values()].filter(({ tenant }) => !this.held.has(tenant));
      const { rows, ...result } = find(claim, waiting, {
        latest: this.#days,
        nowMs: this.nowMs,
      });
      for (const each of rows) {
        assert.ok(this.#mayClaim(each));
        this.#checkBound(each);
        this.outbox.delete(each.id);
      }
      return () => {
        this.#searched ||= claim.mode === "latest";
        spend(this.spent, claim, { claimed: result.claimed, batchMax: this.#options.batchMax });
        this.#begin(rows.map(({ tenant }) => tenant));
        this.#places.take(claim.limit, rows.length);
        const claimed = rows.map(({ tenant }) => ({ tenant_id: tenant }));
        this.#busy.claimed(claim, claimed, result);
        ended(result, this.nowMs);
      };
    };
  }

  /** First attempts begin, and end after a while. */
  #begin(tenants: readonly string[]): void {
    this.#underWay += tenants.length;
    const ended = this.#busy.begin(tenants.map((id) => ({ tenant_id: id })));
    const busy = this.#busy.ids;
    for (const each of busy.length === 0 ? [] : this.outbox.values()) {
      each.besideMs = busy.includes(each.tenant) ? undefined : each.besideMs;
    }
    this.#agenda.at(this.nowMs + 1 + this.#below(2 * this.attemptMs), () => {
      this.#underWay -= tenants.length;
      ended();
    });
  }

  #state(): DispatchState {
    const { batchMax, underWayMax, perSecond } = this.#options;
    return {
      ...this.#known.view(perSecond, this.#busy.ids, this.nowMs),
      nowMs: this.nowMs,
      stopped: this.stopped,
      isKnown: this.isKnown,
      clockIsRight: this.clockIsRight,
      batchMax,
      underWay: this.#underWay,
      underWayMax,
      listsAreFull: this.listsAreFull,
      places: this.#places.open,
      busyTenants: this.#busy.ids,
      besideOthers: this.#busy.isBesideOthers,
      rests: this.#busy.rests(),
      restMs: this.#busy.restMs(),
    };
  }

  #pass(atMs: number): void {
    const ms = atMs - this.nowMs;
    const hasRoom = this.#underWay < this.#options.underWayMax * 1.25 && !this.listsAreFull;
    this.nowMs = atMs;
    if (this.activity === "light" || this.activity === "claims") {
      this.freeMs += ms;
    } else if (this.activity === "beside" && this.#busy.ids.length > 0 && hasRoom) {
      this.besideMs += ms;
    }
  }

  #below(count: number): number {
    return Math.floor(this.#options.random() * count);
  }
}
