import { expect, test } from "vitest";
import { nextTurn } from "#runtime/slices.ts";
import { DatabaseBusyError } from "#database/errors.ts";
import { cases } from "#test/support/properties.ts";
import { seededRandom } from "#test/support/seeded-random.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";
import { createFairBatcher } from "#webhooks/ingest/fair-batcher.ts";

const FLUSH_MS = 20;
const { numRuns: SCHEDULES } = cases(60);

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
    const batcher = createFairBatcher<string, string>({
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

test.each([
  ["items", undefined, 4],
  ["size", { of: () => 10, max: 100, maxWaiting: 40 }, 100],
])("gives each owner half of the waiting room, by %s", async (_, size, maxWaiting) => {
  const flushes: (() => void)[] = [];
  const batcher = createFairBatcher<string, string>({
    timers: new SimulatedTime(),
    maxItems: 10,
    maxInFlight: 1,
    maxWaiting,
    ...(size === undefined ? {} : { size }),
    owner: {
      of: ([owner = ""]) => owner,
      many: 10,
      manyPerFlush: 2,
      refusal: () => new Error("half is taken"),
    },
    flush: async (items) => await new Promise((resolve) => flushes.push(() => resolve(items))),
  });
  const first = batcher.add("a1");
  await nextTurn();
  const waiting = ["a2", "a3"].map(async (item) => await batcher.add(item));
  await expect(batcher.add("a4")).rejects.toThrow("half is taken");
  waiting.push(...["b1", "b2"].map(async (item) => await batcher.add(item)));
  await expect(batcher.add("b3")).rejects.toThrow(DatabaseBusyError);
  flushes[0]?.();
  await first;
  await nextTurn();
  // What is being flushed no longer waits.
  const next = batcher.add("a5");
  flushes[1]?.();
  expect(await Promise.all(waiting)).toEqual(["a2", "a3", "b1", "b2"]);
  await nextTurn();
  flushes[2]?.();
  expect(await next).toBe("a5");
});

test("rejects items beyond its limit of size at once, and accepts more when there is room", async () => {
  const flushes: (() => void)[] = [];
  const batcher = createFairBatcher<number, number>({
    timers: new SimulatedTime(),
    maxItems: 1,
    maxInFlight: 1,
    size: { of: () => 10, max: 10, maxWaiting: 20 },
    flush: async (items) =>
      await new Promise((resolve) => {
        flushes.push(() => resolve(items));
      }),
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
