import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import {
  type AttemptOutcome,
  loadForAttempt,
  recordInFlight,
} from "#database/repositories/webhooks/attempts.ts";
import { Recorder } from "#webhooks/engine/recorder.ts";
import { isId, newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { startDatabase, stopDatabase } from "../support/database-outage.ts";
import { eventually } from "../support/eventually.ts";
import { useWorld } from "../support/world.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

// Outcomes are written one by one, so list sizes do not matter.
const made = useWorld();
const log = createLogger({ level: "silent" });
const STARTED = new Date(1_800_000_000_000);
let pool: Pool;
let recorder: Recorder;
let tenant: string;
const waits: number[] = [];

beforeAll(async () => {
  pool = createPool({ url: made.current.config.databaseUrl, role: "signet_worker", max: 4, log });
  tenant = await made.current.createTenant();
  await made.current.createEndpoint(tenant, "http://127.0.0.1:1");
  recorder = new Recorder({
    pool,
    log,
    timers: {
      ...machineTimers,
      sleep: async (ms) => {
        waits.push(ms);
        await delay(1);
        if (waits.length === 3) {
          await startDatabase(made.current);
        }
      },
    },
  });
});

afterAll(async () => {
  await pool.end();
});

/** Creates a delivery in progress, with the outcome of its first attempt. */
async function underWay(more: Partial<AttemptOutcome> = {}): Promise<AttemptOutcome> {
  const { deliveries } = await made.current.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  await made.current.sql.query("UPDATE deliveries SET carrier = id WHERE id = $1", [id]);
  return {
    attemptId: newId("attempt", Date.now(), randomBytes),
    deliveryId: id,
    tenantId: tenant,
    carrier: id,
    epoch: 1,
    cycle: 1,
    attempt: 1,
    startedAt: STARTED,
    durationMs: 12,
    status: 500,
    error: "status",
    responseBody: null,
    nextState: "RETRYING",
    nextAttemptAt: new Date(STARTED.getTime() + 7_000),
    endedAt: new Date(STARTED.getTime() + 12),
    expiresAt: null,
    leaves: false,
    ...more,
  };
}

describe("an outcome", () => {
  test("is written with the resulting state", async () => {
    const outcome = await underWay();
    expect(await recorder.outcome(outcome)).toBe(true);
    const delivery = await made.current.deliveries.find(tenant, outcome.deliveryId);
    expect(delivery).toMatchObject({
      state: "RETRYING",
      attempt_count: 1,
      last_status: 500,
      last_error: "status",
    });
    expect(delivery.next_attempt_at).toEqual(outcome.nextAttemptAt);
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toMatchObject([
      { id: outcome.attemptId, attempt: 1, started_at: STARTED, duration_ms: 12, status: 500 },
    ]);
  });

  test("is kept when a second one arrives, which is rejected", async () => {
    const outcome = await underWay();
    const later = {
      ...outcome,
      status: 200,
      error: null,
      nextState: "DELIVERED",
      nextAttemptAt: null,
    } as const;
    expect(await recorder.outcome(outcome)).toBe(true);
    expect(await recorder.outcome(later)).toBe(false);
    expect(await made.current.deliveries.find(tenant, outcome.deliveryId)).toMatchObject({
      state: "RETRYING",
    });
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toMatchObject([{ status: 500 }]);
  });

  test("is kept even if both arrive in one statement, without delaying others", async () => {
    const [outcome, other] = [await underWay(), await underWay()];
    const later = { ...outcome, status: 503 };
    const written = [outcome, later, other].map(async (each) => await recorder.outcome(each));
    expect(await Promise.all(written)).toEqual([true, false, true]);
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toMatchObject([{ status: 500 }]);
  });

  test("is written without its body if the database cannot store that, and so are its neighbours", async () => {
    const bad = await underWay({ responseBody: "a\u0000b" });
    const good = await underWay({ responseBody: "ab" });
    const written = [bad, good].map(async (each) => await recorder.outcome(each));
    expect(await Promise.all(written)).toEqual([true, true]);
    expect(await made.current.attempts(tenant, bad.deliveryId)).toMatchObject([
      { status: 500, response_body: null },
    ]);
    expect(await made.current.attempts(tenant, good.deliveryId)).toMatchObject([{ response_body: "ab" }]);
  });

  test("changes no delivery of another carrier or epoch, but is kept as an attempt", async () => {
    const outcome = await underWay();
    await made.current.sql.query("UPDATE deliveries SET epoch = 2 WHERE id = $1", [outcome.deliveryId]);
    expect(await recorder.outcome(outcome)).toBe(true);
    expect(await made.current.deliveries.find(tenant, outcome.deliveryId)).toMatchObject({ state: "QUEUED" });
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toHaveLength(1);
  });

  test("is written once each, even with many at once", async () => {
    const outcomes: AttemptOutcome[] = [];
    while (outcomes.length < 300) {
      // A busy machine's pool cannot serve more concurrent connections in time.
      outcomes.push(...(await Promise.all(Array.from({ length: 20 }, async () => await underWay()))));
    }
    const written = await Promise.all(outcomes.map(async (each) => await recorder.outcome(each)));
    expect(written).toEqual(outcomes.map(() => true));
    const { rows } = await made.current.sql.query(
      `SELECT count(*) FROM deliveries d JOIN attempts a ON a.day = d.day AND a.delivery_id = d.id
        WHERE d.state = 'RETRYING' AND d.id = ANY ($1)`,
      [outcomes.map(({ deliveryId }) => deliveryId)],
    );
    expect(rows).toEqual([{ count: 300 }]);
  });

  test("is kept and retried, after increasing pauses, while the database is unavailable", async () => {
    const outcome = await underWay();
    await stopDatabase(made.current);
    // The database returns during the third pause.
    expect(await recorder.outcome(outcome)).toBe(true);
    expect(waits).toEqual([50, 100, 200]);
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toHaveLength(1);
  });
});

const leaseUntil = (seconds: number): Date => new Date(STARTED.getTime() + seconds * 1_000);

describe("a first attempt that delivers", () => {
  const DELIVERED = { status: 200, error: null, nextState: "DELIVERED", nextAttemptAt: null } as const;
  const READ = { cycle: 1, attempt: 1, started_at: STARTED, duration_ms: 12, status: 200, error: null };

  async function rowsOf(deliveryId: string): Promise<number> {
    const query = "SELECT FROM attempts WHERE delivery_id = $1";
    return (await made.current.sql.query(query, [deliveryId])).rows.length;
  }

  test("is read as attempt 1, without a row of its own", async () => {
    const outcome = await underWay(DELIVERED);
    expect(await recorder.outcome(outcome)).toBe(true);
    const delivery = await made.current.deliveries.find(tenant, outcome.deliveryId);
    expect(delivery).toMatchObject({
      state: "DELIVERED",
      attempt_count: 1,
      last_status: 200,
      last_error: null,
    });
    expect(delivery.delivered_at).toEqual(outcome.endedAt);
    const attempts = await made.current.attempts(tenant, outcome.deliveryId);
    expect(attempts).toMatchObject([READ]);
    expect(isId(attempts[0]?.id ?? "", "attempt")).toBe(true);
    expect(await rowsOf(outcome.deliveryId)).toBe(0);
    expect(await loadForAttempt(pool, [outcome])).toMatchObject([{ duration_ms: 12, error: null }]);
  });

  test("stays when a second outcome arrives, which is rejected", async () => {
    const outcome = await underWay(DELIVERED);
    expect(await recorder.outcome(outcome)).toBe(true);
    expect(await recorder.outcome({ ...outcome, durationMs: 99 })).toBe(false);
    const failed = { ...outcome, status: 500, error: "status", nextState: "RETRYING" } as const;
    expect(await recorder.outcome(failed)).toBe(false);
    expect(await made.current.attempts(tenant, outcome.deliveryId)).toMatchObject([READ]);
  });

  test("has the row of its lease if it took one before, and is read once if it took one at the same time", async () => {
    const [before, during] = [await underWay(DELIVERED), await underWay(DELIVERED)];
    await recorder.inFlight({ ...before, leaseUntil: leaseUntil(15) });
    expect(await recorder.outcome(before)).toBe(true);
    expect(await made.current.attempts(tenant, before.deliveryId)).toMatchObject([
      { ...READ, id: before.attemptId },
    ]);
    expect(await recorder.outcome(during)).toBe(true);
    await recorder.inFlight({ ...during, leaseUntil: leaseUntil(15) });
    expect(await made.current.attempts(tenant, during.deliveryId)).toMatchObject([READ]);
    expect(await loadForAttempt(pool, [during])).toMatchObject([{ duration_ms: 12, error: null }]);
  });

  test("has a row if its delivery was cancelled, or if its response is long", async () => {
    const [cancelled, long] = [
      await underWay(DELIVERED),
      await underWay({ ...DELIVERED, responseBody: Buffer.alloc(4_096, 1) }),
    ];
    await made.current.sql.query("UPDATE deliveries SET state = 'CANCELLED' WHERE id = $1", [
      cancelled.deliveryId,
    ]);
    expect([await recorder.outcome(cancelled), await recorder.outcome(long)]).toEqual([true, true]);
    expect([await rowsOf(cancelled.deliveryId), await rowsOf(long.deliveryId)]).toEqual([1, 1]);
    expect(await made.current.attempts(tenant, cancelled.deliveryId)).toMatchObject([
      { ...READ, id: cancelled.attemptId },
    ]);
    const { state } = await made.current.deliveries.find(tenant, cancelled.deliveryId);
    expect(state).toBe("CANCELLED");
  });
});

describe("a lease", () => {
  async function leaseOf(deliveryId: string): Promise<unknown> {
    const { rows } = await made.current.sql.query(
      "SELECT lease_until, duration_ms FROM attempts WHERE delivery_id = $1",
      [deliveryId],
    );
    return rows[0];
  }

  test("is taken, extended, and released by the outcome", async () => {
    const outcome = await underWay();
    await recorder.inFlight({ ...outcome, leaseUntil: leaseUntil(15) });
    expect(await leaseOf(outcome.deliveryId)).toEqual({ lease_until: leaseUntil(15), duration_ms: null });
    await recorder.inFlight({ ...outcome, leaseUntil: leaseUntil(30) });
    await recorder.inFlight({ ...outcome, leaseUntil: leaseUntil(20) });
    expect(await leaseOf(outcome.deliveryId)).toEqual({ lease_until: leaseUntil(30), duration_ms: null });
    await recorder.outcome(outcome);
    expect(await leaseOf(outcome.deliveryId)).toEqual({ lease_until: null, duration_ms: 12 });
  });

  test("requested twice at once is taken once", async () => {
    const outcome = await underWay();
    const lease = { ...outcome, leaseUntil: leaseUntil(15) };
    await Promise.all([recorder.inFlight(lease), recorder.inFlight(lease)]);
    expect(await leaseOf(outcome.deliveryId)).toEqual({ lease_until: leaseUntil(15), duration_ms: null });
  });

  test("locks rows in the same order as outcomes, so that they cannot deadlock", async () => {
    const [first, second] = [await underWay(), await underWay()].toSorted((one, other) =>
      one.deliveryId < other.deliveryId ? -1 : 1,
    ) as [AttemptOutcome, AttemptOutcome];
    const waitsBefore = waits.length;
    const client = await pool.connect();
    await client.query("BEGIN");
    await recordInFlight(client, [{ ...first, leaseUntil: leaseUntil(15) }]);
    const written = Promise.all([recorder.outcome(second), recorder.outcome(first)]);
    await eventually(async () => {
      const { rows } = await made.current.sql.query(
        `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
          AND query LIKE 'WITH outcome%'`,
      );
      return rows.length === 1;
    }, "the outcomes to wait for the lease");
    await recordInFlight(client, [{ ...second, leaseUntil: leaseUntil(15) }]);
    await client.query("COMMIT");
    client.release();
    expect(await written).toEqual([true, true]);
    // A deadlock ends with an error for one of the two: the lease fails, or the outcomes are retried.
    expect(waits).toHaveLength(waitsBefore);
  });

  test("that arrives late does not undo an outcome", async () => {
    const outcome = await underWay();
    await recorder.outcome(outcome);
    await recorder.inFlight({ ...outcome, leaseUntil: leaseUntil(15) });
    expect(await leaseOf(outcome.deliveryId)).toEqual({ lease_until: null, duration_ms: 12 });
  });
});
