import * as fc from "fast-check";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { DatabaseBusyError } from "../../../src/database/errors.ts";
import { type Batcher, type BatcherOptions, createBatcher } from "../../../src/database/batcher.ts";
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
  function shared(
    maxInFlight = 2,
    more: Partial<Pick<BatcherOptions<string, string>, "rows" | "owner" | "preparation">> = {},
  ): {
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
      ...more,
      now: () => clock.ms,
      flush: async (items) =>
        await new Promise((resolve) => flushes.push({ items, end: () => resolve(items) })),
    });
    const add = async (...items: readonly string[]): Promise<string[]> =>
      await Promise.all(items.map(async (item) => await batcher.add(item)));
    return { add, flushes, clock };
  }

  const MANY = Array.from({ length: 12 }, (_, index) => `a${index}`);

  test("never holds all flushes with one owner's many items, so that another owner's need not wait", async () => {
    const { add, flushes } = shared();
    void add(...MANY);
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([MANY.slice(0, 4)]);
    // It may be an owner with many items as well.
    void add(...MANY.map((item) => item.replace("a", "b")));
    await turn();
    expect(flushes[1]?.items).toEqual(["b0", "a4", "b1", "a5"]);
  });

  test("flushes many items of several owners in every flush", async () => {
    const { add, flushes } = shared();
    void add(...MANY.flatMap((item) => [item, item.replace("a", "b")]));
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([
      ["a0", "b0", "a1", "b1"],
      ["a2", "b2", "a3", "b3"],
    ]);
  });

  /** Returns a batcher of at most ten rows, of which more than five are many. An item is its owner and its rows. */
  function byRows(): ReturnType<typeof shared> {
    return shared(2, {
      rows: { of: (item) => Number(item.slice(1)), max: 10 },
      owner: { ...BY_FIRST_LETTER, many: 10, manyRows: 5, rowsPerFlush: 4 },
    });
  }

  test("takes items up to the limit of rows, in order, and an item with more rows alone", async () => {
    const { add, flushes } = byRows();
    const items = ["a4", "a6", "a1", "a30", "a9"];
    const results = add(...items);
    await turn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await turn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([["a4", "a6"], ["a1"], ["a30"], ["a9"]]);
    expect(await results).toEqual(items);
  });

  test("treats few items with many rows like many items", async () => {
    const { add, flushes } = byRows();
    void add("a30", "a3", "a2", "b1", "c2");
    await turn();
    // Others do not share a flush with them, and take the next one at once.
    expect(flushes.map(({ items }) => items)).toEqual([["a30"], ["b1", "c2"]]);
    flushes[1]?.end();
    void add("b2");
    await turn();
    expect(flushes[2]?.items).toEqual(["b2"]);
    flushes[0]?.end();
    await turn();
    expect(flushes[3]?.items).toEqual(["a3"]);
  });

  test("takes the first few of an owner's many items for no other owner's", async () => {
    const { add, flushes } = shared();
    void add(...MANY.slice(0, 2));
    await turn();
    void add(...MANY.slice(2));
    await turn();
    for (let index = 0; index < 3; index += 1) {
      flushes[index]?.end();
      await turn();
    }
    // Otherwise each flush would have only two of them for a second.
    expect(flushes.map(({ items }) => items)).toEqual([
      MANY.slice(0, 2),
      MANY.slice(2, 6),
      MANY.slice(6, 10),
      MANY.slice(10),
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
    expect(flushes.slice(4).map(({ items }) => items)).toEqual([MANY.slice(4, 8)]);
  });

  test("takes every flush for many items a second after others had some, though no flush ends", async () => {
    vi.useFakeTimers({ toFake: ["setTimeout"] });
    onTestFinished(() => void vi.useRealTimers());
    const { add, flushes, clock } = shared();
    void add("b0");
    await turn();
    flushes[0]?.end();
    void add(...MANY.flatMap((item) => [item, item.replace("a", "c")]));
    await turn();
    expect(flushes.slice(1).map(({ items }) => items)).toEqual([["a0", "c0"]]);
    clock.ms = 1_000;
    vi.advanceTimersByTime(1_050);
    expect(flushes.slice(2).map(({ items }) => items)).toEqual([["a1", "c1", "a2", "c2"]]);
  });

  test("never holds all flushes with one owner's few items either, but with those of several owners", async () => {
    const { add, flushes } = shared();
    void add("a0");
    await turn();
    void add("a1");
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([["a0"]]);
    void add("b0");
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([["a0"], ["b0", "a1"]]);
  });

  /** Returns a batcher whose items are ready once the test has ended their preparation. */
  function preparing(maxInFlight = 2) {
    const ready = new Set<string>();
    const begun: { readonly items: readonly string[]; readonly end: (error?: Error) => void }[] = [];
    const batcher = shared(maxInFlight, {
      rows: { of: (item) => (ready.has(item) ? 1 : 0), max: 100 },
      owner: { ...BY_FIRST_LETTER, many: 10, manyRows: 3 },
      preparation: {
        isReady: (item) => ready.has(item),
        maxItems: 3,
        prepare: async (items) =>
          await new Promise<void>((resolve, reject) => {
            const end = (error?: Error): void => {
              if (error !== undefined) {
                reject(error);
                return;
              }
              items.forEach((item) => ready.add(item));
              resolve();
            };
            begun.push({ items, end });
          }),
      },
    });
    return { ...batcher, ready, begun };
  }

  test("a preparation that hangs delays its owner alone, and flushes take the others' items", async () => {
    const { add, flushes, ready, begun } = preparing();
    ["b0", "c0", "a1"].forEach((item) => ready.add(item));
    void add("a0", "a1", "b0", "c0");
    await turn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1"]]);
    expect(flushes.map(({ items }) => items)).toEqual([["b0", "c0"]]);
    begun[0]?.end();
    await turn();
    // In order: a1 was ready before a0.
    expect(flushes[1]?.items).toEqual(["a0", "a1"]);
  });

  test("a preparation that fails rejects what waited for it, and no item of another owner", async () => {
    const { add, ready, begun, flushes } = preparing();
    ["a1", "b0"].forEach((item) => ready.add(item));
    const results = Promise.allSettled(
      ["a0", "a1", "a2", "a3", "b0"].map(async (item) => (await add(item))[0]),
    );
    await turn();
    begun[0]?.end(new Error("too slow"));
    await turn();
    flushes.forEach(({ end }) => end());
    expect(await results).toEqual([
      { status: "rejected", reason: new Error("too slow") },
      { status: "fulfilled", value: "a1" },
      { status: "rejected", reason: new Error("too slow") },
      { status: "rejected", reason: new Error("too slow") },
      { status: "fulfilled", value: "b0" },
    ]);
    // Its next item is prepared again.
    void add("a2");
    await turn();
    expect(begun[1]?.items).toEqual(["a2"]);
  });

  test("prepares an owner's oldest items while earlier ones are flushed, one preparation at a time", async () => {
    const { add, flushes, begun } = preparing();
    const results = add("a0", "a1", "a2", "a3", "a4");
    await turn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1", "a2"]]);
    begun[0]?.end();
    await turn();
    expect(flushes.map(({ items }) => items)).toEqual([["a0", "a1", "a2"]]);
    expect(begun.slice(1).map(({ items }) => items)).toEqual([["a3", "a4"]]);
    begun[1]?.end();
    await turn();
    flushes[0]?.end();
    await turn();
    flushes[1]?.end();
    expect(await results).toEqual(["a0", "a1", "a2", "a3", "a4"]);
  });

  test("counts the rows of items once they are prepared, and prepares again what is no longer ready", async () => {
    const { add, flushes, begun, ready } = preparing(1);
    ready.add("b0");
    void add("b0");
    await turn();
    void add("a0", "a1", "a2", "a3", "c0");
    await turn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1", "a2"], ["c0"]]);
    ready.add("a3");
    begun[0]?.end();
    begun[1]?.end();
    await turn();
    // Forgotten while it waited for the flush.
    ready.delete("c0");
    flushes[0]?.end();
    await turn();
    // Four rows are many, so they are not flushed with others.
    expect(flushes[1]?.items).toEqual(["a0", "a1"]);
    flushes[1]?.end();
    await turn();
    expect(begun[2]?.items).toEqual(["c0"]);
  });

  test("drains only after what is being prepared", async () => {
    const ready = new Set<number>();
    let prepared = (): void => undefined;
    const batcher = createBatcher<number, number>({
      maxItems: 1,
      maxInFlight: 1,
      preparation: {
        isReady: (item) => ready.has(item),
        maxItems: 1,
        prepare: async ([item]) =>
          await new Promise<void>((resolve) => {
            prepared = () => {
              ready.add(item as number);
              resolve();
            };
          }),
      },
      flush: async (items) => await Promise.resolve(items),
    });
    const result = batcher.add(1);
    const order: string[] = [];
    const drained = batcher.drain().then(() => order.push("drained"));
    await turn();
    order.push("prepared");
    prepared();
    await drained;
    expect(order).toEqual(["prepared", "drained"]);
    expect(await result).toBe(1);
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
