/** Memory of delivery streams for clients that do not read, and the number of database queries. */
import { expect, test } from "vitest";
import type { BoundedRows } from "#database/repositories/page.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { DeliveryStream, DeliveryStreams, FOLLOWED } from "#webhooks/engine/delivery-streams.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

function delivery(id: string, attemptCount = 0): Delivery {
  return { id, state: "QUEUED", cycle: 1, attempt_count: attemptCount, next_attempt_at: null } as Delivery;
}

test("a client that does not read costs a bounded buffer, with the newest state of each delivery", async () => {
  const stream = new DeliveryStream(time);
  for (let round = 1; round <= 3; round += 1) {
    stream.push(
      Array.from({ length: FOLLOWED + 50 }, (_, index) => delivery(`d${index}`, round)),
      round,
    );
  }
  const kept = await stream.take(0);
  expect(kept).toHaveLength(FOLLOWED);
  expect(kept.at(-1)).toMatchObject({ id: `d${FOLLOWED + 49}`, attempt_count: 3 });
  expect(await stream.take(0)).toEqual([]);
});

test("a resumed stream sends what may have changed since its position, and whether that is complete", async () => {
  const at = (minutes: number): Date => new Date(minutes * 60_000);
  const since = 60 * 60_000;
  const rows: Delivery[] = [
    { ...delivery("new"), created_at: at(61) },
    { ...delivery("retrying", 3), state: "RETRYING", created_at: at(10) },
    { ...delivery("cancelled", 3), state: "CANCELLED", created_at: at(9) },
    { ...delivery("replayed"), cycle: 2, created_at: at(8) },
    { ...delivery("late"), state: "DELIVERED", created_at: at(7), delivered_at: at(58) },
    { ...delivery("long delivered"), state: "DELIVERED", created_at: at(6), delivered_at: at(7) },
    { ...delivery("long dead"), state: "DEAD_LETTERED", created_at: at(5), dead_lettered_at: at(7) },
    { ...delivery("known"), created_at: at(4) },
  ];
  const stream = new DeliveryStream(time, since);
  expect(stream.resuming).toBe(true);
  stream.resume(rows, since + 1_000);
  const sent = await stream.take(0);
  expect(sent.map(({ id }) => id)).toEqual(["late", "replayed", "cancelled", "retrying", "new"]);
  expect(stream).toMatchObject({ resuming: false, ready: true, complete: true, position: since + 1_000 });

  const overrun = new DeliveryStream(time, since);
  overrun.resume(
    Array.from({ length: FOLLOWED }, (_, index) => ({ ...delivery(`d${index}`), created_at: at(61) })),
    since + 1_000,
  );
  expect(overrun.complete).toBe(false);
});

test("a position counts what was taken, not what waits", async () => {
  const stream = new DeliveryStream(time);
  stream.push([delivery("a")], 1_000);
  await stream.take(0);
  stream.push([delivery("b")], 2_000);
  expect(stream.position).toBe(1_000);
  await stream.take(0);
  expect(stream.position).toBe(2_000);
});

test("any number of clients of a tenant cost one query per turn", async () => {
  let reads = 0;
  const list = async (): Promise<BoundedRows<Delivery>> => {
    reads += 1;
    return await Promise.resolve({ rows: [delivery("one", reads)], next: null });
  };
  const streams = new DeliveryStreams(
    { list, unhealthy: async () => await Promise.resolve([]) },
    { clock: { now: () => 0 }, timers: time },
    () => undefined,
  );
  const all = Array.from({ length: 10 }, () => streams.follow("tenant"));
  const taken = Promise.all(
    all.map(async (stream) => {
      const first = await stream.take(60_000);
      return first.length > 0 ? first : await stream.take(60_000);
    }),
  );
  await time.advance(1_000);
  const sent = await taken;
  // The first read is the initial state; the second sends the change to every client.
  expect(sent.map((rows) => rows[0]?.attempt_count)).toEqual(all.map(() => 2));
  expect(reads).toBe(2);
  await streams.close();
  expect(all.every(({ ended }) => ended)).toBe(true);
});
