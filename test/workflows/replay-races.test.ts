/**
 * A page of a replay job against concurrent changes to the same letters, in both orders. Each waits for the other in the
 * middle of its transaction, and a letter gets at most one new cycle.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { expireOverdue } from "#database/repositories/webhooks/carriers.ts";
import { cancelDeliveriesOf } from "#database/repositories/webhooks/content-erasure.ts";
import { cancelDelivery, replayDeadLetter } from "#database/repositories/webhooks/deliveries.ts";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { replayPage, type ReplayRunnerOptions, type SeenJob } from "#webhooks/replay/replay-runner.ts";
import { sweepReplays } from "#webhooks/replay/replay-sweep.ts";
import { eventually } from "../support/eventually.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { TEST_CALLER, useWorld } from "../support/world.ts";

const made = useWorld();
const log = createLogger({ level: "silent" });
let pool: Pool;
let runner: ReplayRunnerOptions;
/** Holds row locks and releases them. */
let rival: Client;

beforeAll(async () => {
  const { config, temporal } = made.current;
  pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 4, log });
  const releaser = new Releaser(temporal, machineTimers, log);
  runner = {
    pool,
    releaser,
    clock: systemClock,
    randomBytes,
    log,
    onQueued: () => undefined,
  };
  rival = new Client({ connectionString: config.databaseAdminUrl ?? config.databaseUrl });
  await rival.connect();
});
afterAll(async () => {
  await rival.end();
  await pool.end();
});

interface Case {
  readonly tenant: string;
  readonly id: string;
  readonly eventId: string;
  readonly job: ReplayJob;
}

async function makeCase(count = 1): Promise<Case> {
  const world = made.current;
  const tenant = await world.createTenant();
  const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
  const [id = ""] = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count });
  const { event_id: eventId } = await world.deliveries.find(tenant, id);
  const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 500 });
  return { tenant, id, eventId, job };
}

async function page({ job }: Pick<Case, "job">): Promise<SeenJob> {
  return await replayPage(runner, { jobId: job.id, after: 0, size: 500 });
}

/** Waits until a statement of another connection waits for a lock that this one holds. */
async function untilBlocked(): Promise<void> {
  await eventually(async () => {
    const { rowCount } = await made.current.sql.query(
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
    );
    return (rowCount ?? 0) > 0;
  }, "a session to wait");
}

async function stored({ id }: Case): Promise<{ state: string; cycle: number }> {
  const { rows } = await made.current.sql.query<{ state: string; cycle: number }>(
    "SELECT state, cycle FROM deliveries WHERE id = $1",
    [id],
  );
  return rows[0] as { state: string; cycle: number };
}

/** A concurrent change to a letter; resolves with true if it took effect. */
interface Rival {
  readonly name: string;
  readonly act: (db: Client, letter: Case) => Promise<boolean>;
  /** The page's counts for a letter that the rival got first. */
  readonly counts: Partial<SeenJob>;
  readonly state: string;
  readonly cycle: number;
  /** Whether the rival can still act after the page, and with which result. */
  readonly afterwards: { readonly acts: boolean; readonly state: string; readonly cycle: number };
}

const now = (): Date => new Date();
const RIVALS: readonly Rival[] = [
  {
    name: "expiry",
    act: async (db) => (await expireOverdue(db, new Date(Date.now() + 8 * 86_400_000))) > 0,
    counts: { done: 0, failed: 1 },
    state: "EXPIRED",
    cycle: 1,
    afterwards: { acts: false, state: "QUEUED", cycle: 2 },
  },
  {
    name: "cancel",
    act: async (db, { tenant, id }) =>
      (await cancelDelivery(db, { tenantId: tenant, id, now: now() })) !== undefined,
    counts: { done: 0, skipped: 1 },
    state: "CANCELLED",
    cycle: 1,
    afterwards: { acts: true, state: "CANCELLED", cycle: 2 },
  },
  {
    name: "a second replay",
    act: async (db, { tenant, id }) =>
      (await replayDeadLetter(db, { tenantId: tenant, id, now: now() })) !== undefined,
    counts: { done: 0, skipped: 1 },
    state: "QUEUED",
    cycle: 2,
    afterwards: { acts: false, state: "QUEUED", cycle: 2 },
  },
  {
    name: "erasure",
    act: async (db, { tenant, eventId }) => (await cancelDeliveriesOf(db, tenant, eventId)).length > 0,
    counts: { done: 0, skipped: 1 },
    state: "CANCELLED",
    cycle: 1,
    afterwards: { acts: true, state: "CANCELLED", cycle: 2 },
  },
];

