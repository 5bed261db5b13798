/** The planner's promises, in thousands of random schedules. `SIGNET_TEST_PROPERTIES=10` tries ten times as many. */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { DAY_MS, newId } from "#domain/ids.ts";
import {
  COMMIT_MS,
  type DispatchState,
  MANY_MS,
  plan,
  planOffer,
  SEARCH_MS,
  SMALL_CLAIM,
} from "#webhooks/engine/dispatch-plan.ts";
import { cases } from "#test/support/properties.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { Simulation } from "./dispatch-simulation.ts";

const TENANTS = ["ten_a", "ten_b", "ten_c", "ten_d", "ten_e", "ten_f", "ten_g"];
const STEPS = 60;
/** One schedule of so many ends calmly. That takes six times as long as the schedule. */
const CALM_EVERY = 16;

function pick<T>(random: () => number, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T;
}

function createSimulation(random: () => number): Simulation {
  return new Simulation({
    random,
    batchMax: pick(random, [1, 2, 8, 64, 64, 64]),
    underWayMax: pick(random, [8, 64, 256]),
    perSecond: pick(random, [0.5, 5, 60, 60]),
  });
}

/** Returns a worker with the default settings. */
function createUsualWorld(): Simulation {
  return new Simulation({ random: seededRandom(1), batchMax: 64, underWayMax: 256, perSecond: 60 });
}

/** What may happen at one step, more often what is listed more often. */
const STEP_KINDS: readonly ((world: Simulation, random: () => number) => void)[] = [
  ...Array.from({ length: 4 }, () => publishFew),
  publishMany,
  publishMany,
  ...Array.from({ length: 4 }, () => (world: Simulation, random: () => number): void => {
    world.offer(pick(random, TENANTS), 1 + Math.floor(random() * 5));
  }),
  (world, random) => {
    world.hold(pick(random, TENANTS), random() < 0.4);
  },
  (world, random) => {
    world.faults = pick(random, ["none", "none", "before", "after"] as const);
  },
  (world, random) => {
    world.clockIsRight = random() < 0.8;
  },
  (world, random) => {
    world.listsAreFull = random() < 0.2;
  },
  (world, random) => {
    world.load = pick(random, [0, 0.9]);
  },
  (world, random) => {
    world.attemptMs = pick(random, [5, 20, 500, 3_000]);
  },
  (world, random) => {
    world.steal(Math.floor(random() * 20));
  },
  (world) => {
    world.isKnown = true;
  },
  (world) => {
    world.recover();
  },
  (world, random) => {
    world.today += random() < 0.3 ? 1 : 0;
  },
];

function publishFew(world: Simulation, random: () => number): void {
  world.publish({
    tenants: [pick(random, TENANTS)],
    count: 1 + Math.floor(random() * 4),
    daysAgo: random() < 0.1 ? 5 : 0,
    slow: random() < 0.3,
    old: random() < 0.1,
    commitMs: Math.floor(random() * (COMMIT_MS - 20)),
    told: pick(random, ["me", "me", "me", "other", "nobody"] as const),
    named: random() < 0.9,
  });
}

function publishMany(world: Simulation, random: () => number): void {
  world.publish({
    tenants: TENANTS.slice(0, 1 + Math.floor(random() * TENANTS.length)),
    count: 5 + Math.floor(random() * 100),
    daysAgo: random() < 0.1 ? 3 : 0,
    told: pick(random, ["me", "me", "me", "other", "nobody"] as const),
  });
}

/** Everything works again. Few new deliveries go on, so that named claims could keep others waiting. */
function calm(world: Simulation): void {
  Object.assign(world, { clockIsRight: true, listsAreFull: false, load: 0, faults: "none", attemptMs: 5 });
  for (const tenant of TENANTS) {
    world.hold(tenant, false);
  }
  const end = world.nowMs + 6_000 + world.toldBoundMs + SEARCH_MS;
  while (world.nowMs < end) {
    world.publish({ tenants: ["ten_a"], count: 1, told: "me" });
    world.advance(97);
  }
}

function run(seed: number): Simulation {
  const random = seededRandom(seed);
  const world = createSimulation(random);
  for (let step = 0; step < STEPS; step += 1) {
    pick(random, STEP_KINDS)(world, random);
    world.advance(Math.floor(random() * pick(random, [1, 20, 20, 200, 2_000])));
    world.check();
  }
  return world;
}

