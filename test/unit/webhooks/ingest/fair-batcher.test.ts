import { expect, test } from "vitest";
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
