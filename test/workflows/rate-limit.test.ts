import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import type { SpawnedProcess } from "../support/processes.ts";
import {
  type Behaviour,
  type ReceivedRequest,
  type Receiver,
  startReceiver,
} from "../support/receiver-server.ts";
import { useStarted } from "../support/started.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

allowMinutes(6);

const made = useWorld();
const RATE = 20;
const EVENTS = 200;
const TOGETHER = 4;
/** Time that the line needs for all events, from the first to the last. */
const LINE_MS = ((EVENTS - 1) * 1_000) / RATE;
const TIMEOUT_MS = 90_000;
/** Requests can bunch up, because the receiver shares the machine; over five seconds that is little. */
const JITTER = 10;

const receivers: Receiver[] = [];
const workers: SpawnedProcess[] = [];

afterAll(async () => {
  await Promise.all(workers.map(async (worker) => await worker.stop()));
  await Promise.all(receivers.map(async (receiver) => await receiver.close()));
});

async function receiver(script?: (request: ReceivedRequest) => Behaviour): Promise<Receiver> {
  const started = await startReceiver(script === undefined ? {} : { script });
  receivers.push(started);
  return started;
}

async function limited(tenant: string, url: string, rateLimit: number | null): Promise<string> {
  const { id } = await made.current.createEndpoint(tenant, url);
  await setLimit(tenant, id, rateLimit);
  return id;
}

async function setLimit(tenant: string, id: string, rateLimit: number | null): Promise<void> {
  await made.current.endpoints.update(tenant, id, { rate_limit: rateLimit }, TEST_CALLER);
}

/** Publishes a few events concurrently, as producers do. */
async function publishAll(tenant: string, count = EVENTS): Promise<void> {
  for (let from = 0; from < count; from += TOGETHER) {
    await Promise.all(
      Array.from({ length: TOGETHER }, async (_, index) => await made.current.publish(tenant, { index })),
    );
  }
}

const deliveryOf = ({ headers }: ReceivedRequest): string => String(headers["x-service-delivery-id"]);

function arrivals(requests: readonly ReceivedRequest[]): number[] {
  return requests.map((request) => request.receivedAt).toSorted((a, b) => a - b);
}

/** Returns the highest number of arrivals within any `seconds` seconds. */
function mostIn(seconds: number, requests: readonly ReceivedRequest[]): number {
  const at = arrivals(requests);
  let from = 0;
  return Math.max(
    ...at.map((instant, index) => {
      while ((at[from] ?? 0) <= instant - seconds * 1_000) {
        from += 1;
      }
      return index - from + 1;
    }),
  );
}

/** Returns the bound of `mostIn`. Instants are exact, but each late worker catches up at 1.1 times the limit. */
function boundOf(workerCount: number, seconds: number): number {
  return workerCount * 1.1 * RATE * seconds + JITTER;
}

function tookMs(requests: readonly ReceivedRequest[]): number {
  const at = arrivals(requests);
  return (at.at(-1) ?? 0) - (at[0] ?? 0);
}

