/** Erasure of an event's content, with deliveries in every state and requests in flight. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { WorkerProcess } from "#processes/worker.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const CANARY = "c4n4ry-of-content";
const made = useWorld({ retryWindowMs: 60_000 });
let worker: WorkerProcess;

beforeAll(async () => {
  worker = await made.current.startWorker();
});
afterAll(async () => {
  await worker.close();
});

/** Publishes an event to a receiver. */
async function published(receiver: Receiver, data: object = { canary: CANARY }) {
  const tenant = await made.current.createTenant();
  await made.current.createEndpoint(tenant, receiver.url);
  const { event, deliveries } = await made.current.publish(tenant, data);
  return { tenant, event: event.id, delivery: deliveries[0]?.id ?? "" };
}

async function rowsOf(event: string): Promise<string> {
  const { rows } = await made.current.sql.query(
    `SELECT (SELECT jsonb_agg(e) FROM events e WHERE e.id = $1) AS events,
      (SELECT jsonb_agg(encode(e.content, 'escape')) FROM events e WHERE e.id = $1) AS contents,
      (SELECT jsonb_agg(d) FROM deliveries d WHERE d.event_id = $1) AS deliveries,
      (SELECT jsonb_agg(a) FROM attempts a JOIN deliveries d ON d.id = a.delivery_id WHERE d.event_id = $1) AS attempts`,
    [event],
  );
  return JSON.stringify(rows);
}

test("requests and responses are stored sealed and readable until the erasure", async () => {
  const world = made.current;
  const receiver = await startReceiver({ script: [{ kind: "answer", body: `got ${CANARY}` }] });
  const { tenant, event, delivery } = await published(receiver);
  await world.untilDelivery(tenant, delivery, ({ state }) => state === "DELIVERED");
  expect(receiver.requests[0]?.rawBody.toString()).toContain(CANARY);
  expect(await world.events.find(tenant, event)).toMatchObject({
    data: JSON.stringify({ canary: CANARY }),
    content_erased_at: null,
  });
  expect(await world.attempts(tenant, delivery)).toMatchObject([{ response_body: `got ${CANARY}` }]);
  expect(await rowsOf(event)).not.toContain(CANARY);

  await world.events.erase(tenant, event, TEST_CALLER);
  expect(await world.events.find(tenant, event)).toMatchObject({
    data: null,
    content_erased_at: expect.any(Date),
  });
  expect(await world.attempts(tenant, delivery)).toMatchObject([{ response_body: null, status: 200 }]);
  const { rows } = await world.sql.query("SELECT first_response FROM deliveries WHERE id = $1", [delivery]);
  expect(rows).toEqual([{ first_response: null }]);
  expect(await world.deliveries.find(tenant, delivery)).toMatchObject({ state: "DELIVERED" });
  await receiver.close();
});

test("a retrying delivery is cancelled, its workflow ends, and nothing more is sent", async () => {
  const world = made.current;
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 503 }] });
  const { tenant, event, delivery } = await published(receiver);
  await world.untilDelivery(tenant, delivery, ({ state }) => state === "RETRYING");
  const workflow = await world.workflowOf(tenant, delivery);
  await world.events.erase(tenant, event, TEST_CALLER);
  expect(await world.deliveries.find(tenant, delivery)).toMatchObject({
    state: "CANCELLED",
    reason: "content_erased",
    next_attempt_at: null,
  });
  await workflow.result();
  const sent = receiver.requests.length;
  await expect(world.deliveries.replay(tenant, delivery, TEST_CALLER)).rejects.toMatchObject({
    code: "INVALID_STATE",
  });
  expect(receiver.requests).toHaveLength(sent);
  await receiver.close();
});