describe("whatever happens, in any order", () => {
  test("each delivery is claimed within its bound, nothing is handed over that must wait, and the end is an end", () => {
    const { numRuns } = cases(1_500);
    let handedOver = 0;
    for (let seed = 1; seed <= numRuns; seed += 1) {
      try {
        const world = run(seed);
        if (seed % CALM_EVERY === 0) {
          calm(world);
          world.check();
        }
        world.stop();
        const { statements } = world;
        world.advance(3_000);
        expect(world.activity).toBe("ended");
        expect(world.statements).toBe(statements);
        world.offer("ten_a", 1);
        handedOver += world.handedOver;
      } catch (error) {
        throw new Error(`seed ${seed}`, { cause: error });
      }
    }
    expect(handedOver).toBeGreaterThan(numRuns);
  }, 600_000);

  test("a named claim puts off no search for what no notification told of", () => {
    const world = createUsualWorld();
    const publish = (told: "me" | "nobody"): void => {
      world.publish({ tenants: ["ten_a"], count: 1, told });
    };
    world.advance(10);
    publish("nobody");
    for (const ms of [800, 900, 200]) {
      world.advance(ms);
      publish("me");
    }
    world.advance(1_000);
    world.check();
    expect(world.outbox.size).toBe(0);
  });

  test("beside a busy tenant, a claim goes on after the last tenant of the one before", () => {
    const world = createUsualWorld();
    world.attemptMs = 60_000;
    world.publish({ tenants: ["ten_a"], count: 256, told: "me" });
    world.advance(1_000);
    world.attemptMs = 5;
    world.publish({ tenants: ["ten_g"], count: 1, told: "me" });
    // More tenants than a claim covers have deliveries all the time.
    for (let ms = 0; ms < 500; ms += 1) {
      world.publish({ tenants: ["ten_b", "ten_c", "ten_d"], count: 3, told: "me" });
      world.advance(1);
    }
    expect([...world.outbox.values()].filter(({ tenant }) => tenant === "ten_g")).toEqual([]);
  });

  test("while nothing waits, it reads the outbox twice a second at most", () => {
    const world = createUsualWorld();
    world.advance(60_000);
    expect(world.statements).toBeGreaterThan(100);
    expect(world.statements).toBeLessThanOrEqual(124);
  });
});

const IDLE: DispatchState = {
  nowMs: 100_000,
  stopped: false,
  isKnown: true,
  clockIsRight: true,
  batchMax: 64,
  underWay: 0,
  underWayMax: 256,
  listsAreFull: false,
  places: 64,
  busyTenants: [],
  besideOthers: false,
  rests: false,
  restMs: 0,
  waiting: 0,
  named: [],
  manyAtMs: Number.NEGATIVE_INFINITY,
  searchedAtMs: 99_900,
  searchesAll: false,
  clearedAtMs: 99_900,
  besideClearedAtMs: Number.NEGATIVE_INFINITY,
  pollAtMs: 100_900,
  afterTenant: "",
  otherDays: [],
  otherDayAfterTenant: "",
  besideAfterTenant: "",
  lookAtMs: 100_800,
  otherDaysTurn: false,
  othersWait: false,
  tokenMs: 0,
  namedTokenMs: 0,
};

describe("an offer waits in the outbox", () => {
  test("never while there is no reason", () => {
    expect(planOffer(IDLE, 256)).toEqual({ mode: "hand over" });
  });

  test("not if only deliveries of busy tenants wait", () => {
    const state = { ...IDLE, waiting: 9, busyTenants: ["ten_busy"] };
    expect(planOffer(state, 2)).toEqual({ mode: "hand over" });
    expect(planOffer({ ...state, othersWait: true }, 2)).toEqual({ mode: "outbox", reason: "backlog" });
  });

  test.each<[string, Partial<DispatchState>]>([
    ["ending", { stopped: true, isKnown: false }],
    ["starting", { isKnown: false, clockIsRight: false }],
    ["starting", { searchedAtMs: Number.NEGATIVE_INFINITY }],
    ["clock", { clockIsRight: false, batchMax: 1 }],
    ["unbatched", { batchMax: 1, waiting: 1 }],
    ["backlog", { waiting: 1, rests: true }],
    ["backlog", { otherDays: ["2026-01-01"] }],
    ["limit", { underWay: 255, rests: true }],
    ["limit", { listsAreFull: true }],
    ["rest", { rests: true }],
  ])("with the first reason that holds: %s", (reason, state) => {
    expect(planOffer({ ...IDLE, ...state }, 2)).toEqual({ mode: "outbox", reason });
  });
});