async function untilDelivered(tenant: string, endpoint: string, count = EVENTS): Promise<void> {
  await eventually(
    async () => {
      const { rows } = await made.current.sql.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM deliveries
          WHERE tenant_id = $1 AND endpoint_id = $2 AND state = 'DELIVERED' AND attempt_count = 1`,
        [tenant, endpoint],
      );
      return rows[0]?.n === count;
    },
    `${count} deliveries on their first attempt`,
    TIMEOUT_MS,
  );
}

describe.concurrent("an endpoint with a rate limit, and a worker", () => {
  const FEW = 40;
  useStarted("the worker", async () => await made.current.startWorker());

  test("gets its deliveries at that rate, each once and on its first attempt, while another endpoint gets them at once", async () => {
    const world = made.current;
    await withoutPause(async () => {
      const tenant = await world.createTenant();
      const [slow, fast] = [await receiver(), await receiver()];
      const endpoint = await limited(tenant, slow.url, RATE);
      await limited(tenant, fast.url, null);

      await publishAll(tenant);
      await fast.waitFor(EVENTS, TIMEOUT_MS);
      expect(slow.requests.length).toBeLessThan(EVENTS);

      await slow.waitFor(EVENTS, TIMEOUT_MS);
      await untilDelivered(tenant, endpoint);
      expect(slow.requests).toHaveLength(EVENTS);
      expect(mostIn(5, slow.requests)).toBeLessThanOrEqual(boundOf(1, 5));
      expect(tookMs(slow.requests)).toBeGreaterThan(0.9 * LINE_MS);
    });
  });

  test("that is lifted gets its waiting deliveries in a fraction of the line's time", async () => {
    const world = made.current;
    await withoutPause(async () => {
      const tenant = await world.createTenant();
      const slow = await receiver();
      const endpoint = await limited(tenant, slow.url, 1);
      await publishAll(tenant, 2 * FEW);
      await slow.waitFor(3, TIMEOUT_MS);
      await setLimit(tenant, endpoint, null);
      await slow.waitFor(2 * FEW, TIMEOUT_MS);
      await untilDelivered(tenant, endpoint, 2 * FEW);
      expect(slow.requests).toHaveLength(2 * FEW);
      // The last poll of the line comes after a quarter of its time.
      expect(tookMs(slow.requests)).toBeLessThan(0.6 * 2 * FEW * 1_000);
    });
  });

  test("gets retries at its rate too; waiting uses up no attempt", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    const seen = new Set<string>();
    const slow = await receiver((request) => {
      const status = seen.has(deliveryOf(request)) ? 200 : 503;
      seen.add(deliveryOf(request));
      return { kind: "answer", status };
    });
    await limited(tenant, slow.url, RATE);
    await publishAll(tenant, FEW);
    await slow.waitFor(2 * FEW, TIMEOUT_MS);
    await eventually(async () => {
      const { rows } = await world.sql.query<{ n: number }>(
        `SELECT count(*)::int AS n FROM deliveries
          WHERE tenant_id = $1 AND state = 'DELIVERED' AND attempt_count = 2`,
        [tenant],
      );
      return rows[0]?.n === FEW;
    }, "every delivery on its second attempt");
    expect(slow.requests).toHaveLength(2 * FEW);
    expect(tookMs(slow.requests)).toBeGreaterThan((0.9 * (2 * FEW - 1) * 1_000) / (1.1 * RATE));
  });
});

describe("an endpoint with a rate limit, and two workers", () => {
  async function runTwoWorkers(): Promise<void> {
    while (workers.length < 2) {
      workers.push(await startWorkerProcess(made.current));
    }
  }
  beforeAll(runTwoWorkers);

  test("gets its deliveries at that rate from both together", async () => {
    const world = made.current;
    await withoutPause(async () => {
      const tenant = await world.createTenant();
      const slow = await receiver();
      const endpoint = await limited(tenant, slow.url, RATE);
      await publishAll(tenant);
      await slow.waitFor(EVENTS, TIMEOUT_MS);
      await untilDelivered(tenant, endpoint);
      expect(slow.requests).toHaveLength(EVENTS);
      expect(mostIn(1, slow.requests)).toBeLessThanOrEqual(boundOf(2, 1));
      expect(tookMs(slow.requests)).toBeGreaterThan(0.9 * LINE_MS);
    });
  });

  test("gets all of them, at no more than twice that rate, when one is killed in the middle", async () => {
    const world = made.current;
    await withoutPause(async () => {
      await runTwoWorkers();
      const tenant = await world.createTenant();
      const slow = await receiver();
      const endpoint = await limited(tenant, slow.url, RATE);
      await publishAll(tenant);
      await slow.waitFor(EVENTS / 4, TIMEOUT_MS);
      await workers.pop()?.stop("SIGKILL");
      await eventually(
        () => new Set(slow.requests.map(deliveryOf)).size === EVENTS,
        "every delivery",
        TIMEOUT_MS,
      );
      await untilDelivered(tenant, endpoint);
      expect(mostIn(1, slow.requests)).toBeLessThanOrEqual(boundOf(2, 1));
    });
  });
});
