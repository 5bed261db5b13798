/** What streams of deliveries keep for clients that do not read, and how often the database is asked. */
import { expect, test } from "vitest";
import type { Delivery } from "../../../src/database/repositories/deliveries.ts";
import { DeliveryStream, DeliveryStreams, FOLLOWED } from "../../../src/delivery/delivery-streams.ts";

function delivery(id: string, attemptCount = 0): Delivery {
  return { id, state: "QUEUED", cycle: 1, attemptCount, nextAttemptAt: null } as Delivery;
}

test("for a client that does not read, no more is kept than is followed, and of each delivery the newest", async () => {
  const stream = new DeliveryStream();
  for (let round = 1; round <= 3; round += 1) {
    stream.push(Array.from({ length: FOLLOWED + 50 }, (_, index) => delivery(`d${index}`, round)));
  }
  const kept = await stream.take(0);
  expect(kept).toHaveLength(FOLLOWED);
  expect(kept.at(-1)).toMatchObject({ id: `d${FOLLOWED + 49}`, attemptCount: 3 });
  expect(await stream.take(0)).toEqual([]);
});

test("however many clients watch a tenant, its deliveries are read once a turn", async () => {
  let reads = 0;
  const list = async (): Promise<Delivery[]> => {
    reads += 1;
    return await Promise.resolve([delivery("one", reads)]);
  };
  const streams = new DeliveryStreams({ list }, () => undefined);
  const all = Array.from({ length: 10 }, () => streams.follow("tenant"));
  const told = await Promise.all(
    all.map(async (stream) => {
      const first = await stream.take(60_000);
      return first.length > 0 ? first : await stream.take(60_000);
    }),
  );
  // The first read is what is known; the second tells every client of the change.
  expect(told.map((rows) => rows[0]?.attemptCount)).toEqual(all.map(() => 2));
  expect(reads).toBe(2);
  await streams.close();
  expect(all.every(({ ended }) => ended)).toBe(true);
});