describe("the loop's mode", () => {
  const ids = [1, 2].map((ms) => newId("delivery", ms, randomBytes));
  const named = { waiting: 2, named: ids };
  const busy = { busyTenants: ["ten_busy"], underWay: 256, othersWait: true, waiting: 9 };
  const crowd = { busyTenants: ["ten_busy"], besideOthers: true, othersWait: true, waiting: 99 };

  test.each<[string, Partial<DispatchState>, object]>([
    ["end", { stopped: true, waiting: 9 }, {}],
    ["wait", { clockIsRight: false, waiting: 9 }, { soundly: true, ms: 1_000 }],
    ["beside", busy, { exceptTenants: ["ten_busy"], limit: 64 }],
    ["beside", { ...busy, underWay: 0, rests: true, besideOthers: true }, { limit: SMALL_CLAIM }],
    ["wait", { ...busy, underWay: 320 }, { soundly: true, ms: 5 }],
    ["wait", { ...busy, othersWait: false }, { soundly: true }],
    ["wait", { ...busy, namedTokenMs: 1 }, { soundly: true }],
    ["wait", { ...busy, listsAreFull: true }, { soundly: true }],
    ["wait", { ...busy, busyTenants: [] }, { soundly: true }],
    ["named", named, { ids }],
    ["wait", { ...named, namedTokenMs: 4 }, { ms: 4, soundly: false }],
    ["latest", { ...named, waiting: 3 }, { atLeast: 1 }],
    ["latest", { ...named, manyAtMs: IDLE.nowMs - MANY_MS + 1 }, {}],
    ["latest", { ...named, searchedAtMs: IDLE.nowMs - SEARCH_MS }, {}],
    ["latest", { ...named, named: [...ids.slice(1), newId("delivery", DAY_MS, randomBytes)] }, {}],
    ["latest", { ...named, batchMax: 1, places: 1 }, { limit: 1, spends: false }],
    ["latest", { waiting: 5, places: 10 }, { limit: 10, spends: true }],
    ["latest", { waiting: 64, tokenMs: 9 }, { atLeast: 64, limit: 64, spends: false }],
    ["latest", { waiting: 64, tokenMs: 9, afterTenant: "ten_x" }, { atLeast: 1, afterTenant: "ten_x" }],
    ["latest", { waiting: 11, places: 10 }, { limit: 64 }],
    ["latest", { waiting: 17, places: 16 }, { limit: 16 }],
    ["latest", { pollAtMs: IDLE.nowMs }, { madeWithinMs: 100 + COMMIT_MS }],
    ["latest", { pollAtMs: IDLE.nowMs, searchesAll: true }, { madeWithinMs: Number.POSITIVE_INFINITY }],
    [
      "latest",
      { waiting: 1, clearedAtMs: Number.NEGATIVE_INFINITY },
      { madeWithinMs: Number.POSITIVE_INFINITY },
    ],
    ["wait", { waiting: 63, tokenMs: 9 }, { ms: 9, soundly: false }],
    ["wait", {}, { ms: 800, soundly: false }],
    ["other day", { waiting: 1, otherDays: ["2026-01-01"], otherDaysTurn: true }, { day: "2026-01-01" }],
    ["latest", { waiting: 1, otherDays: ["2026-01-01"] }, {}],
    ["other day", { waiting: 1, tokenMs: 9, otherDays: ["2026-01-01"] }, { limit: 64 }],
    ["wait", { waiting: 99, restMs: 7 }, { ms: 7, soundly: false }],
    ["wait", { otherDays: ["2026-01-01"], restMs: 7 }, { ms: 7 }],
    ["latest", { waiting: 99, besideOthers: true }, { limit: SMALL_CLAIM }],
    ["named", { ...named, restMs: 7 }, { ids }],
    ["latest", { ...named, waiting: 99, besideOthers: true, restMs: 7 }, { limit: SMALL_CLAIM }],
    ["beside", { ...crowd, restMs: 7 }, { exceptTenants: ["ten_busy"], limit: SMALL_CLAIM }],
    ["beside", { ...crowd, restMs: 7, besideClearedAtMs: 99_900 }, { madeWithinMs: 100 + COMMIT_MS }],
    ["wait", { ...crowd, restMs: 7, namedTokenMs: 4 }, { ms: 4, soundly: false }],
    ["wait", { ...crowd, restMs: 7, othersWait: false, named: ids }, { ms: 7, soundly: false }],
    ["latest", crowd, { limit: SMALL_CLAIM, exceptTenants: [] }],
    ["look", { lookAtMs: IDLE.nowMs }, {}],
  ])("is %s at %o", (mode, state, action) => {
    expect(plan({ ...IDLE, ...state })).toMatchObject({ mode, ...action });
  });
});
