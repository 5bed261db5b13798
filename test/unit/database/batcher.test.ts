import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { nextTurn } from "#runtime/slices.ts";
import { DatabaseBusyError } from "#database/errors.ts";
import { type Batcher, createBatcher } from "#database/batcher.ts";
import { createFairBatcher } from "#webhooks/ingest/fair-batcher.ts";
import { cases } from "#test/support/properties.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

interface Flush {
  readonly items: readonly number[];
  readonly end: (error?: Error) => void;
}

describe.each([
  ["in order", createBatcher],
  ["by owner", createFairBatcher],
])("group commit, %s", (_name, create) => {
  /** Returns a batcher whose flushes the test ends; each result is its item, doubled. */
  function underTest(
    maxItems: number,
    maxInFlight: number,
  ): { batcher: Batcher<number, number>; flushes: Flush[] } {
    const flushes: Flush[] = [];
    const batcher = create<number, number>({
      timers: new SimulatedTime(),
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

  test("flushes a single item at once", async () => {
    const { batcher, flushes } = underTest(10, 1);
    const result = batcher.add(1);
    await nextTurn();
    expect(flushes.map(({ items }) => items)).toEqual([[1]]);
    flushes[0]?.end();
    expect(await result).toBe(2);
  });

  test("batches the items of one turn, and those that wait while flushes are in progress", async () => {
    const { batcher, flushes } = underTest(10, 1);
    const results = [1, 2].map(async (item) => await batcher.add(item));
    await nextTurn();
    results.push(...[3, 4, 5].map(async (item) => await batcher.add(item)));
    await nextTurn();
    expect(flushes.map(({ items }) => items)).toEqual([[1, 2]]);
    flushes[0]?.end();
    await nextTurn();
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
    await nextTurn();
    flushes[0]?.end(new Error("refused"));
    flushes[1]?.end();
    expect((await results).map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
  });

  test("fails a flush that returns the wrong number of results", async () => {
    const batcher = create<number, number>({
      timers: new SimulatedTime(),
      maxItems: 10,
      maxInFlight: 1,
      flush: async (items) => items.slice(1),
    });
    const results = await Promise.allSettled([1, 2].map(async (item) => await batcher.add(item)));
    expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  });

  test("rejects items beyond its limit at once, and accepts more when there is room", async () => {
    const flushes: (() => void)[] = [];
    const batcher = create<number, number>({
      timers: new SimulatedTime(),
      maxItems: 1,
      maxInFlight: 1,
      maxWaiting: 2,
      flush: async (items) => await new Promise((resolve) => flushes.push(() => resolve(items))),
    });
    const first = batcher.add(1);
    await nextTurn();
    const waiting = [2, 3].map(async (item) => await batcher.add(item));
    await expect(batcher.add(4)).rejects.toThrow(DatabaseBusyError);
    flushes[0]?.();
    await first;
    await nextTurn();
    const next = batcher.add(5);
    for (let index = 1; index <= 3; index += 1) {
      flushes[index]?.();
      await nextTurn();
    }
    expect(await Promise.all([...waiting, next])).toEqual([2, 3, 5]);
  });

  test("flushes items up to its size, and an item that exceeds it alone", async () => {
    const flushed: (readonly number[])[] = [];
    const batcher = create<number, number>({
      timers: new SimulatedTime(),
      maxItems: 3,
      maxInFlight: 1,
      size: { of: (item) => item, max: 10 },
      flush: async (items) => {
        flushed.push(items);
        return await Promise.resolve(items);
      },
    });
    const items = [4, 6, 1, 20, 3, 2, 2, 2];
    expect(await Promise.all(items.map(async (item) => await batcher.add(item)))).toEqual(items);
    expect(flushed).toEqual([[4, 6], [1], [20], [3, 2, 2], [2]]);
  });

  test("keeps the order of many items of one owner", async () => {
    const { batcher, flushes } = underTest(100, 1);
    const items = Array.from({ length: 1_000 }, (_, index) => index);
    const results = Promise.all(items.map(async (item) => await batcher.add(item)));
    await nextTurn();
    for (let index = 0; index < flushes.length; index += 1) {
      flushes[index]?.end();
      await nextTurn();
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
    await nextTurn();
    flushes[0]?.end();
    await nextTurn();
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
          await nextTurn();
          expect(flushes.length - ended).toBeLessThanOrEqual(maxInFlight);
          for (let each = 0; each < ends && ended < flushes.length; each += 1) {
            end();
          }
          await nextTurn();
        }
        while (ended < flushes.length) {
          end();
          await nextTurn();
        }
        expect(flushes.flatMap(({ items }) => items)).toEqual(results.map((_, index) => index));
        expect(Math.max(0, ...flushes.map(({ items }) => items.length))).toBeLessThanOrEqual(maxItems);
        expect(await Promise.all(results)).toEqual(results.map((_, index) => 2 * index));
      }),
      cases(60),
    );
  });
});
