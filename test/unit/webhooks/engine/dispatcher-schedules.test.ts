/**
 * The dispatcher's loop with its starts, its lists and its lanes, in simulated time. PostgreSQL and Temporal are models:
 * answers take any time, statements and calls fail before or after their effect, and what is due at once runs in any
 * order. The plan of claims has its own simulation (dispatch-plan.test.ts). `SIGNET_TEST_PROPERTIES` multiplies the
 * schedules.
 */
import { expect, test } from "vitest";
import type { Claimed } from "#database/repositories/webhooks/claims.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import { cases } from "#test/support/properties.ts";
import { seededBytes, seededRandom } from "#test/support/seeded-random.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";
import { loopOf } from "./simulated-worker.ts";

const WORKER = "key_me";
const STARTS_MAX = 8;
const FAULTS_MS = 15_000;
/** A start is given up after a minute, and what has no workflow is found by a sweep fifteen seconds later. */
const SETTLED_MS = 120_000;
/** The search of a worker that was told nothing, and a list that lingers. */
const SENT_WITHIN_MS = 3_500;
const CARRIED_WITHIN_MS = 6_000;
const { numRuns: SCHEDULES } = cases(60);
const log = createLogger({ level: "silent" });

/** gRPC's UNAVAILABLE, and a refusal that no retry can help. */
const AWAY = Object.assign(new Error("away"), { cause: { code: 14 } });
const REFUSED = Object.assign(new Error("refused"), { cause: { code: 7 } });

interface Stored {
  readonly id: string;
  readonly tenant_id: string;
  readonly endpoint_id: string;
  readonly storedAtMs: number;
  carrier: string | undefined;
  epoch: number;
  claimedAtMs: number;
  sentAtMs: number | undefined;
}

type Values = readonly unknown[];
type Statement = (values: Values) => { readonly rows: object[]; readonly rowCount?: number };

class Model {
  readonly random: () => number;
  readonly randomBytes: (size: number) => Buffer;
  readonly time: SimulatedTime;
  /** The share of statements and calls that fail. */
  faults = 0;
  readonly deliveries = new Map<string, Stored>();
  /** The members that each workflow knows, by its id. */
  readonly workflows = new Map<string, ReadonlySet<string>>();
  /** When each list without a workflow was opened. */
  readonly #unstarted = new Map<string, number>();
  readonly #sent = new Set<string>();
  readonly #sending = new Map<string, number>();
  firstUnderWay = 0;
  claims = 0;
  /** What broke a promise. An error that is thrown here would count as one of Temporal. */
  readonly broken: string[] = [];
  #starting = 0;

  constructor(seed: number) {
    this.random = seededRandom(seed);
    this.randomBytes = seededBytes(this.random);
    this.time = new SimulatedTime(this.random);
  }

  below(count: number): number {
    return Math.floor(this.random() * count);
  }

  publish(): Stored {
    const { now } = this.time;
    const stored: Stored = {
      id: newId("delivery", now, this.randomBytes),
      tenant_id: `ten_${this.below(4)}`,
      endpoint_id: this.random() < 0.2 ? "ep_slow" : `ep_${this.below(6)}`,
      storedAtMs: now,
      carrier: undefined,
      epoch: 1,
      claimedAtMs: 0,
      sentAtMs: undefined,
    };
    this.deliveries.set(stored.id, stored);
    return stored;
  }

  /** Deliveries that no workflow knows as theirs. */
  get uncarried(): Stored[] {
    return [...this.deliveries.values()].filter(
      ({ id, carrier }) => carrier === undefined || this.workflows.get(carrier)?.has(id) !== true,
    );
  }

  readonly pool = {
    connect: async () => await Promise.resolve(this.#client),
    query: async (asked: string | { readonly name: string; readonly values?: Values }) => {
      // A transaction begins and ends with the named statement in it.
      const { name, values = [] } = typeof asked === "string" ? { name: asked } : asked;
      const [known] = /^(?:claim-first|claim-named|find-other-days)/.exec(name) ?? [name];
      const statement = this.#statements[known];
      return typeof asked === "string"
        ? { rows: [], rowCount: 0 }
        : await this.#remotely(15, () => statement?.(values) ?? { rows: [], rowCount: 0 });
    },
  };
  readonly #client = {
    query: this.pool.query,
    on: () => undefined,
    off: () => undefined,
    release: () => undefined,
  };

  readonly attempts = {
    run: async ({ carrier, members }: { readonly carrier: string; readonly members: readonly Claimed[] }) => {
      this.firstUnderWay += members.length;
      this.#sending.set(carrier, (this.#sending.get(carrier) ?? 0) + 1);
      for (const { delivery_id: deliveryId, epoch } of members) {
        const attempt = `${deliveryId} ${epoch}`;
        this.#require(!this.#sent.has(attempt), `${attempt} is sent again`);
        this.#sent.add(attempt);
        (this.deliveries.get(deliveryId) as Stored).sentAtMs ??= this.time.now;
      }
      await this.time.sleep(1 + this.below(1_000));
      this.firstUnderWay -= members.length;
      this.#sending.set(carrier, (this.#sending.get(carrier) ?? 0) - 1);
    },
  };