describe.each(RIVALS)("a replay against $name", ({ act, counts, state, cycle, afterwards }) => {
  test("the rival is first", async () => {
    const letter = await makeCase();
    await rival.query("BEGIN");
    expect(await act(rival, letter)).toBe(true);
    const replayed = page(letter);
    await untilBlocked();
    await rival.query("COMMIT");
    expect(await replayed).toMatchObject({ state: "COMPLETED", ...counts });
    expect(await stored(letter)).toEqual({ state, cycle });
    // Leave nothing that the next case would expire.
    await made.current.sql.query(
      "UPDATE deliveries SET expires_at = NULL, state = 'CANCELLED' WHERE id = $1",
      [letter.id],
    );
  });

  test("the rival arrives during the replay", async () => {
    const letter = await makeCase();
    const holder = new Client({ connectionString: made.current.config.databaseAdminUrl });
    await holder.connect();
    await holder.query("BEGIN");
    // The page has locked its deliveries by the time it writes their results.
    await holder.query("SELECT FROM replay_items WHERE job_id = $1 FOR UPDATE", [letter.job.id]);
    const replayed = page(letter);
    await untilBlocked();
    const acting = act(rival, letter);
    await holder.query("COMMIT");
    await holder.end();
    expect(await replayed).toMatchObject({ state: "COMPLETED", done: 1 });
    // Expiry does not wait: it leaves locked rows to the next round.
    expect(await acting).toBe(afterwards.acts);
    expect(await stored(letter)).toEqual({ state: afterwards.state, cycle: afterwards.cycle });
    await made.current.sql.query("UPDATE deliveries SET state = 'CANCELLED' WHERE id = $1", [letter.id]);
  });
});

describe("concurrent jobs", () => {
  test("over the same letters replay each one once in total", async () => {
    const first = await makeCase(500);
    const world = made.current;
    const others = await Promise.all(
      [1, 2].map(
        async () => await world.makeReplay(first.tenant, { selection: { filter: {} }, ratePerSecond: 500 }),
      ),
    );
    const seen = await Promise.all([first.job, ...others].map(async (job) => await page({ job })));
    expect(seen.map(({ done }) => done).reduce((a, b) => a + b, 0)).toBe(500);
    expect(seen.map(({ skipped }) => skipped).reduce((a, b) => a + b, 0)).toBe(1_000);
    const { rows } = await world.sql.query(
      "SELECT DISTINCT cycle, state FROM deliveries WHERE tenant_id = $1",
      [first.tenant],
    );
    expect(rows).toEqual([{ cycle: 2, state: "QUEUED" }]);
  });

  test("a page that runs twice, even concurrently, takes effect once", async () => {
    const letter = await makeCase(20);
    const ask = async (): Promise<SeenJob> =>
      await replayPage(runner, { jobId: letter.job.id, after: 0, size: 10 });
    const seen = [...(await Promise.all([ask(), ask()])), await ask()];
    expect(seen.map(({ done, position }) => [done, position])).toEqual([
      [10, 10],
      [10, 10],
      [10, 10],
    ]);
  });
});

describe("a replay of missed events, against disabling the endpoint", () => {
  async function makeMissing(): Promise<{ tenant: string; endpoint: string; job: ReplayJob }> {
    const world = made.current;
    const tenant = await world.createTenant();
    await world.publish(tenant);
    const { id: endpoint } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
    const selection = { endpointId: endpoint, since: new Date(Date.now() - 60_000), until: undefined };
    return { tenant, endpoint, job: await world.makeReplay(tenant, { selection, ratePerSecond: 500 }) };
  }
  const disable = async (endpoint: string): Promise<void> => {
    await rival.query("UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'tenant' WHERE id = $1", [
      endpoint,
    ]);
  };

  test("the disabling is first", async () => {
    const { endpoint, job } = await makeMissing();
    await rival.query("BEGIN");
    await disable(endpoint);
    const replayed = page({ job });
    await untilBlocked();
    await rival.query("COMMIT");
    expect(await replayed).toMatchObject({ state: "COMPLETED", done: 0, failed: 1 });
  });

  test("the disabling is second: the delivery exists, and its attempt will park it", async () => {
    const { tenant, endpoint, job } = await makeMissing();
    expect(await page({ job })).toMatchObject({ state: "COMPLETED", done: 1 });
    await disable(endpoint);
    const { rows } = await made.current.replays.items(tenant, job.id, {
      after: 0,
      limit: 1,
      outcomes: undefined,
    });
    expect(await made.current.deliveries.find(tenant, rows[0]?.delivery_id ?? "")).toMatchObject({
      state: "QUEUED",
      endpoint_id: endpoint,
    });
  });
});

