import { afterEach, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import type { WorkerProcess } from "#processes/worker.ts";
import { breakWorkerConnections, startDatabase, stopDatabase } from "../support/database-outage.ts";
import { allowMinutes } from "../support/limits.ts";
import {
  type Behaviour,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from "../support/receiver-server.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(3);

const made = useWorld({ retryWindowMs: 20_000 });
const FAILURE: Behaviour = { kind: "answer", status: 500 };
let worker: WorkerProcess | undefined;

afterEach(async () => {
  await worker?.close();
  worker = undefined;
});

interface Stream {
  readonly tenant: string;
  readonly receiver: Receiver;
  readonly ids: string[];
  /** Publishes `count` more events. */
  readonly publish: (count: number) => Promise<void>;
  /** Returns the number of attempts with a recorded outcome. */
  readonly recorded: () => Promise<number>;
}

/** Opens a stream of events to one slow receiver. */
async function openStream(script: (request: ReceivedRequest) => Behaviour): Promise<Stream> {
  const world = made.current;
  const receiver = await startReceiver({ script });
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const ids: string[] = [];
  return {
    tenant,
    receiver,
    ids,
    publish: async (count) => {
      const published = await Promise.all(
        Array.from({ length: count }, async (_, index) => await world.publish(tenant, { index })),
      );
      ids.push(...published.map(({ deliveries }) => deliveries[0]?.id ?? ""));
    },
    recorded: async () => {
      const { rows } = await world.sql.query<{ count: number }>(
        `SELECT (SELECT count(*) FROM attempts WHERE tenant_id = $1 AND duration_ms IS NOT NULL)
          + (SELECT count(*) FROM deliveries WHERE tenant_id = $1 AND first_duration_ms IS NOT NULL) AS count`,
        [tenant],
      );
      return rows[0]?.count ?? 0;
    },
  };
}

const attemptOf = ({ headers }: ReceivedRequest): number => Number(headers["x-service-attempt"]);

/** Identifies a request by delivery and attempt. */
const named = (request: ReceivedRequest): string =>
  `${String(request.headers["x-service-delivery-id"])}/${attemptOf(request)}`;

async function untilDelivered({ tenant, ids }: Stream): Promise<Delivery[]> {
  return await Promise.all(
    ids.map(async (id) => await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED")),
  );
}

describe("a worker that is stopped and restarted in mid-schedule", () => {
  test("continues: nothing lost, nothing sent twice, no attempt before its time", async () => {
    const world = made.current;
    // Fails nine times: about 80 ms, then half a minute's schedule in small.
    const stream = await openStream((request) =>
      attemptOf(request) < 15 ? { ...FAILURE, delayMs: 30 } : { kind: "answer", delayMs: 30 },
    );
    await stream.publish(10);
    worker = await world.startWorker();
    for (const attempt of [3, 8, 12]) {
      await stream.receiver.waitFor(10 * attempt, 40_000);
      await worker.close();
      // A worker that has ended has written its results.
      const sent = stream.receiver.requests.length;
      expect(await stream.recorded()).toBe(sent);
      worker = await world.startWorker();
    }
    const delivered = await untilDelivered(stream);
    const requests = stream.receiver.requests.map(named);
    expect(requests).toHaveLength(10 * 15);
    expect(new Set(requests).size).toBe(10 * 15);
    for (const { id, attempt_count: attemptCount, cycle } of delivered) {
      expect({ attemptCount, cycle }).toEqual({ attemptCount: 15, cycle: 1 });
      const attempts = await world.attempts(stream.tenant, id);
      expect(attempts.map(({ attempt }) => attempt)).toEqual(
        Array.from({ length: 15 }, (_, index) => index + 1),
      );
      // Attempt 15 is due at a quarter of the window, less a tenth of the gap before it. The first may start late.
      const [first, last] = [attempts[0], attempts[14]].map((each) => each?.started_at.getTime() ?? 0);
      expect((last ?? 0) - (first ?? 0)).toBeGreaterThanOrEqual(20_000 / 4 - 250 - 2_000);
    }
    await stream.receiver.close();
  });

  test("completes and records a request in flight before it stops", async () => {
    const stream = await openStream(() => ({ kind: "answer", delayMs: 2_500 }));
    worker = await made.current.startWorker();
    await stream.publish(3);
    await stream.receiver.waitFor(3);
    await worker.close();
    expect(await stream.recorded()).toBe(3);
    worker = await made.current.startWorker();
    await untilDelivered(stream);
    expect(stream.receiver.requests).toHaveLength(3);
    await stream.receiver.close();
  });
});

describe("a database whose connections break while requests are in flight", () => {
  test("has no effect: each attempt is made and recorded once", async () => {
    const stream = await openStream((request) =>
      attemptOf(request) < 3 ? { ...FAILURE, delayMs: 200 } : { kind: "answer", delayMs: 200 },
    );
    worker = await made.current.startWorker();
    for (let round = 1; round <= 5; round += 1) {
      const before = stream.receiver.requests.length;
      await stream.publish(12);
      await stream.receiver.waitFor(before + 1);
      await breakWorkerConnections(made.current);
    }
    const delivered = await untilDelivered(stream);
    const requests = stream.receiver.requests.map(named);
    expect(new Set(requests).size).toBe(requests.length);
    for (const delivery of delivered) {
      expect(delivery).toMatchObject({ attempt_count: 3, cycle: 1 });
    }
    expect(await stream.recorded()).toBe(requests.length);
    expect(requests).toHaveLength(3 * stream.ids.length);
    await stream.receiver.close();
  });

  test("or that is unavailable for seconds: responses meanwhile are recorded afterwards, and sent once", async () => {
    const stream = await openStream(() => ({ kind: "answer", delayMs: 300 }));
    worker = await made.current.startWorker();
    await stream.publish(10);
    await stream.receiver.waitFor(1);
    await stopDatabase(made.current);
    const answered = stream.receiver.requests.length;
    // The engine retries meanwhile, for longer than a local activity lives.
    await new Promise((resolve) => {
      setTimeout(resolve, 6_500);
    });
    expect(stream.receiver.requests.length).toBeLessThanOrEqual(10);
    await startDatabase(made.current);
    await stream.publish(1);
    await untilDelivered(stream);
    const requests = stream.receiver.requests.map(named);
    expect(answered).toBeGreaterThan(0);
    expect(requests).toHaveLength(11);
    expect(await stream.recorded()).toBe(11);
    await stream.receiver.close();
  });
});
