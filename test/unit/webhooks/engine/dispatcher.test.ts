import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { newId } from "#domain/ids.ts";
import type { Dispatcher, DispatcherOptions } from "#webhooks/engine/dispatcher.ts";
import type { OfferedDelivery } from "#webhooks/ingest/hand-over.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";
import { claimedRow, makeDispatcher } from "./make-dispatcher.ts";

let time: SimulatedTime;

beforeEach(() => {
  time = new SimulatedTime();
});

test("a notification picks one of the live workers; the others look later, once for many notifications", async () => {
  const workers = [0, 1, 2].map((rank) => {
    const dispatcher = makeDispatcher(time);
    dispatcher.shareWith({ live: 3, rank });
    return { dispatcher, hint: vi.spyOn(dispatcher, "hint") };
  });
  const hinted = (): number[][] => workers.map(({ hint }) => hint.mock.calls.map(([count]) => count));
  for (const payload of ["5 0", "7 4", "9 3"]) {
    workers.forEach(({ dispatcher }) => dispatcher.notified(payload));
  }
  expect(hinted()).toEqual([[5, 9], [7], []]);
  await time.advance(250);
  expect(hinted()).toEqual([[5, 9, 1], [7, 1], [1]]);
});

/** Values of a claim of first attempts. */
interface ClaimValues {
  readonly limit: unknown;
  readonly exceptTenants: unknown;
}

/**
 * Starts a dispatcher. Its first claim finds 64 deliveries of `ten_busy`, whose attempts do not end and reach the limit.
 * Later ones find nothing.
 */
async function startFull(): Promise<{ readonly dispatcher: Dispatcher; readonly claims: ClaimValues[] }> {
  const claims: ClaimValues[] = [];
  const dispatcher = makeDispatcher(time, {
    underWayMax: 64,
    health: { slow: () => [] } as never,
    starter: { draw: () => [], firstAttempts: () => ({}) } as never,
    attempts: {
      get firstUnderWay() {
        return claims.length > 0 ? 64 : 0;
      },
      run: async () => await new Promise(() => undefined),
    } as never,
    pool: {
      query: async ({ name, values }: { name: string; values: unknown[] }) => {
        const isClaim = name.startsWith("claim-first");
        if (isClaim) {
          claims.push({ limit: values[7], exceptTenants: values[8] });
        }
        const found = isClaim && claims.length === 1;
        return await Promise.resolve({ rows: found ? Array.from({ length: 64 }, claimedRow) : [] });
      },
    } as never,
  });
  dispatcher.start();
  dispatcher.notified("64 0 ten_busy");
  await time.advance(0);
  // It has found the busy tenant. Until now, nothing told others apart.
  expect(claims.slice(1)).toEqual([{ limit: 64, exceptTenants: ["ten_busy"] }]);
  return { dispatcher, claims };
}

test.each([
  ["names a tenant without many first attempts in progress", "1 0 ten_busy ten_other"],
  ["names no tenant", "1 0"],
])(
  "while a busy tenant fills the limit, a notification that %s leads to a small claim",
  async (_, payload) => {
    const { dispatcher, claims } = await startFull();
    dispatcher.notified(payload);
    await time.advance(10);
    expect(claims.slice(2)).toEqual([{ limit: 4, exceptTenants: ["ten_busy"] }]);
  },
);

test("while a busy tenant fills the limit, its own deliveries wait", async () => {
  const { dispatcher, claims } = await startFull();
  dispatcher.notified("9 0 ten_busy");
  await time.advance(10);
  expect(claims).toHaveLength(2);
});

test("a lone worker takes every notification, also those of an earlier version, which pick nobody", () => {
  const dispatcher = makeDispatcher(time);
  const hint = vi.spyOn(dispatcher, "hint");
  for (const payload of ["5 731", "2", ""]) {
    dispatcher.notified(payload);
  }
  expect(hint.mock.calls).toEqual([[5], [2], [1]]);
});

