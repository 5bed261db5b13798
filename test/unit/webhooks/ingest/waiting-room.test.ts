/** What waits for flushes: owners take turns, and none delays the others. */
import { beforeEach, describe, expect, test } from "vitest";
import { nextTurn } from "#runtime/slices.ts";
import { createFairBatcher, type FairBatcherOptions } from "#webhooks/ingest/fair-batcher.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

beforeEach(() => {
  time = new SimulatedTime();
});

const BY_FIRST_LETTER = {
  of: (item: string) => item.slice(0, 1),
  manyPerFlush: 2,
  refusal: () => new Error("half is taken"),
};

describe("the waiting room", () => {
  test("drains only after what is being prepared", async () => {
    const ready = new Set<number>();
    let prepared = (): void => undefined;
    const batcher = createFairBatcher<number, number>({
      timers: time,
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
    await nextTurn();
    order.push("prepared");
    prepared();
    await drained;
    expect(order).toEqual(["prepared", "drained"]);
    expect(await result).toBe(1);
  });

  test("takes items of the owners in turns, in order within each, and within the size", async () => {
    const flushes: { readonly items: readonly string[]; readonly end: () => void }[] = [];
    const batcher = createFairBatcher<string, string>({
      timers: time,
      maxItems: 3,
      maxInFlight: 1,
      size: { of: (item) => item.length, max: 8 },
      owner: { ...BY_FIRST_LETTER, many: 10 },
      flush: async (items) =>
        await new Promise((resolve) => flushes.push({ items, end: () => resolve(items) })),
    });
    const items = ["a0", "a1", "a2", "a3", "a4", "b1", "b2", "c1-long", "a5"];
    const results = Promise.all(items.map(async (item) => await batcher.add(item)));
    await nextTurn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await nextTurn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([
      ["a0", "b1"],
      ["c1-long"],
      ["a1", "b2", "a2"],
      ["a3", "a4", "a5"],
    ]);
    expect(await results).toEqual(items);
  });

  /** Returns a batcher in which more than three waiting items are many. */
  function shared(
    maxInFlight = 2,
    more: Partial<Pick<FairBatcherOptions<string, string>, "rows" | "owner" | "preparation">> = {},
  ): {
    readonly add: (...items: readonly string[]) => Promise<string[]>;
    readonly flushes: {
      readonly items: readonly string[];
      readonly gently: boolean;
      readonly end: () => void;
    }[];
  } {
    const flushes: {
      readonly items: readonly string[];
      readonly gently: boolean;
      readonly end: () => void;
    }[] = [];
    const batcher = createFairBatcher<string, string>({
      maxItems: 4,
      maxInFlight,
      owner: { ...BY_FIRST_LETTER, many: 3 },
      ...more,
      timers: time,
      flush: async (items, gently) =>
        await new Promise((resolve) => flushes.push({ items, gently, end: () => resolve(items) })),
    });
    const add = async (...items: readonly string[]): Promise<string[]> =>
      await Promise.all(items.map(async (item) => await batcher.add(item)));
    return { add, flushes };
  }

  const MANY = Array.from({ length: 12 }, (_, index) => `a${index}`);

  test("never holds all flushes with one owner's many items, so that another owner's need not wait", async () => {
    const { add, flushes } = shared();
    void add(...MANY);
    await nextTurn();
    expect(flushes.map(({ items }) => items)).toEqual([MANY.slice(0, 4)]);
    // It may be an owner with many items as well.
    void add(...MANY.map((item) => item.replace("a", "b")));
    await nextTurn();
    expect(flushes[1]?.items).toEqual(["b0", "a4", "b1", "a5"]);
  });

  test("an owner with many items rests after each flush, as long as others have items, and they do not wait", async () => {
    const { add, flushes } = shared(2, { owner: { ...BY_FIRST_LETTER, many: 3, restPerFlush: 3 } });
    /** Ends the flushes of the current instant. @returns their items */
    const ended = async (): Promise<readonly (readonly string[])[]> => {
      await nextTurn();
      const ending = flushes.splice(0);
      ending.forEach(({ end }) => end());
      await nextTurn();
      return ending.map(({ items }) => items);
    };
    void add("b0");
    await nextTurn();
    void add(...MANY);
    await nextTurn();
    await time.advance(10);
    // Both take 10 ms. Then the rest begins, until 40 ms.
    expect(await ended()).toEqual([["b0"], ["a0", "a1"]]);
    for (const ms of [11, 39]) {
      await time.advance(ms - time.now);
      void add(`b${ms}`);
      expect(await ended()).toEqual([[`b${ms}`]]);
    }
    await time.advance(1);
    void add("b40");
    expect(await ended()).toEqual([["a2", "a3"], ["b40"]]);
    // The flushes took no time, so there is no rest. A second later, no others are expected.
    expect(await ended()).toEqual([["a4", "a5"]]);
    await time.advance(1_000);
    expect(await ended()).toEqual([["a6", "a7"]]);
    expect((await ended()).flat()).toEqual(["a8", "a9", "a10", "a11"]);
  });

  test("an owner's many items are flushed gently beside others, and nothing else is", async () => {
    const { add, flushes } = shared(1);
    void add("b0", ...MANY);
    for (let index = 0; index < 3; index += 1) {
      await nextTurn();
      flushes[index]?.end();
    }
    await nextTurn();
    await time.advance(1_050);
    expect(flushes.map(({ items, gently }) => [items.length, gently])).toEqual([
      [2, true],
      [1, false],
      [2, true],
      [2, true],
    ]);
    flushes[3]?.end();
    await nextTurn();
    expect(flushes[4]).toMatchObject({ gently: false });
  });

  test("a rest ends by itself, and is short however long a flush took", async () => {
    const { add, flushes } = shared(1, { owner: { ...BY_FIRST_LETTER, many: 3, restPerFlush: 3 } });
    void add("b0", ...MANY);
    await nextTurn();
    await time.advance(900);
    for (const index of [0, 1]) {
      flushes[index]?.end();
      await nextTurn();
    }
    expect(flushes.map(({ items }) => items)).toEqual([["a0", "a1"], ["b0"]]);
    await time.advance(99);
    expect(flushes).toHaveLength(2);
    await time.advance(1);
    expect(flushes).toHaveLength(3);
  });

  test("flushes many items of several owners in every flush", async () => {
    const { add, flushes } = shared();
    void add(...MANY.flatMap((item) => [item, item.replace("a", "b")]));
    await nextTurn();
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
    await nextTurn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await nextTurn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([["a4", "a6"], ["a1"], ["a30"], ["a9"]]);
    expect(await results).toEqual(items);
  });

  test("treats few items with many rows like many items", async () => {
    const { add, flushes } = byRows();
    void add("a30", "a3", "a2", "b1", "c2");
    await nextTurn();
    // Others do not share a flush with them, and take the next one at once.
    expect(flushes.map(({ items }) => items)).toEqual([["a30"], ["b1", "c2"]]);
    flushes[1]?.end();
    void add("b2");
    await nextTurn();
    expect(flushes[2]?.items).toEqual(["b2"]);
    flushes[0]?.end();
    await nextTurn();
    expect(flushes[3]?.items).toEqual(["a3"]);
  });

  test("takes the first few of an owner's many items for no other owner's", async () => {
    const { add, flushes } = shared();
    void add(...MANY.slice(0, 2));
    await nextTurn();
    void add(...MANY.slice(2));
    await nextTurn();
    for (let index = 0; index < 3; index += 1) {
      flushes[index]?.end();
      await nextTurn();
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
    const { add, flushes } = shared();
    void add("b0", ...MANY);
    await nextTurn();
    // Each kind has its flush, and the many take only a part of theirs.
    expect(flushes.map(({ items }) => items)).toEqual([["a0", "a1"], ["b0"]]);
    flushes[1]?.end();
    await nextTurn();
    // The second flush stays free for the others.
    expect(flushes).toHaveLength(2);
    void add("b1");
    await nextTurn();
    expect(flushes[2]?.items).toEqual(["b1"]);
    flushes[0]?.end();
    await nextTurn();
    expect(flushes[3]?.items).toEqual(["a2", "a3"]);
    flushes[2]?.end();
    await time.advance(1_001);
    flushes[3]?.end();
    await nextTurn();
    // Nobody else has had items for a second.
    expect(flushes.slice(4).map(({ items }) => items)).toEqual([MANY.slice(4, 8)]);
  });

  test("takes every flush for many items a second after others had some, though no flush ends", async () => {
    const { add, flushes } = shared();
    void add("b0");
    await nextTurn();
    flushes[0]?.end();
    void add(...MANY.flatMap((item) => [item, item.replace("a", "c")]));
    await nextTurn();
    expect(flushes.slice(1).map(({ items }) => items)).toEqual([["a0", "c0"]]);
    await time.advance(1_050);
    expect(flushes.slice(2).map(({ items }) => items)).toEqual([["a1", "c1", "a2", "c2"]]);
  });

  test("never holds all flushes with one owner's few items either, but with those of several owners", async () => {
    const { add, flushes } = shared();
    void add("a0");
    await nextTurn();
    void add("a1");
    await nextTurn();
    expect(flushes.map(({ items }) => items)).toEqual([["a0"]]);
    void add("b0");
    await nextTurn();
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
    await nextTurn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1"]]);
    expect(flushes.map(({ items }) => items)).toEqual([["b0", "c0"]]);
    begun[0]?.end();
    await nextTurn();
    // In order: a1 was ready before a0.
    expect(flushes[1]?.items).toEqual(["a0", "a1"]);
  });

  test("a preparation that fails rejects what waited for it, and no item of another owner", async () => {
    const { add, ready, begun, flushes } = preparing();
    ["a1", "b0"].forEach((item) => ready.add(item));
    const results = Promise.allSettled(
      ["a0", "a1", "a2", "a3", "b0"].map(async (item) => (await add(item))[0]),
    );
    await nextTurn();
    begun[0]?.end(new Error("too slow"));
    await nextTurn();
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
    await nextTurn();
    expect(begun[1]?.items).toEqual(["a2"]);
  });

  test("prepares an owner's oldest items while earlier ones are flushed, one preparation at a time", async () => {
    const { add, flushes, begun } = preparing();
    const results = add("a0", "a1", "a2", "a3", "a4");
    await nextTurn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1", "a2"]]);
    begun[0]?.end();
    await nextTurn();
    expect(flushes.map(({ items }) => items)).toEqual([["a0", "a1", "a2"]]);
    expect(begun.slice(1).map(({ items }) => items)).toEqual([["a3", "a4"]]);
    begun[1]?.end();
    await nextTurn();
    flushes[0]?.end();
    await nextTurn();
    flushes[1]?.end();
    expect(await results).toEqual(["a0", "a1", "a2", "a3", "a4"]);
  });

  test("counts the rows of items once they are prepared, and prepares again what is no longer ready", async () => {
    const { add, flushes, begun, ready } = preparing(1);
    ready.add("b0");
    void add("b0");
    await nextTurn();
    void add("a0", "a1", "a2", "a3", "c0");
    await nextTurn();
    expect(begun.map(({ items }) => items)).toEqual([["a0", "a1", "a2"], ["c0"]]);
    ready.add("a3");
    begun[0]?.end();
    begun[1]?.end();
    await nextTurn();
    // Forgotten while it waited for the flush.
    ready.delete("c0");
    flushes[0]?.end();
    await nextTurn();
    // Four rows are many, so they are not flushed with others.
    expect(flushes[1]?.items).toEqual(["a0", "a1"]);
    flushes[1]?.end();
    await nextTurn();
    expect(begun[2]?.items).toEqual(["c0"]);
  });

  test("with one flush at a time, few and many items take turns", async () => {
    const { add, flushes } = shared(1);
    const items = [...MANY.slice(0, 4), "b0", "c0", "d0", "e0", "f0", "g0"];
    const results = add(...items);
    await nextTurn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await nextTurn();
    }
    expect(flushes.map((flush) => flush.items)).toEqual([
      ["a0", "a1"],
      ["b0", "c0", "d0", "e0"],
      ["a2", "a3"],
      ["f0", "g0"],
    ]);
    expect(await results).toEqual(items);
  });
});
