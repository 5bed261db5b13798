/** Timestamps from a wrong clock become due within a minute after the clock is right again. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { beforeAll, expect, test } from "vitest";
import { utcDay } from "#domain/ids.ts";
import { createPool } from "#database/pool.ts";
import { claimFirst, findUnstartedLists, reclaimUnstarted } from "#database/repositories/webhooks/claims.ts";
import { claimForEndpoints } from "#database/repositories/webhooks/list-claims.ts";
import { takeNotices } from "#database/repositories/webhooks/dead-letter-counts.ts";
import { takeGrade } from "#database/repositories/endpoints/endpoint-grades.ts";
import {
  takeHostPing,
  takeWantedVerifications,
} from "#database/repositories/endpoints/endpoint-verifications.ts";
import { bringBackCycles, bringBackInstants } from "#database/repositories/webhooks/future-instants.ts";
import { beatWorker, readHealth, writeHealth } from "#database/repositories/health.ts";
import { claimAnswer } from "#database/repositories/idempotent-answers.ts";
import { takeSilentJobs } from "#database/repositories/webhooks/replay-jobs.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { GradeService } from "#webhooks/grader/grade-service.ts";
import { createLogger } from "#observability/logger.ts";
import { useStarted } from "#test/support/started.ts";
import { type TestEndpoint, useWorld } from "#test/support/world.ts";

const DAY_MS = 86_400_000;
const MINUTE_MS = 60_000;
/** A limit above every lease, even one with a wrong timestamp. */
const GRADE_LEASE_MS = 150_000;

// No worker: the test performs the workers' steps, with its own clocks.
const made = useWorld();
const pools = useStarted("pools", async () => {
  const { databaseUrl: url } = made.current.config;
  const log = createLogger({ level: "silent" });
  const worker = createPool({ url, role: "signet_worker", max: 2, log });
  const api = createPool({ url, role: "signet_api", max: 2, log });
  return { worker, api, close: async () => void (await Promise.all([worker.end(), api.end()])) };
});

/** Mostly a few minutes, sometimes months. */
const jumps = fc.oneof(
  fc.integer({ min: -12 * MINUTE_MS, max: 12 * MINUTE_MS }),
  fc.integer({ min: -400 * DAY_MS, max: 400 * DAY_MS }),
);

let tenant: string;
let endpoints: readonly TestEndpoint[];
let gradeId: string;
let jobId: string;

async function sql(text: string, values: readonly unknown[] = []): Promise<void> {
  await made.current.sql.query(text, [...values]);
}

beforeAll(async () => {
  const world = made.current;
  tenant = await world.createTenant();
  endpoints = [
    await world.createEndpoint(tenant, "http://127.0.0.1:1/one", ["one"]),
    await world.createEndpoint(tenant, "http://127.0.0.1:1/other", ["other"]),
  ];
  const grades = new GradeService({ pool: pools.current.api, clock: systemClock, randomBytes });
  ({ id: gradeId } = await grades.start(tenant, endpoints[0]?.id ?? ""));
  const [letter] = (await world.publish(tenant, {}, "one")).deliveries;
  await sql(
    "UPDATE deliveries SET state = 'DEAD_LETTERED', dead_lettered_at = now(), expires_at = now() + interval '1 day' WHERE id = $1",
    [letter?.id],
  );
  ({ id: jobId } = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 1 }));
  await sql("DELETE FROM deliveries");
});

/** Writes every timestamp of workers and apis with a wrong clock. */
async function stamp(wrong: Date): Promise<void> {
  const { worker } = pools.current;
  const world = made.current;
  const [one, other] = endpoints;
  const after = (ms: number): Date => new Date(wrong.getTime() + ms);
  const anyTime = new Date(Date.now() + 1_000 * DAY_MS);
  // Left by the previous run, which may have failed.
  await sql(
    "DELETE FROM deliveries; DELETE FROM unstarted_lists; DELETE FROM workers; DELETE FROM pinged_hosts; DELETE FROM idempotent_answers; DELETE FROM dead_letter_notices",
  );
  await sql("UPDATE endpoints SET state = 'ACTIVE', verification_state = 'VERIFIED'");
  await world.publish(tenant, {}, "one");
  const { deliveries } = await world.publish(tenant, {}, "one");
  await world.publish(tenant, {}, "other");
  await claimForEndpoints(worker, {
    endpointIds: [other?.id ?? ""],
    sharedBelow: 0,
    carriers: ["bat_other"],
    listMax: 10,
    worker: "gone",
    now: wrong,
  });
  await claimFirst(worker, {
    days: [utcDay(Date.now())],
    atLeast: 1,
    limit: 10,
    carrier: "bat_one",
    alone: true,
    exceptEndpoints: [],
    exceptTenants: [],
    afterTenant: "",
    afterDelivery: "",
    worker: "gone",
    now: wrong,
  });
  await sql(
    "UPDATE deliveries SET state = 'RETRYING', cycle_started_at = $2, next_attempt_at = $3, attempt_count = 1 WHERE id = $1",
    [deliveries[0]?.id, wrong, after(1_000)],
  );
  await sql("UPDATE endpoint_grades SET state = 'QUEUED', runs = 0, lease_until = NULL WHERE id = $1", [
    gradeId,
  ]);
  expect(
    await takeGrade(worker, { now: wrong, leaseUntil: after(GRADE_LEASE_MS), runsMax: 2 }),
  ).toBeDefined();
  expect(await takeSilentJobs(worker, { before: anyTime, now: wrong, limit: 9 })).toHaveLength(1);
  await sql("UPDATE endpoints SET state = 'PENDING', verification_state = 'WANTED' WHERE id = $1", [one?.id]);
  expect(await takeWantedVerifications(worker, { before: anyTime, now: wrong, limit: 9 })).toHaveLength(1);
  await beatWorker(worker, { id: "gone", now: wrong, deadBefore: after(-6_000) });
  await writeHealth(worker, [
    { endpointId: one?.id ?? "", latencyMs: 1, slowUntilMs: after(MINUTE_MS).getTime() },
  ]);
  await takeHostPing(worker, "host.example", { now: wrong, since: after(-MINUTE_MS), max: 1 });
  await sql(
    "INSERT INTO dead_letter_notices (kind, tenant_id, endpoint_id, bucket, letters, ids, due_at) VALUES ('dead_lettered', $1, $2, $3, 1, '{}', $4)",
    [tenant, one?.id, wrong, after(65_000)],
  );
  await answer(wrong);
}

