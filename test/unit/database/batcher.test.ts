import { describe, expect, test } from "vitest";
import { DatabaseBusyError } from "#database/errors.ts";
import { type Batcher, createBatcher } from "#database/batcher.ts";
import { cases } from "#test/support/properties.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const FLUSH_MS = 20;
const { numRuns: SCHEDULES } = cases(60);
const time = new SimulatedTime();

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
    timers: time,
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
      timers: time,
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
        timers: time,
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

  test("drains only after what is being prepared", async () => {
    const ready = new Set<number>();
    let prepared = (): void => undefined;
    const batcher = createBatcher<number, number>({
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
    await turn();
    order.push("prepared");
    prepared();
    await drained;
    expect(order).toEqual(["prepared", "drained"]);
    expect(await result).toBe(1);
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

  test("returns each item its own result, in flushes within the limits, and lets no owner wait for another's", async () => {
    for (let seed = 1; seed <= SCHEDULES; seed += 1) {
      const random = seededRandom(seed);
      const below = (count: number): number => Math.floor(random() * count);
      const time = new SimulatedTime(random);
      const [maxItems, maxInFlight] = [1 + below(8), 2 + below(2)];
      const flushed: string[] = [];
      const waits = { few: 0 };
      const addedAt = new Map<string, number>();
      let inFlight = 0;
      const batcher = createBatcher<string, string>({
        timers: time,
        maxItems,
        maxInFlight,
        owner: { of: ([owner = ""]) => owner, many: 10, manyPerFlush: 2, refusal: () => new Error("full") },
        flush: async (items) => {
          inFlight += 1;
          expect(inFlight).toBeLessThanOrEqual(maxInFlight);
          expect(items.length).toBeLessThanOrEqual(maxItems);
          flushed.push(...items);
          for (const item of items.filter(([owner]) => owner === "f")) {
            waits.few = Math.max(waits.few, time.now - (addedAt.get(item) ?? 0));
          }
          await time.sleep(1 + below(FLUSH_MS));
          inFlight -= 1;
          if (random() < 0.1) {
            throw new Error(items.join(" "));
          }
          return items.map((item) => `${item}!`);
        },
      });
      const added: string[] = [];
      const results: Promise<string>[] = [];
      const add = (owner: string): void => {
        const item = `${owner}${added.length}`;
        added.push(item);
        addedAt.set(item, time.now);
        // A failed flush rejects exactly its items.
        results.push(
          batcher.add(item).then(
            (result) => result.slice(0, -1),
            ({ message }: Error) => message.split(" ").find((each) => each === item) ?? message,
          ),
        );
      };
      while (time.now < 3_000) {
        // Two owners have many items, and one has an item now and then.
        for (let count = below(12); count > 0; count -= 1) {
          add(random() < 0.5 ? "a" : "b");
        }
        if (random() < 0.1) {
          add("f");
        }
        await time.advance(below(2 * FLUSH_MS));
      }
      let drained = false;
      void batcher.drain().then(() => (drained = true));
      await time.advance(FLUSH_MS * added.length + 2_000);
      expect(drained, `seed ${seed}`).toBe(true);
      expect(await Promise.all(results), `seed ${seed}`).toEqual(added);
      const of = (items: readonly string[], owner: string) => items.filter(([first]) => first === owner);
      for (const owner of ["a", "b", "f"]) {
        expect(of(flushed, owner), `seed ${seed}`).toEqual(of(added, owner));
      }
      // It waits for one flush of others, and for one of its own kind.
      expect(waits.few, `seed ${seed}`).toBeLessThanOrEqual(2 * FLUSH_MS);
    }
  });
});
