import { randomBytes } from "node:crypto";
import { beforeEach, describe, expect, test } from "vitest";
import { DAY_MS, idTimeMs, newId } from "#domain/ids.ts";
import { COMMIT_MS } from "#webhooks/engine/dispatch-plan.ts";
import type { Dispatcher } from "#webhooks/engine/dispatcher.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";
import { claimedRow, makeDispatcher } from "./make-dispatcher.ts";

let time: SimulatedTime;

beforeEach(() => {
  time = new SimulatedTime();
});

describe("few deliveries that notifications named", () => {
  const [first, second, third] = [1, 2, 3].map((ms) => newId("delivery", ms, randomBytes));

  /** Starts a dispatcher whose claims find nothing. Returns their names and ids. */
  async function startIdle(): Promise<{ dispatcher: Dispatcher; claims: [name: string, ids: unknown][] }> {
    const claims: [string, unknown][] = [];
    const dispatcher = makeDispatcher(time, {
      health: { slow: () => [] } as never,
      starter: { draw: () => [] } as never,
      attempts: { firstUnderWay: 0 } as never,
      pool: {
        query: async ({ name, values }: { name: string; values: unknown[] }) => {
          if (/^claim-(?:first|named)/.test(name)) {
            claims.push([name.slice(0, 11), name.startsWith("claim-named") ? values[6] : undefined]);
          }
          return await Promise.resolve({ rows: [] });
        },
      } as never,
    });
    dispatcher.start();
    await time.advance(1);
    claims.splice(0);
    return { dispatcher, claims };
  }

  test("are claimed by id at once, though claims of others must wait", async () => {
    const { dispatcher, claims } = await startIdle();
    for (const ids of [`ten_1 ${first}`, `ten_1 ten_2 ${second} ${third}`]) {
      dispatcher.notified(`${ids.split("dlv_").length - 1} 0 ${ids}`);
      await time.advance(0);
    }
    expect(claims).toEqual([
      ["claim-named", [first]],
      ["claim-named", [second, third]],
    ]);
  });

  test.each([
    ["others wait beside them", "2 0 ten_1", [first]],
    ["they are many", "4 0 ten_1", Array.from({ length: 4 }, (_, ms) => newId("delivery", ms, randomBytes))],
    ["they are of several days", "1 0", [first, newId("delivery", DAY_MS, randomBytes)]],
  ])("are not claimed by id if %s", async (_, before, ids) => {
    const { dispatcher, claims } = await startIdle();
    dispatcher.notified(before);
    dispatcher.notified(`${ids.length} 0 ${ids.join(" ")}`);
    await time.advance(20);
    expect(claims.map(([name]) => name)).not.toContain("claim-named");
    expect(claims).not.toEqual([]);
  });

  test("do not keep others without a notification waiting for more than two seconds", async () => {
    const { dispatcher, claims } = await startIdle();
    for (let ms = 0; ms < 4_500; ms += 100) {
      dispatcher.notified(`1 0 ${newId("delivery", 1, randomBytes)}`);
      await time.advance(100);
    }
    expect(claims.filter(([name]) => name === "claim-first")).toHaveLength(2);
    expect(claims.filter(([name]) => name === "claim-named")).toHaveLength(45);
  });

  test("are claimed by id at most four times as often as others", async () => {
    const { dispatcher, claims } = await startIdle();
    const began = time.now;
    while (time.now - began < 1_000) {
      dispatcher.notified(`1 0 ${newId("delivery", 1, randomBytes)}`);
      await time.advance(3);
    }
    expect(new Set(claims.map(([name]) => name))).toEqual(new Set(["claim-named"]));
    expect(claims.length).toBeGreaterThan(235);
    expect(claims.length).toBeLessThan(255);
  });

  test("are not claimed by id for a second after many waited at once", async () => {
    const { dispatcher, claims } = await startIdle();
    dispatcher.notified("5 0");
    const began = time.now;
    while (time.now - began < 1_100) {
      dispatcher.notified(`1 0 ${newId("delivery", 1, randomBytes)}`);
      await time.advance(100);
    }
    expect(claims.map(([name]) => name)).toEqual([
      ...Array.from({ length: 10 }, () => "claim-first"),
      "claim-named",
    ]);
  });
});

