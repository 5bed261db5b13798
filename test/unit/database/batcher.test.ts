import * as fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { DatabaseBusyError } from "../../../src/database/errors.ts";
import { type Batcher, createBatcher } from "../../../src/database/batcher.ts";
import { cases } from "../../support/properties.ts";

interface Flush {
  readonly items: readonly number[];
  readonly end: (error?: Error) => void;
}

/** Returns a batcher whose flushes the test ends; each result is its item, doubled. */
function underTest(
  maxItems: number,
  maxInFlight: number,
): { batcher: Batcher<number, number>; flushes: Flush[] } {
  const flushes: Flush[] = [];
  const batcher = createBatcher<number, number>({
    maxItems,
    maxInFlight,
    flush: async (items) =>
      await new Promise((resolve, reject) => {
        flushes.push({
          items,
          end: (error) => (error === undefined ? resolve(items.map((item) => 2 * item)) : reject(error)),
        });
      }),
  });
  return { batcher, flushes };
}

const BY_FIRST_LETTER = {
  of: (item: string) => item.slice(0, 1),
  manyPerFlush: 2,
  refusal: () => new Error("half is taken"),
};

async function turn(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe("group commit", () => {
  test("flushes a single item at once", async () => {
    const { batcher, flushes } = underTest(10, 1);
    const result = batcher.add(1);
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([[1]]);
    flushes[0]?.end();
    expect(await result).toBe(2);
  });

  test("batches the items of one turn, and those that wait while flushes are in progress", async () => {
    const { batcher, flushes } = underTest(10, 1);
    const results = [1, 2].map(async (item) => await batcher.add(item));
    await turn();
    results.push(...[3, 4, 5].map(async (item) => await batcher.add(item)));
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([[1, 2]]);
    flushes[0]?.end();
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([
      [1, 2],
      [3, 4, 5],
    ]);
    flushes[1]?.end();
    expect(await Promise.all(results)).toEqual([2, 4, 6, 8, 10]);
  });

  test("rejects exactly the items of a failed flush", async () => {
    const { batcher, flushes } = underTest(2, 2);
    const results = Promise.allSettled([1, 2, 3].map(async (item) => await batcher.add(item)));
    await turn();
    flushes[0]?.end(new Error("refused"));
    flushes[1]?.end();
    expect((await results).map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
  });

  test("fails a flush that returns the wrong number of results", async () => {
    const batcher = createBatcher<number, number>({
      maxItems: 10,
      maxInFlight: 1,
      flush: async (items) => items.slice(1),
    });
    const results = await Promise.allSettled([1, 2].map(async (item) => await batcher.add(item)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  test.each([
    ["items", { maxWaiting: 2 }],
    ["bytes", { size: { of: () => 10, max: 10, maxWaiting: 20 } }],
  ])(
    "rejects items beyond its limit of %s at once, and accepts more when there is room",
    async (_, limits) => {
      const flushes: (() => void)[] = [];
      const batcher = createBatcher<number, number>({
        maxItems: 1,
        maxInFlight: 1,
        ...limits,
        flush: async (items) =>
          await new Promise((resolve) => {
            flushes.push(() => resolve(items));
          }),
      });
      const first = batcher.add(1);
      await turn();
      const waiting = [2, 3].map(async (item) => await batcher.add(item));
      await expect(batcher.add(4)).rejects.toThrow(DatabaseBusyError);
      flushes[0]?.();
      await first;
      await turn();
      const next = batcher.add(5);
      for (let index = 1; index <= 3; index += 1) {
        flushes[index]?.();
        await turn();
      }
      expect(await Promise.all([...waiting, next])).toEqual([2, 3, 5]);
    },
  );

  test.each([
    ["items", undefined, 4],
    ["size", { of: () => 10, max: 100, maxWaiting: 40 }, 100],
  ])("gives each owner half of the waiting room, by %s", async (_, size, maxWaiting) => {
    const flushes: (() => void)[] = [];
    const batcher = createBatcher<string, string>({
      maxItems: 10,
      maxInFlight: 1,
      maxWaiting,
      ...(size === undefined ? {} : { size }),
      owner: { ...BY_FIRST_LETTER, many: 10 },
      flush: async (items) => await new Promise((resolve) => flushes.push(() => resolve(items))),
    });
    const first = batcher.add("a1");
    await turn();
    const waiting = ["a2", "a3"].map(async (item) => await batcher.add(item));
    await expect(batcher.add("a4")).rejects.toThrow("half is taken");
    waiting.push(...["b1", "b2"].map(async (item) => await batcher.add(item)));
    await expect(batcher.add("b3")).rejects.toThrow(DatabaseBusyError);
    flushes[0]?.();
    await first;
    await turn();
    // What is being flushed no longer waits.
    const next = batcher.add("a5");
    flushes[1]?.();
    expect(await Promise.all(waiting)).toEqual(["a2", "a3", "b1", "b2"]);
    await turn();
    flushes[2]?.();
    expect(await next).toBe("a5");
  });

  test("takes items of the owners in turns, in order within each, and within the size", async () => {
    const flushes: { readonly items: readonly string[]; readonly end: () => void }[] = [];
    const batcher = createBatcher<string, string>({
      maxItems: 3,
      maxInFlight: 1,
      size: { of: (item) => item.length, max: 8 },
      owner: { ...BY_FIRST_LETTER, many: 10 },
      flush: async (items) =>
        await new Promise((resolve) => flushes.push({ items, end: () => resolve(items) })),
    });
    const items = ["a0", "a1", "a2", "a3", "a4", "b1", "b2", "c1-long", "a5"];
    const results = Promise.all(items.map(async (item) => await batcher.add(item)));
    await turn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await turn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([
      ["a0", "b1"],
      ["c1-long"],
      ["a1", "b2", "a2"],
      ["a3", "a4", "a5"],
    ]);
    expect(await results).toEqual(items);
  });

  /** Returns a batcher in which more than three waiting items are many, and the clock that it reads. */
  function shared(maxInFlight = 2): {
    readonly add: (...items: readonly string[]) => Promise<string[]>;
    readonly flushes: { readonly items: readonly string[]; readonly end: () => void }[];
    readonly clock: { ms: number };
  } {
    const flushes: { readonly items: readonly string[]; readonly end: () => void }[] = [];
    const clock = { ms: 0 };
    const batcher = createBatcher<string, string>({
      maxItems: 4,
      maxInFlight,
      owner: { ...BY_FIRST_LETTER, many: 3 },
      now: () => clock.ms,
      flush: async (items) =>
        await new Promise((resolve) => flushes.push({ items, end: () => resolve(items) })),
    });
    const add = async (...items: readonly string[]): Promise<string[]> =>
      await Promise.all(items.map(async (item) => await batcher.add(item)));
    return { add, flushes, clock };
  }

  const MANY = Array.from({ length: 12 }, (_, index) => `a${index}`);

  test("flushes an owner's many items in every flush while no other owner has any", async () => {
    const { add, flushes } = shared();
    void add(...MANY);
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([MANY.slice(0, 4), MANY.slice(4, 8)]);
  });

  test("takes the first few of an owner's many items for no other owner's", async () => {
    const { add, flushes } = shared();
    void add(...MANY.slice(0, 2));
    await turn();
    void add(...MANY.slice(2));
    await turn();
    flushes[0]?.end();
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([
      MANY.slice(0, 2),
      MANY.slice(2, 6),
      MANY.slice(6, 10),
    ]);
  });

  test("flushes another owner's few items at once, apart from the many", async () => {
    const { add, flushes, clock } = shared();
    void add("b0", ...MANY);
    await turn();
    // Each kind has its flush, and the many take only a part of theirs.
    expect(flushes.map(({ items }) => items)).toEqual([["a0", "a1"], ["b0"]]);
    flushes[1]?.end();
    await turn();
    // The second flush stays free for the others.
    expect(flushes).toHaveLength(2);
    void add("b1");
    await turn();
    expect(flushes[2]?.items).toEqual(["b1"]);
    flushes[0]?.end();
    await turn();
    expect(flushes[3]?.items).toEqual(["a2", "a3"]);
    flushes[2]?.end();
    clock.ms = 1_001;
    flushes[3]?.end();
    await turn();
    // Nobody else has had items for a second.
    expect(flushes.slice(4).map(({ items }) => items)).toEqual([MANY.slice(4, 8), MANY.slice(8, 12)]);
  });

  test("takes every flush for an owner's many items a second after others had some, though no flush ends", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { add, flushes, clock } = shared();
    void add("b0");
    await turn();
    flushes[0]?.end();
    void add(...MANY);
    await turn();
    expect(flushes.slice(1).map(({ items }) => items)).toEqual([["a0", "a1"]]);
    clock.ms = 1_000;
    vi.advanceTimersByTime(1_050);
    expect(flushes.slice(2).map(({ items }) => items)).toEqual([MANY.slice(2, 6)]);
  });

  test("with one flush at a time, few and many items take turns", async () => {
    const { add, flushes } = shared(1);
    const items = [...MANY.slice(0, 4), "b0", "c0", "d0", "e0", "f0", "g0"];
    const results = add(...items);
    await turn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await turn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([
      ["a0", "a1"],
      ["b0", "c0", "d0", "e0"],
      ["a2", "a3"],
      ["f0", "g0"],
    ]);
    expect(await results).toEqual(items);
  });

  test("keeps the order of many items of one owner", async () => {
    const { batcher, flushes } = underTest(100, 1);
    const items = Array.from({ length: 1_000 }, (_, index) => index);
    const results = Promise.all(items.map(async (item) => await batcher.add(item)));
    await turn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await turn();
    }
    expect(flushes.flatMap((flush) => flush.items)).toEqual(items);
    expect(await results).toEqual(items.map((item) => 2 * item));
  });

  test("drains: resolves once nothing waits and no flush is in progress, at once when idle", async () => {
    const { batcher, flushes } = underTest(1, 1);
    await batcher.drain();
    const results = [1, 2].map(async (item) => await batcher.add(item));
    let drained = false;
    const drain = batcher.drain().then(() => {
      drained = true;
    });
    await turn();
    flushes[0]?.end();
    await turn();
    expect(drained).toBe(false);
    flushes[1]?.end();
    await drain;
    expect(await Promise.all(results)).toEqual([2, 4]);
  });

  test("returns each item its own result, in order and in flushes within the limits, whatever the timing", async () => {
    const turns = fc.array(fc.record({ adds: fc.nat(12), ends: fc.nat(3) }), { minLength: 1, maxLength: 20 });
    const limits = [fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 3 })] as const;
    await fc.assert(
      fc.asyncProperty(...limits, turns, async (maxItems, maxInFlight, script) => {
        const { batcher, flushes } = underTest(maxItems, maxInFlight);
        const results: Promise<number>[] = [];
        let ended = 0;
        const end = (): void => flushes[ended++]?.end();
        for (const { adds, ends } of script) {
          for (let add = 0; add < adds; add += 1) {
            results.push(batcher.add(results.length));
          }
          await turn();
          expect(flushes.length - ended).toBeLessThanOrEqual(maxInFlight);
          for (let each = 0; each < ends && ended < flushes.length; each += 1) {
            end();
          }
          await turn();
        }
        while (ended < flushes.length) {
          end();
          await turn();
        }
        expect(flushes.flatMap(({ items }) => items)).toEqual(results.map((_, index) => index));
        expect(Math.max(0, ...flushes.map(({ items }) => items.length))).toBeLessThanOrEqual(maxItems);
        expect(await Promise.all(results)).toEqual(results.map((_, index) => 2 * index));
      }),
      cases(60),
    );
  });
});