  readonly starter = {
    draw: () => [],
    firstAttempts: (carrier: string, members: readonly Claimed[]) => ({ carrier, members }),
    startFirst: async (carrier: string, members: readonly Claimed[]) => {
      this.#require(!this.#sending.get(carrier), `${carrier} starts before its attempts have ended`);
      return await this.#start(carrier, members);
    },
    startSlow: async (carrier: string, members: readonly Claimed[]) =>
      void (await this.#start(carrier, members)),
    unknownTo: async (carrier: string, members: readonly Claimed[]) =>
      await this.#remotely(50, () =>
        members.filter((member) => this.workflows.get(carrier)?.has(member.delivery_id) !== true),
      ),
  };

  #require(holds: boolean, what: string): void {
    if (!holds) {
      this.broken.push(what);
    }
  }

  async #start(carrier: string, members: readonly Claimed[]): Promise<boolean> {
    this.#starting += 1;
    this.#require(this.#starting <= STARTS_MAX, "too many starts at once");
    try {
      return await this.#remotely(this.random() < this.faults ? 5_000 : 40, () => {
        const isFirst = !this.workflows.has(carrier);
        if (isFirst) {
          this.workflows.set(carrier, new Set(members.map((member) => member.delivery_id)));
        }
        return isFirst;
      });
    } finally {
      this.#starting -= 1;
    }
  }

  /** What happens elsewhere: it takes a while, and may fail before or after. */
  async #remotely<T>(mostMs: number, effect: () => T): Promise<T> {
    const fault = this.random() < this.faults ? this.random() : 1;
    await this.time.sleep(1 + this.below(mostMs));
    if (fault < 0.5) {
      throw fault < 0.05 ? REFUSED : AWAY;
    }
    const result = effect();
    await this.time.sleep(1 + this.below(mostMs));
    if (fault < 1) {
      throw AWAY;
    }
    return result;
  }

  #waiting(isWanted: (stored: Stored) => boolean): Stored[] {
    return [...this.deliveries.values()].filter((stored) => stored.carrier === undefined && isWanted(stored));
  }

  #rowOf({ id, ...stored }: Stored): object {
    return { ...stored, delivery_id: id, tenants: 1, last_tenant: "", more: false, whole: false };
  }

  #claim(found: readonly Stored[], carrier: string): object[] {
    for (const stored of found) {
      stored.carrier = carrier;
      stored.claimedAtMs = this.time.now;
    }
    return found.map((stored) => this.#rowOf(stored));
  }

  #claimFirst(values: Values, found: readonly Stored[]): object[] {
    this.claims += 1;
    const [first] = found;
    const isAlone = values[0] === true && found.length === 1 && first?.epoch === 1;
    const carrier = isAlone ? first.id : String(values[1]);
    if (found.length > 0) {
      this.#unstarted.set(carrier, this.#unstarted.get(carrier) ?? this.time.now);
    }
    return this.#claim(found, carrier);
  }

  readonly #statements: Readonly<Record<string, Statement>> = {
    "claim-first": (values) => {
      const [slow, atLeast, after, limit, busy] = [values[4], values[5], values[6], values[7], values[8]];
      const waiting = this.#waiting(
        ({ id, tenant_id: tenantId, endpoint_id: endpointId }) =>
          id > String(values[9]) &&
          !(slow as string[]).includes(endpointId) &&
          !(busy as string[]).includes(tenantId) &&
          tenantId > String(after),
      );
      const found = waiting.slice(0, Number(limit));
      const rows = found.length < Number(atLeast) ? [] : this.#claimFirst(values, found);
      return { rows: rows.map((row) => ({ ...row, more: waiting.length > found.length })) };
    },
    "claim-named": (values) => {
      const [slow, ids] = [values[4] as string[], values[6] as string[]];
      return {
        rows: this.#claimFirst(
          values,
          this.#waiting(({ id, endpoint_id: endpointId }) => ids.includes(id) && !slow.includes(endpointId)),
        ),
      };
    },
    "claim-for-endpoints": (values) => {
      const [carriers, most, endpoints] = values as [string[], number, string[]];
      const waiting = this.#waiting((one) => endpoints.includes(one.endpoint_id));
      const rows = carriers.flatMap((carrier, index) =>
        this.#claim(waiting.slice(index * most, (index + 1) * most), carrier).map((row) => ({
          ...row,
          list: index + 1,
        })),
      );
      return { rows };
    },
    "has-waiting-retries": () => ({ rows: [{ waits: false }] }),
    "reclaim-unstarted": ([before]) => {
      const found = this.uncarried.filter(
        ({ carrier, claimedAtMs }) =>
          carrier !== undefined && !this.#unstarted.has(carrier) && claimedAtMs < (before as Date).getTime(),
      );
      return { rows: found.map((stored) => this.#rowOf(stored)) };
    },
    "find-unstarted-lists": ([before, , except]) => {
      const lists = [...this.#unstarted].filter(
        ([carrier, openedAtMs]) =>
          openedAtMs < (before as Date).getTime() && !(except as string[]).includes(carrier),
      );
      const membersOf = (carrier: string): object[] => {
        const members = [...this.deliveries.values()].filter((stored) => stored.carrier === carrier);
        return members.length === 0
          ? [{ carrier, delivery_id: null }]
          : members.map((stored) => this.#rowOf(stored));
      };
      return { rows: lists.flatMap(([carrier]) => membersOf(carrier)) };
    },
    "remove-unstarted-lists": ([carriers]) => {
      (carriers as string[]).forEach((carrier) => this.#unstarted.delete(carrier));
      return { rows: [] };
    },
    "take-from-carrier": (values) => {
      const [, ids, carriers, epochs] = values as [unknown, string[], string[], number[]];
      for (const [index, id] of ids.entries()) {
        const stored = this.deliveries.get(id);
        if (stored !== undefined && stored.carrier === carriers[index] && stored.epoch === epochs[index]) {
          stored.carrier = undefined;
          stored.epoch += 1;
        }
      }
      return { rows: [], rowCount: ids.length };
    },
  };
}

function createDispatcher(model: Model): Dispatcher {
  const { time } = model;
  const dispatcher = new Dispatcher({
    worker: WORKER,
    pool: model.pool as never,
    starter: model.starter as never,
    health: {
      slow: () => ["ep_slow"],
      isSlow: (id: string) => id === "ep_slow",
      silentSinceMs: () => undefined,
    } as never,
    attempts: Object.defineProperty(model.attempts, "firstUnderWay", {
      get: () => model.firstUnderWay,
    }) as never,
    clock: { now: time.monotonic, isRight: true } as never,
    timers: time,
    randomBytes: model.randomBytes,
    log,
    claimsPerSecond: 60,
    retentionDays: 30,
    batchMax: 1 + model.below(16),
    underWayMax: 64,
    loopUtilization: loopOf({
      get nowMs() {
        return time.now;
      },
      load: 0.3,
    }),
  });
  dispatcher.shareWith({ live: 1, rank: 0 });
  dispatcher.start();
  return dispatcher;
}

/** Publishes for a while, and tells the dispatcher of most of it. */
async function publish(model: Model, dispatcher: Dispatcher, ms: number): Promise<void> {
  const { time } = model;
  const end = time.now + ms;
  while (time.now < end) {
    const stored = Array.from({ length: model.below(6) }, () => model.publish());
    if (stored.length > 0 && model.random() < 0.8) {
      const tenants = new Set(stored.map((one) => one.tenant_id));
      const names = model.random() < 0.5 ? [...tenants, ...stored.map(({ id }) => id)] : [];
      dispatcher.notified([stored.length, model.below(10), ...names].join(" "));
    }
    await (model.random() < 0.02 ? time.stall(model.below(500)) : time.advance(model.below(300)));
  }
}

async function stop({ time, broken }: Model, dispatcher: Dispatcher): Promise<void> {
  let stopped = false;
  const stopping = dispatcher.stop().then(() => (stopped = true));
  await time.advance(SETTLED_MS);
  expect(stopped).toBe(true);
  expect(broken).toEqual([]);
  await stopping;
}

test("without faults, each delivery is sent once, within its bound, and carried by the workflow that it names", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed += 1) {
    const model = new Model(seed);
    const dispatcher = createDispatcher(model);
    await publish(model, dispatcher, 10_000);
    await model.time.advance(CARRIED_WITHIN_MS);
    expect(model.uncarried, `seed ${seed}`).toEqual([]);
    const late = [...model.deliveries.values()].filter(
      ({ endpoint_id: endpointId, storedAtMs, sentAtMs = Infinity }) =>
        endpointId !== "ep_slow" && sentAtMs - storedAtMs > SENT_WITHIN_MS,
    );
    expect(late, `seed ${seed}`).toEqual([]);
    await stop(model, dispatcher);
  }
});

test("after any schedule of faults, each delivery is carried by the workflow that it names, and was sent at most once a claim", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed += 1) {
    const model = new Model(1_000 + seed);
    const dispatcher = createDispatcher(model);
    model.faults = 0.4;
    await publish(model, dispatcher, FAULTS_MS);
    model.faults = 0;
    await model.time.advance(SETTLED_MS);
    expect(model.uncarried, `seed ${seed}`).toEqual([]);
    await stop(model, dispatcher);
  }
});

test("a dispatcher that stops claims nothing more, and ends though Temporal and PostgreSQL fail", async () => {
  for (let seed = 1; seed <= SCHEDULES; seed += 1) {
    const model = new Model(2_000 + seed);
    const dispatcher = createDispatcher(model);
    model.faults = 0.7;
    await publish(model, dispatcher, model.below(5_000));
    const stopping = stop(model, dispatcher);
    await Promise.resolve();
    const { claims } = model;
    model.publish();
    dispatcher.notified("1 0");
    await stopping;
    // One may have been under way.
    expect(model.claims - claims, `seed ${seed}`).toBeLessThanOrEqual(1);
  }
});