test("a sweep logs that it cancelled a job only if it did: the job may complete meanwhile", async () => {
  const [complete, ended] = [await makeCase(), await makeCase()];
  const lines: string[] = [];
  const sources = { clock: { ...systemClock, now: () => Date.now() + 60_000 }, randomBytes };
  await sweepReplays({
    ...sources,
    pool,
    // What the sweep sees of a workflow that has ended.
    kick: async ({ id }) => {
      if (id === complete.job.id) {
        await page(complete);
      }
      return ![complete.job.id, ended.job.id].includes(id);
    },
    log: createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } }),
  });
  const { rows } = await made.current.sql.query<{ id: string; state: string }>(
    "SELECT id, state FROM replay_jobs WHERE id = ANY ($1::text[])",
    [[complete.job.id, ended.job.id]],
  );
  expect(Object.fromEntries(rows.map(({ id, state }) => [id, state]))).toEqual({
    [complete.job.id]: "COMPLETED",
    [ended.job.id]: "CANCELLED",
  });
  expect(lines.filter((line) => line.includes(complete.job.id))).toEqual([]);
  expect(lines.filter((line) => line.includes(ended.job.id))).toEqual([
    expect.stringContaining("the job was cancelled"),
  ]);
});

describe("a job of more letters than one transaction lists", () => {
  const LETTERS = 8_000;

  async function listed(jobId: string): Promise<number> {
    const { rows } = await made.current.sql.query<{ n: number }>(
      "SELECT count(DISTINCT delivery_id)::int AS n FROM replay_items WHERE job_id = $1",
      [jobId],
    );
    return rows[0]?.n ?? 0;
  }

  async function stepsOf(job: ReplayJob, size: number): Promise<SeenJob[]> {
    const seen: SeenJob[] = [];
    for (let after = 0, state = "RUNNING"; state === "RUNNING";) {
      const step = await replayPage(runner, { jobId: job.id, after, size });
      seen.push(step);
      ({ position: after, state } = step);
    }
    return seen;
  }

  test("is created before they are listed, and each page lists more of them until every letter is an item", async () => {
    const { job, tenant } = await makeCase(LETTERS);
    expect(job.total).toBeLessThan(LETTERS);
    expect(job.listing).not.toBeNull();
    expect(await listed(job.id)).toBe(job.total);
    const steps = await stepsOf(job, LETTERS);
    expect(steps.map(({ total }) => total)).toContain(7_000);
    expect(steps[0]).toMatchObject({ state: "RUNNING", listing: true });
    expect(steps.at(-1)).toMatchObject({ state: "COMPLETED", listing: false, total: LETTERS, done: LETTERS });
    expect(await listed(job.id)).toBe(LETTERS);
    const stored = await made.current.replays.find(tenant, job.id);
    expect(stored).toMatchObject({ total: LETTERS, listing: null });
  });

  test("leaves out what became a dead letter after the request, and what its filter does not select", async () => {
    const { job, tenant } = await makeCase(LETTERS);
    const { rows } = await made.current.sql.query<{ id: string }>(
      `UPDATE deliveries SET dead_lettered_at = $2 WHERE id IN (
          SELECT id FROM deliveries WHERE tenant_id = $1 ORDER BY id DESC LIMIT 10) RETURNING id`,
      [tenant, new Date(job.created_at.getTime() + 1)],
    );
    expect((await stepsOf(job, LETTERS)).at(-1)).toMatchObject({ state: "COMPLETED", total: LETTERS - 10 });
    for (const { id } of rows) {
      expect(await made.current.deliveries.find(tenant, id)).toMatchObject({
        state: "DEAD_LETTERED",
        cycle: 1,
      });
    }
    const selection = { filter: { lastError: "timeout", from: new Date(0) } } as const;
    await seedMore(tenant, LETTERS);
    const none = await made.current.makeReplay(tenant, { selection, ratePerSecond: 500 });
    expect(none).toMatchObject({ state: "RUNNING", total: 0 });
    expect((await stepsOf(none, 500)).at(-1)).toMatchObject({ state: "COMPLETED", total: 0 });
  });

  test("can be paused and cancelled while it lists: nothing more is listed", async () => {
    const { job, tenant } = await makeCase(LETTERS);
    await made.current.replays.change(tenant, job.id, "PAUSED", TEST_CALLER);
    expect(await page({ job })).toMatchObject({ state: "PAUSED", total: job.total, listing: true });
    await made.current.replays.change(tenant, job.id, "CANCELLED", TEST_CALLER);
    expect(await page({ job })).toMatchObject({ state: "CANCELLED", total: job.total, done: 0 });
    expect(await listed(job.id)).toBe(job.total);
  });
});

async function seedMore(tenantId: string, count: number): Promise<void> {
  const world = made.current;
  const { id: endpointId } = await world.createEndpoint(tenantId, "http://127.0.0.1:9/never");
  await seedDeadLetters(world.sql, { tenantId, endpointId, count });
}
