/** Workers are notified of waiting grades, so they need not poll the database twice a second. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { listen } from "#database/listener.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { GRADES_CHANNEL, requeueGrade, takeGrade } from "#database/repositories/endpoints/endpoint-grades.ts";
import { unguardedClock } from "#domain/clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { GradeRunner } from "#webhooks/grader/grade-runner.ts";
import { GradeService } from "#webhooks/grader/grade-service.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "#test/support/eventually.ts";
import { useWorld } from "#test/support/world.ts";

const made = useWorld();
const log = createLogger({ level: "silent" });
const received: (string | undefined)[] = [];
let api: Pool;
let worker: Pool;
let stopListening: ReturnType<typeof listen>;
let grades: GradeService;

beforeAll(async () => {
  const { databaseUrl: url } = made.current.config;
  api = createPool({ url, role: "signet_api", max: 3, log });
  worker = createPool({ url, role: "signet_worker", max: 3, log });
  grades = new GradeService({ pool: api, clock: systemClock, randomBytes });
  stopListening = listen({
    timers: machineTimers,
    url,
    channels: { [GRADES_CHANNEL]: (payload) => received.push(payload) },
    log,
  });
  await eventually(() => received.length === 1, "the listener");
});

afterAll(async () => {
  await stopListening();
  await Promise.all([api.end(), worker.end()]);
});

/** Requests a grade for a new endpoint that is then disabled, so the grade ends without a request to the receiver. */
async function ask(): Promise<() => Promise<string>> {
  const world = made.current;
  const tenantId = await world.createTenant();
  const endpoint = await world.createEndpoint(tenantId, "http://127.0.0.1:19999/");
  const { id } = await grades.start(tenantId, endpoint.id);
  await world.sql.query("UPDATE endpoints SET state = 'DISABLED' WHERE id = $1", [endpoint.id]);
  return async () => (await grades.find(tenantId, endpoint.id, id)).state;
}

/** Creates a runner with only what a disabled endpoint's grade needs. */
function createRunner(pool: Pool): GradeRunner {
  return new GradeRunner({ pool, clock: unguardedClock(systemClock), log } as ConstructorParameters<
    typeof GradeRunner
  >[0]);
}

test("a new or requeued grade is announced", async () => {
  const before = received.length;
  await ask();
  await eventually(() => received.length === before + 1, "the notification of the new grade");
  const now = new Date();
  const taken = await takeGrade(worker, { now, leaseUntil: new Date(now.getTime() + 60_000), runsMax: 2 });
  expect(received).toHaveLength(before + 1);
  if (taken === undefined) {
    throw new Error("nothing was taken");
  }
  await requeueGrade(worker, taken);
  await eventually(() => received.length === before + 2, "the notification of the requeued grade");
});

test("one wake-up performs all waiting grades, at most four at once", async () => {
  const states = await Promise.all(Array.from({ length: 9 }, ask));
  const runner = createRunner(worker);
  runner.wake();
  for (const state of states) {
    await eventually(async () => (await state()) === "FAILED", "the end of a grade");
  }
  await runner.stop();
});

test("a wake-up during a query causes one more query, and one after the end causes none", async () => {
  let queries = 0;
  const counting = {
    query: async (query: { readonly name: string; readonly text: string; readonly values: unknown[] }) => {
      queries += query.name === "take-grade" ? 1 : 0;
      return await worker.query(query);
    },
  } as Pool;
  const runner = createRunner(counting);
  await Promise.all([runner.poll(), runner.poll(), runner.poll()]);
  await eventually(() => queries === 2, "the second query");
  await runner.stop();
  await runner.poll();
  expect(queries).toBe(2);
});
