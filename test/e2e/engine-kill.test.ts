import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import type { SpawnedProcess } from "../support/processes.ts";
import {
  type Behaviour,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from "../support/receiver-server.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(5);

const made = useWorld({ retryWindowMs: 1_000 });
const OK: Behaviour = { kind: "answer" };
const FAILURE: Behaviour = { kind: "answer", status: 500 };
const GROUP = 4;
/** Timeouts that distinguish a killed process from a slow one: workflow task, activity heartbeat. */
const TASK_TIMEOUT_MS = 4_000;
const TIMEOUT_MS = 120_000;

let worker: SpawnedProcess;

beforeAll(async () => {
  worker = await startWorkerProcess(made.current);
});

afterAll(async () => {
  await worker.stop();
});

/** Deliveries to a receiver that fails until a certain attempt, and holds that one until the worker is dead. */
interface Held {
  readonly attempt: number;
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly ids: readonly string[];
  /** Sets the behaviour for held and later requests. */
  readonly release: (behaviour: Behaviour) => void;
}

const attemptOf = ({ headers }: ReceivedRequest): number => Number(headers["x-service-attempt"]);
const deliveryOf = ({ headers }: ReceivedRequest): string => String(headers["x-service-delivery-id"]);

async function publishHeld(attempt: number): Promise<Held> {
  const world = made.current;
  let late: Behaviour = { kind: "hang" };
  const receiver = await startReceiver({
    script: (request) => (attemptOf(request) < attempt ? FAILURE : late),
  });
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(
    Array.from({ length: GROUP }, async (_, index) => await world.publish(tenant, { index })),
  );
  return {
    attempt,
    receiver,
    tenant,
    ids: published.map(({ deliveries }) => deliveries[0]?.id ?? ""),
    release: (behaviour) => {
      late = behaviour;
    },
  };
}

async function untilHeld({ receiver, attempt }: Held): Promise<void> {
  await receiver.waitFor(GROUP * attempt, TIMEOUT_MS);
}

/** Waits until the requests have been in flight for a second, and are leased in the database. */
async function untilLeased({ tenant, attempt }: Held): Promise<void> {
  await eventually(async () => {
    const { rows } = await made.current.sql.query(
      "SELECT id FROM attempts WHERE tenant_id = $1 AND attempt = $2 AND lease_until IS NOT NULL",
      [tenant, attempt],
    );
    return rows.length === GROUP;
  }, "the leases");
}

/** Returns the lease end of each delivery's killed attempt; null if it was younger than a second. */
async function killedAttempts({ tenant, ids, receiver, attempt }: Held): Promise<Map<string, Date | null>> {
  const leases = new Map<string, Date | null>();
  for (const id of ids) {
    const { rows } = await made.current.sql.query<{ lease_until: Date | null; duration_ms: number | null }>(
      "SELECT lease_until, duration_ms FROM attempts WHERE delivery_id = $1 AND attempt = $2 AND tenant_id = $3",
      [id, attempt, tenant],
    );
    expect(rows[0]?.duration_ms ?? null).toBeNull();
    leases.set(id, rows[0]?.lease_until ?? null);
  }
  expect(receiver.requests).toHaveLength(GROUP * attempt);
  return leases;
}

async function until(held: Held, state: Delivery["state"]): Promise<Delivery[]> {
  const { tenant, ids } = held;
  return await Promise.all(
    ids.map(
      async (id) =>
        await made.current.untilDelivery(tenant, id, (delivery) => delivery.state === state, TIMEOUT_MS),
    ),
  );
}

describe("a worker that is killed in the middle of attempts 1, 2 and 17", () => {
  test("loses none of them; each is repeated once, and only when no other process can be making it", async () => {
    const world = made.current;
    const last = await publishHeld(17);
    await untilHeld(last);
    const second = await publishHeld(2);
    await untilHeld(second);
    const first = await publishHeld(1);
    await untilHeld(first);
    const groups = [first, second, last];
    await untilLeased(last);

    await worker.stop("SIGKILL");
    const killedAt = Date.now();
    const leases = await Promise.all(groups.map(killedAttempts));
    first.release(OK);
    second.release(OK);
    last.release(FAILURE);
    worker = await startWorkerProcess(world);

    const ended = [
      ...(await until(first, "DELIVERED")).map((delivery) => ({ delivery, attempts: 1 })),
      ...(await until(second, "DELIVERED")).map((delivery) => ({ delivery, attempts: 2 })),
      ...(await until(last, "DEAD_LETTERED")).map((delivery) => ({ delivery, attempts: 17 })),
    ];
    for (const { delivery, attempts } of ended) {
      expect(delivery).toMatchObject({ attempt_count: attempts, cycle: 1 });
    }
    for (const [index, { attempt, receiver, tenant, ids }] of groups.entries()) {
      // No more duplicates than requests in flight.
      expect(receiver.requests).toHaveLength(GROUP * attempt + GROUP);
      for (const id of ids) {
        const again = receiver.requests.filter((request) => deliveryOf(request) === id).at(-1);
        const lease = leases[index]?.get(id)?.getTime() ?? 0;
        expect(again && attemptOf(again)).toBe(attempt);
        expect(again?.receivedAt).toBeGreaterThanOrEqual(Math.max(killedAt, lease));
        const attempts = await world.attempts(tenant, id);
        expect(attempts.map((each) => each.attempt)).toEqual(
          Array.from({ length: attempt }, (_, each) => each + 1),
        );
      }
      await receiver.close();
    }
  });

  test("has its unleased requests repeated only after the timeout that distinguishes it from a slow one", async () => {
    const world = made.current;
    const held = await publishHeld(2);
    await untilHeld(held);
    await worker.stop("SIGKILL");
    const leases = await killedAttempts(held);
    held.release(OK);
    worker = await startWorkerProcess(world);
    await until(held, "DELIVERED");
    for (const id of held.ids) {
      const [first, ...later] = held.receiver.requests.filter((request) => deliveryOf(request) === id);
      const lease = leases.get(id)?.getTime() ?? 0;
      // The killed attempt began after the first one.
      const timeoutAt = (first?.receivedAt ?? Number.NaN) + TASK_TIMEOUT_MS;
      expect(later.at(-1)?.receivedAt).toBeGreaterThanOrEqual(Math.max(lease, timeoutAt));
    }
    expect(held.receiver.requests).toHaveLength(GROUP * 3);
    await held.receiver.close();
  });
});

describe("a worker that is killed repeatedly under load", () => {
  test("loses nothing, and repeats no more than was in flight", async () => {
    const world = made.current;
    const receiver = await startReceiver({
      script: (request) => ({ kind: "answer", delayMs: Number(request.headers["x-service-attempt"]) * 50 }),
    });
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    const ids: string[] = [];
    let inFlight = 0;
    for (const kill of [1, 2, 3]) {
      const before = receiver.requests.length;
      for (let index = 0; index < 40; index += 1) {
        const { deliveries } = await world.publish(tenant, { kill, index });
        ids.push(deliveries[0]?.id ?? "");
      }
      await receiver.waitFor(before + 5, TIMEOUT_MS);
      await worker.stop("SIGKILL");
      await receiver.untilRead();
      inFlight += new Set(receiver.requests.map(deliveryOf)).size - (await recorded(tenant));
      worker = await startWorkerProcess(world);
    }
    for (const id of ids) {
      await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED", TIMEOUT_MS);
    }
    const repeated = receiver.requests.length - ids.length;
    expect(new Set(receiver.requests.map(deliveryOf))).toEqual(new Set(ids));
    expect(repeated).toBeLessThanOrEqual(inFlight);
    expect(await recorded(tenant)).toBe(ids.length);
    await receiver.close();
  });

  /** Counts attempts that have an outcome. */
  async function recorded(tenant: string): Promise<number> {
    const { rows } = await made.current.sql.query<{ count: number }>(
      `SELECT (SELECT count(*) FROM attempts WHERE tenant_id = $1 AND duration_ms IS NOT NULL)
          + (SELECT count(*) FROM deliveries WHERE tenant_id = $1 AND first_duration_ms IS NOT NULL) AS count`,
      [tenant],
    );
    return rows[0]?.count ?? 0;
  }
});