test("a request in flight when the erasure commits is answered, and its response is not readable", async () => {
  const world = made.current;
  const erasure = Promise.withResolvers<undefined>();
  const receiver = await startReceiver({
    script: [{ kind: "answer", status: 500, body: `echo ${CANARY}`, after: erasure.promise }],
  });
  const { tenant, event, delivery } = await published(receiver);
  await receiver.waitFor(1);
  await world.events.erase(tenant, event, TEST_CALLER);
  erasure.resolve(undefined);
  await eventually(async () => {
    const { rows } = await world.sql.query(
      "SELECT response FROM attempts WHERE delivery_id = $1 AND status = 500 AND response IS NOT NULL",
      [delivery],
    );
    return rows.length === 1;
  }, "the outcome to be written");
  expect(await world.attempts(tenant, delivery)).toMatchObject([{ status: 500, response_body: null }]);
  expect(await rowsOf(event)).not.toContain(CANARY);
  expect(await world.deliveries.find(tenant, delivery)).toMatchObject({
    state: "CANCELLED",
    attempt_count: 0,
  });
  await receiver.close();
});

test("neither data nor a late response remains of an event that was stored as text", async () => {
  const world = made.current;
  const erasure = Promise.withResolvers<undefined>();
  const failure = { kind: "answer", status: 500, body: `echo ${CANARY}` } as const;
  const receiver = await startReceiver({
    script: ({ rawBody }) => (rawBody.includes(CANARY) ? { ...failure, after: erasure.promise } : failure),
  });
  const { tenant, event, delivery } = await published(receiver, {});
  await world.untilDelivery(tenant, delivery, ({ state }) => state === "RETRYING");
  // As earlier versions stored it.
  await world.sql.query("UPDATE events SET content = NULL, data = $2 WHERE id = $1", [
    event,
    JSON.stringify({ canary: CANARY }),
  ]);
  expect(await world.events.find(tenant, event)).toMatchObject({ data: JSON.stringify({ canary: CANARY }) });
  const withText = () => receiver.requests.findIndex(({ rawBody }) => rawBody.includes(CANARY)) + 1;
  await eventually(() => withText() > 0, "an attempt that sends the text");
  await world.events.erase(tenant, event, TEST_CALLER);
  erasure.resolve(undefined);
  await eventually(
    async () =>
      (await world.attempts(tenant, delivery)).some(
        ({ attempt, status }) => attempt === withText() && status === 500,
      ),
    "the outcome to be written",
  );
  const attempts = await world.attempts(tenant, delivery);
  expect(attempts).toHaveLength(withText());
  expect(attempts.map(({ response_body: responseBody }) => responseBody)).toEqual(attempts.map(() => null));
  expect(await rowsOf(event)).not.toContain(CANARY);
  await receiver.close();
});

test("an erasure before the first attempt affects only its own event, even in a commit with others", async () => {
  const world = made.current;
  await worker.close();
  const receiver = await startReceiver({});
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(
    Array.from({ length: 20 }, async (_, n) => await world.publish(tenant, { n })),
  );
  const erased = published[7];
  await world.events.erase(tenant, erased?.event.id ?? "", TEST_CALLER);
  worker = await world.startWorker();
  for (const {
    event,
    deliveries: [delivery],
  } of published) {
    const state = event === erased?.event ? "CANCELLED" : "DELIVERED";
    await world.untilDelivery(tenant, delivery?.id ?? "", (found) => found.state === state);
  }
  const numbers = receiver.requests.map(({ rawBody }) => JSON.parse(rawBody.toString()).data.n as number);
  expect(numbers.toSorted((one, other) => one - other)).toEqual(
    Array.from({ length: 20 }, (_, n) => n).filter((n) => n !== 7),
  );
  const page = await world.deliveries.list(tenant, { filter: {}, before: undefined, limit: 100 });
  expect(page.rows).toHaveLength(20);
  await receiver.close();
});

test("concurrent erasures and outcomes of the same deliveries all complete", async () => {
  const world = made.current;
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500, body: CANARY }] });
  const tenant = await world.createTenant();
  for (let count = 0; count < 5; count += 1) {
    await world.createEndpoint(tenant, receiver.url);
  }
  const published = await Promise.all(Array.from({ length: 20 }, async () => await world.publish(tenant)));
  await Promise.all(
    published.map(async ({ event }) => await world.events.erase(tenant, event.id, TEST_CALLER)),
  );
  const { rows: list } = await world.deliveries.list(tenant, { filter: {}, before: undefined, limit: 200 });
  expect(new Set(list.map(({ state }) => state))).toEqual(new Set(["CANCELLED"]));
  expect(list).toHaveLength(100);
  await receiver.close();
});