describe("many slow endpoints", () => {
  const WAITING = 200;

  /**
   * Starts a dispatcher for which the slow lane finds one delivery each of 200 endpoints, and claims find `first` first
   * attempts. Returns the started carriers.
   */
  async function startSlow(
    first: number,
    startMs = 0,
  ): Promise<{ dispatcher: Dispatcher; started: string[]; rounds: number[] }> {
    const started: string[] = [];
    const rounds: number[] = [];
    let waiting = WAITING;
    const dispatcher = makeDispatcher(time, {
      health: { slow: () => ["ep_1"], silentSinceMs: () => undefined } as never,
      attempts: { firstUnderWay: 0, run: async () => await new Promise(() => undefined) } as never,
      starter: {
        draw: () => [],
        firstAttempts: () => ({}),
        startSlow: async (carrier: string) => {
          if (startMs > 0) {
            await time.sleep(startMs);
          }
          started.push(carrier);
        },
      } as never,
      pool: {
        query: async ({ name, values }: { name: string; values: unknown[] }) => {
          if (name.startsWith("claim-first")) {
            return await Promise.resolve({ rows: Array.from({ length: first }, claimedRow) });
          }
          const carriers = name === "claim-for-endpoints" ? (values[0] as string[]).slice(0, waiting) : [];
          waiting -= carriers.length;
          if (carriers.length > 0) {
            rounds.push(carriers.length);
          }
          return await Promise.resolve({
            // In no order, like the rows of a statement.
            rows: carriers
              .map((carrier, index) => ({ ...claimedRow(undefined, index), carrier }))
              .toReversed(),
          });
        },
      } as never,
    });
    return { dispatcher, started, rounds };
  }

  test("are claimed without a pause until none waits", async () => {
    const { dispatcher, started } = await startSlow(0);
    dispatcher.start();
    await time.advance(1);
    expect(new Set(started).size).toBe(WAITING);
  });

  test("leave the cores to first attempts: one round of lists in 250 ms", async () => {
    const { dispatcher, started } = await startSlow(1);
    dispatcher.notified("1 0 ten_1");
    dispatcher.start();
    await time.advance(200);
    expect(started).toHaveLength(64);
  });

  test("are claimed in smaller rounds while starts are slow, so that no tenant's next list waits for long", async () => {
    const { dispatcher, started, rounds } = await startSlow(1, 200);
    dispatcher.notified("1 0 ten_1");
    dispatcher.start();
    const keepBusy = time.every(100, () => dispatcher.notified("1 0 ten_1"));
    await time.advance(20_000);
    time.cancel(keepBusy);
    expect(rounds.slice(0, 6)).toEqual([64, 32, 16, 8, 4, 8]);
    expect(started.length).toBeGreaterThan(150);
  });
});

describe("an offer of deliveries that are about to be inserted", () => {
  const offered = (tenantId = "ten_a", endpointId = "ep_a"): OfferedDelivery => ({
    event: { tenantId, id: "evt_1", content: Buffer.alloc(1) } as never,
    delivery: { id: newId("delivery", 0, randomBytes), endpointId, state: "QUEUED" },
  });

  /** A dispatcher that has found nothing to claim, and knows the target of each endpoint that it was asked for. */
  async function startIdle(
    options: Partial<DispatcherOptions> = {},
    found: object[] = [],
  ): Promise<Dispatcher> {
    const dispatcher = makeDispatcher(time, {
      health: { slow: () => ["ep_slow"], isSlow: (id: string) => id === "ep_slow" } as never,
      starter: { draw: () => [], firstAttempts: () => ({}) } as never,
      attempts: { firstUnderWay: 0, run: async () => await new Promise(() => undefined) } as never,
      pool: {
        query: async ({ name, values }: { name: string; values: unknown[] }) => {
          if (name === "load-targets") {
            const rows = (values[0] as string[]).map((endpointId) => ({
              endpoint_id: endpointId,
              held_at: null,
              version: "1",
            }));
            return await Promise.resolve({ rows });
          }
          return await Promise.resolve({ rows: name.startsWith("claim-first") ? found.splice(0) : [] });
        },
      } as never,
      ...options,
    });
    dispatcher.shareWith({ live: 1, rank: 0 });
    dispatcher.start();
    await time.advance(0);
    for (const endpointId of ["ep_a", "ep_slow"]) {
      dispatcher.offer([offered("ten_a", endpointId)]);
    }
    await time.advance(0);
    return dispatcher;
  }

  test("is taken once the target is known and nothing waits", async () => {
    const dispatcher = await startIdle();
    const [one, slow] = [offered(), offered("ten_a", "ep_slow")];
    const taken = dispatcher.offer([one, slow]);
    expect([...(taken?.carriers.keys() ?? [])]).toEqual([one.delivery.id]);
    expect(taken?.versions).toEqual(new Map([["ep_a", "1"]]));
    expect(dispatcher.offer([offered("ten_a", "ep_new")])).toBeUndefined();
  });

  test("is not taken before the worker is known to live, and what waits is known", () => {
    const dispatcher = makeDispatcher(time);
    expect(dispatcher.offer([offered()])).toBeUndefined();
    dispatcher.shareWith({ live: 1, rank: 0 });
    expect(dispatcher.offer([offered()])).toBeUndefined();
  });

  test.each<[string, Partial<DispatcherOptions>]>([
    ["the clock is wrong", { clock: { now: () => 0, isRight: false } as never }],
    ["each delivery has a workflow of its own", { batchMax: 1 }],
    ["first attempts are at their limit", { underWayMax: 0 }],
  ])("is not taken while %s", async (_, options) => {
    expect((await startIdle(options)).offer([offered()])).toBeUndefined();
  });

  test("is not taken while others wait in the outbox, or after the dispatcher has stopped", async () => {
    const dispatcher = await startIdle();
    dispatcher.notified("1 0");
    expect(dispatcher.offer([offered()])).toBeUndefined();
    await time.advance(2_000);
    expect(dispatcher.offer([offered()])?.carriers.size).toBe(1);
    void dispatcher.stop();
    expect(dispatcher.offer([offered()])).toBeUndefined();
  });

  test("leaves a busy tenant's deliveries to claims, which give others their turn", async () => {
    const dispatcher = await startIdle({ underWayMax: 64 }, Array.from({ length: 32 }, claimedRow));
    await time.advance(2_000);
    const [busy, other] = [offered("ten_busy"), offered("ten_other")];
    expect([...(dispatcher.offer([busy, other])?.carriers.keys() ?? [])]).toEqual([other.delivery.id]);
  });
});
