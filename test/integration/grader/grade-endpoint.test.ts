/** Grades from request to report: one at a time, only for endpoints that agreed, and none is lost. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import type { Grade } from "#database/repositories/endpoints/endpoint-grades.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { newId } from "#domain/ids.ts";
import type { GradeReport } from "#webhooks/grader/grade.ts";
import { GradeService } from "#webhooks/grader/grade-service.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  acceptWithLibrary,
  type Handler,
  processing,
  type ReceiverRequest,
  startReceiver,
} from "#test/support/graded-receiver.ts";
import { TEST_CALLER, type TestEndpoint, useWorld } from "#test/support/world.ts";

const made = useWorld();
const TIMEOUT_MS = 240_000;
let pool: Pool;
let grades: GradeService;

beforeAll(() => {
  const log = createLogger({ level: "error" });
  pool = createPool({ url: made.current.config.databaseUrl, role: "signet_api", max: 3, log });
  grades = new GradeService({ pool, clock: systemClock, randomBytes });
});

afterAll(async () => {
  await pool.end();
});

interface Subject {
  readonly endpoint: TestEndpoint;
  readonly requests: ReceiverRequest[];
  readonly start: () => Promise<Grade>;
  readonly until: (id: string, wanted: (grade: Grade) => boolean) => Promise<Grade>;
  readonly close: () => Promise<void>;
}

/** Creates an ACTIVE endpoint with a correct receiver, which calls `first` before it answers. */
async function subject(first: (index: number) => Promise<unknown> = async () => undefined): Promise<Subject> {
  const world = made.current;
  const requests: ReceiverRequest[] = [];
  let handle: Handler = () => ({ status: 500 });
  const receiver = await startReceiver(async (request) => {
    requests.push(request);
    await first(requests.length);
    return await handle(request);
  });
  const tenantId = await world.createTenant();
  const endpoint = await world.createEndpoint(tenantId, receiver.url);
  handle = processing(acceptWithLibrary(endpoint.secret));
  return {
    endpoint,
    requests,
    start: async () => await grades.start(tenantId, endpoint.id),
    until: async (id, wanted) =>
      await eventually(
        async () => {
          const grade = await grades.find(tenantId, endpoint.id, id);
          return wanted(grade) ? grade : undefined;
        },
        `grade ${id}`,
        TIMEOUT_MS - 60_000,
      ),
    close: async () => await receiver.close(),
  };
}

const ended = ({ state }: Grade): boolean => state === "COMPLETED" || state === "FAILED";

async function insertLost({ id, tenantId }: TestEndpoint, runs: number): Promise<string> {
  const grade = newId("grade", Date.now(), randomBytes);
  await made.current.sql.query(
    `INSERT INTO endpoint_grades (id, tenant_id, endpoint_id, state, runs, lease_until, created_at)
      VALUES ($1, $2, $3, 'RUNNING', $4, now() - interval '1 s', now())`,
    [grade, tenantId, id, runs],
  );
  return grade;
}

describe("a grade", () => {
  test("can be requested only for ACTIVE endpoints, one at a time and 12 an hour", async () => {
    const { endpoint, start, close } = await subject();
    const { sql } = made.current;
    await sql.query("UPDATE endpoints SET state = 'PENDING' WHERE id = $1", [endpoint.id]);
    await expect(start()).rejects.toMatchObject({ code: "INVALID_STATE" });
    await sql.query("UPDATE endpoints SET state = 'ACTIVE' WHERE id = $1", [endpoint.id]);
    const both = await Promise.allSettled([start(), start()]);
    expect(both.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    await expect(start()).rejects.toMatchObject({ code: "INVALID_STATE" });
    const end = "UPDATE endpoint_grades SET state = 'FAILED', failure = 'interrupted' WHERE endpoint_id = $1";
    await sql.query(end, [endpoint.id]);
    for (let count = 1; count < 12; count += 1) {
      await start();
      await sql.query(end, [endpoint.id]);
    }
    await expect(start()).rejects.toMatchObject({ code: "RATE_LIMITED" });
    await close();
  });

  test(
    "is performed by a worker and contains nothing that the receiver wrote",
    async () => {
      const progress: unknown[] = [];
      const { endpoint, start, until, requests, close } = await subject(async () => {
        const { rows } = await made.current.sql.query<{ checks_made: number }>(
          "SELECT checks_made FROM endpoint_grades WHERE endpoint_id = $1",
          [endpoint.id],
        );
        progress.push(...rows.map((row) => row.checks_made));
      });
      const worker = await made.current.startWorker();
      const { id } = await start();
      const grade = await until(id, ended);
      expect(progress).toEqual(requests.map((_request, index) => index));
      expect(grade).toMatchObject({ state: "COMPLETED", failure: null });
      const report = JSON.parse(grade.report ?? "null") as GradeReport;
      expect(report).toMatchObject({ score: 100, findings: [], not_observed: [] });
      expect(grade.report).not.toContain("processed");
      expect(requests).toHaveLength(report.checks.length);
      const place = { before: null, limit: 10 };
      expect(await grades.list(endpoint.tenantId, endpoint.id, place)).toMatchObject([
        { id, state: "COMPLETED", score: 100 },
      ]);
      const second = await start();
      expect((await grades.list(endpoint.tenantId, endpoint.id, place)).map((one) => one.id)).toEqual([
        second.id,
        id,
      ]);
      expect(await grades.list(endpoint.tenantId, endpoint.id, { ...place, before: second.id })).toHaveLength(
        1,
      );
      await worker.close();
      await close();
    },
    TIMEOUT_MS,
  );

  test(
    "ends when its endpoint is disabled, without further requests",
    async () => {
      const { endpoint, start, until, requests, close } = await subject(async (index) => {
        if (index === 2) {
          await made.current.endpoints.disable(endpoint.tenantId, endpoint.id, TEST_CALLER);
        }
      });
      const worker = await made.current.startWorker();
      const { id } = await start();
      expect(await until(id, ended)).toMatchObject({
        state: "FAILED",
        failure: "endpoint_not_active",
        report: null,
      });
      expect(requests).toHaveLength(2);
      await worker.close();
      await close();
    },
    TIMEOUT_MS,
  );

  test(
    "is taken over when its worker stops",
    async () => {
      let reached = (): void => undefined;
      const third = new Promise<void>((resolve) => {
        reached = resolve;
      });
      const { start, until, close } = await subject(async (index) => {
        if (index === 3) {
          reached();
        }
      });
      const first = await made.current.startWorker();
      const { id } = await start();
      await third;
      await first.close();
      expect(await until(id, () => true)).toMatchObject({ state: "QUEUED" });
      const second = await made.current.startWorker();
      expect(await until(id, ended)).toMatchObject({ state: "COMPLETED" });
      await second.close();
      await close();
    },
    TIMEOUT_MS,
  );

  test(
    "that a worker has lost is repeated once, and is FAILED if it is lost again",
    async () => {
      const once = await subject();
      const twice = await subject();
      const lostOnce = await insertLost(once.endpoint, 1);
      const lostTwice = await insertLost(twice.endpoint, 2);
      const worker = await made.current.startWorker();
      expect(await once.until(lostOnce, ended)).toMatchObject({ state: "COMPLETED" });
      expect(await twice.until(lostTwice, ended)).toMatchObject({ state: "FAILED", failure: "interrupted" });
      expect(twice.requests).toEqual([]);
      await worker.close();
      await Promise.all([once.close(), twice.close()]);
    },
    TIMEOUT_MS,
  );
});
