/** A worker process whose wall clock jumps while events flow. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { createJumpingClock, type JumpingClock } from "../support/jumping-clock.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import { type ReceivedRequest, startReceiver } from "../support/receiver-server.ts";
import { useStarted } from "../support/started.ts";
import { startWorkerProcess, type WorkerProcessUnderTest } from "../support/worker-process.ts";
import { useWorld } from "../support/world.ts";

allowMinutes(8);

const made = useWorld({ retryWindowMs: 20_000 });
const JUMP_MS = 600_000;
const EVERY_MS = 100;
/** Number of events published while the clock is wrong, in each direction. */
const MEANWHILE = 20;
/** The guarantee. */
const FLOWS_WITHIN_MS = 60_000;
/** Allows for a request that waited for its connection, and for a truncated second. */
const TIMESTAMP_MAX_MS = 10_000;

const started = useStarted("a worker with its own clock", async () => {
  const directory = await mkdtemp(join(tmpdir(), "signet-clock-"));
  const clock = await createJumpingClock(directory);
  const worker = await startWorkerProcess(made.current, { ...clock.environment, SIGNET_LOG_LEVEL: "info" });
  return {
    clock,
    worker,
    close: async () => {
      await worker.stop();
      await rm(directory, { recursive: true });
    },
  };
});

async function untilSkewed({ metricsUrl }: WorkerProcessUnderTest, seconds: number): Promise<void> {
  await eventually(async () => {
    const text = await (await fetch(`${metricsUrl}/metrics`)).text();
    const skew = Number(/^signet_clock_skew_seconds(?:\{[^}]*\})? (\S+)$/m.exec(text)?.[1]);
    const { status } = await fetch(`${metricsUrl}/readyz`);
    return Math.abs(skew - seconds) < 2 && status === (seconds === 0 ? 200 : 503);
  }, `the worker to report that its clock is ${seconds} s ahead`);
}

function timestampDistance({ headers, receivedAt }: ReceivedRequest): number {
  return Math.abs(Number(headers["webhook-timestamp"]) * 1_000 - receivedAt);
}

/** Publishes until stopped; resolves with the deliveries. */
function publishAllTheTime(tenant: string) {
  const ids: string[] = [];
  const stopping = new AbortController();
  const loop = (async () => {
    while (!stopping.signal.aborted) {
      const { deliveries } = await made.current.publish(tenant, { number: ids.length });
      ids.push(...deliveries.map(({ id }) => id));
      await delay(EVERY_MS);
    }
  })();
  return {
    ids,
    stop: async () => {
      stopping.abort();
      await loop;
    },
  };
}

async function makeWrong(
  { clock, worker }: { readonly clock: JumpingClock; readonly worker: WorkerProcessUnderTest },
  ids: readonly string[],
  offsetMs: number,
): Promise<void> {
  await clock.jump(offsetMs);
  await untilSkewed(worker, offsetMs / 1_000);
  const before = ids.length;
  await eventually(() => ids.length >= before + MEANWHILE, "events while the clock is wrong");
}

/** Lets the clock jump while events flow. Checks what is sent meanwhile, and when everything flows again. */
async function expectFlow(): Promise<void> {
  const world = made.current;
  const { clock, worker } = started.current;
  const failsAtFirst = await startReceiver({
    script: ({ headers }) => ({ kind: "answer", status: headers["x-service-attempt"] === "1" ? 500 : 200 }),
  });
  const healthy = await startReceiver();
  onTestFinished(async () => void (await Promise.all([failsAtFirst.close(), healthy.close()])));
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, failsAtFirst.url);
  await world.createEndpoint(tenant, healthy.url);
  const publishing = publishAllTheTime(tenant);
  onTestFinished(async () => await publishing.stop());
  await healthy.waitFor(5);

  await makeWrong(started.current, publishing.ids, JUMP_MS);
  const sent = healthy.requests.length;
  await makeWrong(started.current, publishing.ids, -JUMP_MS);
  // Only requests in flight when the clock jumped.
  expect(healthy.requests.length).toBeLessThanOrEqual(sent + 1);
  await publishing.stop();
  await clock.jump(0);
  const rightAt = performance.now();
  await eventually(
    async () => {
      const { rows } = await world.sql.query<{ left: number }>(
        "SELECT count(*)::int AS left FROM deliveries WHERE tenant_id = $1 AND state <> 'DELIVERED'",
        [tenant],
      );
      return rows[0]?.left === 0;
    },
    "every delivery",
    FLOWS_WITHIN_MS * 2,
  );

  expect(performance.now() - rightAt).toBeLessThan(FLOWS_WITHIN_MS);
  await untilSkewed(worker, 0);
  const requests = [...failsAtFirst.requests, ...healthy.requests];
  expect(Math.max(...requests.map(timestampDistance))).toBeLessThan(TIMESTAMP_MAX_MS);
}

test("nothing is signed with a wrong time, and all deliveries flow within a minute of the clock's correction", async () => {
  const { clock, worker } = started.current;
  await withoutPause(async () => {
    await clock.jump(0);
    await untilSkewed(worker, 0);
    await expectFlow();
  });
  expect(worker.output()).toContain("signs and claims nothing until it is right");
});