/** Claims an idempotency key and never answers; returns the stored answer, if any. */
async function answer(now: Date): Promise<unknown> {
  return await tenantTransaction(
    pools.current.api,
    tenant,
    async (db) =>
      await claimAnswer(db, {
        ownerId: tenant,
        route: "POST /v1/webhooks/endpoints",
        keyDigest: Buffer.alloc(32, 1),
        bodyHash: Buffer.alloc(32, 2),
        now,
        forgetBefore: new Date(now.getTime() - DAY_MS),
        abandonedBefore: new Date(now.getTime() - MINUTE_MS),
      }),
  );
}

/** Returns what is due for a process with the right time. */
async function dueAt(nowMs: number) {
  const { worker } = pools.current;
  const now = new Date(nowMs);
  const before = (ms: number): Date => new Date(nowMs - ms);
  const { rows } = await made.current.sql.query<{ count: number }>(
    "SELECT count(*)::int AS count FROM deliveries WHERE state = 'RETRYING' AND next_attempt_at <= $1",
    [now],
  );
  return {
    retries: rows[0]?.count,
    claims: (await reclaimUnstarted(worker, { before: before(15_000), now, limit: 10 })).length,
    lists: (
      await findUnstartedLists(worker, { worker: "gone", except: [], openedBefore: before(10_000), limit: 9 })
    ).map(({ members }) => members.length),
    // A correct lease lasts as long as a grade.
    grade:
      (await takeGrade(worker, { now: before(-GRADE_LEASE_MS), leaseUntil: now, runsMax: 2 })) !== undefined,
    replays: (await takeSilentJobs(worker, { before: before(15_000), now, limit: 9 })).map(({ id }) => id),
    verifications: (await takeWantedVerifications(worker, { before: before(10_000), now, limit: 9 })).length,
    liveWorkers: (await beatWorker(worker, { id: "here", now, deadBefore: before(6_000) })).live,
    slow: (await readHealth(worker, before(-MINUTE_MS))).length,
    pinged: await takeHostPing(worker, "host.example", {
      now: before(-MINUTE_MS),
      since: now,
      max: 1,
    }),
    notices: (await takeNotices(worker, { now: before(-65_000), limit: 9 })).length,
    // Taken over at once, or after the longest possible request with a correct timestamp.
    answer: (await answer(before(MINUTE_MS))) && (await answer(before(-31_000))),
  };
}

test("after any clock error, everything is due a minute after the clock is right", async () => {
  await fc.assert(
    fc.asyncProperty(jumps, async (jump) => {
      const nowMs = Date.now();
      await stamp(new Date(nowMs + jump));

      await bringBackInstants(pools.current.worker, nowMs);
      await bringBackCycles(pools.current.worker, nowMs);

      expect(await dueAt(nowMs + MINUTE_MS)).toEqual({
        retries: 1,
        claims: 1,
        lists: [2],
        grade: true,
        replays: [jobId],
        verifications: 1,
        liveWorkers: 1,
        slow: 0,
        pinged: true,
        notices: 1,
        answer: undefined,
      });
    }),
    { numRuns: 40, examples: [[600_000], [-600_000], [29_000], [31_000], [300 * DAY_MS]] },
  );
});

test("plausible timestamps remain unchanged", async () => {
  await stamp(new Date(Date.now() + 5_000));
  expect(await bringBackInstants(pools.current.worker, Date.now())).toBe(0);
  expect(await bringBackCycles(pools.current.worker, Date.now())).toBe(0);
});