describe("a claim of the latest days", () => {
  const slow: string[] = [];
  const DELIVERY = newId("delivery", 1, randomBytes);

  /** Starts a dispatcher whose claims find nothing. Returns how old the deliveries are that each reads, in ms. */
  async function startCleared(): Promise<{ readonly dispatcher: Dispatcher; readonly ages: number[] }> {
    const ages: number[] = [];
    slow.splice(0, slow.length, "ep_slow", "ep_hangs");
    time.wallAtMs = DAY_MS;
    const dispatcher = makeDispatcher(time, {
      clock: { now: time.wall, isRight: true } as never,
      health: { slow: () => [...slow] } as never,
      starter: { draw: () => [] } as never,
      attempts: { firstUnderWay: 0 } as never,
      pool: {
        query: async ({ name, values }: { name: string; values: unknown[] }) => {
          if (name.startsWith("claim-first")) {
            const after = String(values[9]);
            ages.push(after === "" ? Number.POSITIVE_INFINITY : time.wall() - idTimeMs(after));
          }
          return await Promise.resolve({ rows: [] });
        },
      } as never,
    });
    dispatcher.start();
    await time.advance(1);
    return { dispatcher, ages };
  }

  async function tell(dispatcher: Dispatcher): Promise<void> {
    dispatcher.notified(`5 0 ${DELIVERY}`);
    await time.advance(100);
  }

  test("reads no delivery again that waits for a slow lane, but for once a second", async () => {
    const { dispatcher, ages } = await startCleared();
    for (let told = 0; told < 12; told += 1) {
      await tell(dispatcher);
    }
    const recent = Array.from({ length: 9 }, () => COMMIT_MS + 100);
    expect(ages).toEqual([
      Number.POSITIVE_INFINITY,
      COMMIT_MS + 1,
      ...recent,
      Number.POSITIVE_INFINITY,
      COMMIT_MS + 100,
    ]);
  });

  test.each<[string, (dispatcher: Dispatcher) => void]>([
    ["a notification that names none", (dispatcher) => dispatcher.notified("1 0 ten_1")],
    ["one that picks another worker", (dispatcher) => dispatcher.notified("1 1 ten_1")],
    ["this process has queued one once more", (dispatcher) => dispatcher.requeued()],
    ["an endpoint is no longer slow", () => void slow.pop()],
  ])("reads all after %s", async (_, happens) => {
    const { dispatcher, ages } = await startCleared();
    dispatcher.shareWith({ live: 2, rank: 0 });
    await tell(dispatcher);
    happens(dispatcher);
    await tell(dispatcher);
    await tell(dispatcher);
    expect(ages.map((age) => age === Number.POSITIVE_INFINITY)).toEqual([true, false, true, false]);
  });
});

test("after the last of more tenants than one claim covers, the first ones have their turn at once", async () => {
  const claims: { atLeast: unknown; after: unknown }[] = [];
  const dispatcher = makeDispatcher(time, {
    health: { slow: () => [] } as never,
    starter: { draw: () => [], firstAttempts: () => ({}) } as never,
    attempts: { firstUnderWay: 0, run: async () => await new Promise(() => undefined) } as never,
    pool: {
      query: async ({ name, values }: { name: string; values: unknown[] }) => {
        if (!name.startsWith("claim-first")) {
          return await Promise.resolve({ rows: [] });
        }
        claims.push({ atLeast: values[5], after: values[6] });
        const row = { ...claimedRow(undefined, 0), tenants: 64, last_tenant: "ten_64" };
        const rows = Array.from({ length: 64 }, (_, index) => ({
          ...row,
          delivery_id: `dlv_${claims.length}_${index}`,
        }));
        return await Promise.resolve({ rows: values[6] === "" && claims.length < 6 ? rows : [] });
      },
    } as never,
  });
  dispatcher.notified("400 0");
  dispatcher.start();
  await time.advance(50);
  expect(claims.slice(0, 6).map(({ after }) => after)).toEqual(["", "ten_64", "", "ten_64", "", "ten_64"]);
  expect(claims[1]?.atLeast).toBe(1);
});
