/** Every read of a tenant's webhooks is logged before it happens, once a minute rather than per request. */
import { randomBytes, randomUUID } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { ReadAudit, type TenantReading } from "#tokens/operators/read-audit.ts";
import { eventually } from "#test/support/eventually.ts";
import { useTestDatabase } from "#test/support/services.ts";

const MINUTE_MS = 60_000;
const START = Date.parse("2026-11-20T10:00:00Z");

interface Entry {
  readonly actor: string;
  readonly request_id: string | null;
  readonly details: {
    readonly minute: string;
    readonly operation: string;
    readonly requests: number;
  };
}

const total = (entries: readonly Entry[]): number =>
  entries.reduce((sum, { details }) => sum + details.requests, 0);

describe("reading", () => {
  const database = useTestDatabase();
  const log = createLogger({ level: "silent" });
  let pool: Pool;
  let superuser: Client;
  let nowMs: number;
  let audit: ReadAudit;
  let operatorId: string;

  beforeAll(async () => {
    pool = createPool({ url: database.url, role: "signet_operator", max: 4, log });
    superuser = new Client({ connectionString: database.adminUrl });
    await superuser.connect();
  });

  afterAll(async () => {
    await Promise.all([pool.end(), superuser.end()]);
  });

  beforeEach(() => {
    nowMs = START;
    operatorId = `op_${randomUUID()}`;
    audit = new ReadAudit({ pool, log, clock: { now: () => nowMs }, randomBytes });
  });

  const read = async (changed: Partial<TenantReading> = {}): Promise<void> =>
    await audit.noteTenant({
      operatorId,
      tenantId: null,
      target: null,
      operation: "find",
      requestId: randomUUID(),
      ...changed,
    });

  async function entries(): Promise<Entry[]> {
    const { rows } = await superuser.query<{ entry: string }>(
      "SELECT convert_from(entry, 'UTF8') AS entry FROM clog WHERE type = 'tenant.read' ORDER BY idx",
    );
    return rows
      .map(({ entry }) => JSON.parse(entry) as Entry)
      .filter(({ actor }) => actor === `operator:${operatorId}`);
  }

  async function withoutLog(work: () => Promise<void>): Promise<void> {
    await superuser.query("ALTER TABLE clog RENAME TO clog_away");
    try {
      await work();
    } finally {
      await superuser.query("ALTER TABLE clog_away RENAME TO clog");
    }
  }

  test("sixty pages one by one leaves an entry at once, and one count when the minute ends", async () => {
    await read({ requestId: "req_1" });
    expect(await entries()).toMatchObject([
      {
        request_id: "req_1",
        details: { minute: "2026-11-20T10:00:00.000Z", operation: "find", requests: 1 },
      },
    ]);
    await Promise.all(Array.from({ length: 58 }, async () => await read()));
    await audit.job.run();
    expect(await entries()).toHaveLength(1);

    nowMs += MINUTE_MS;
    await audit.job.run();
    await audit.job.run();
    const [, count, ...more] = await entries();
    expect(more).toEqual([]);
    expect(count).toMatchObject({
      request_id: null,
      details: { minute: "2026-11-20T10:00:00.000Z", operation: "find", requests: 58 },
    });
  });

  test("in the next minute, by another operator or of another object leaves another entry, without gaps", async () => {
    await read();
    await read();
    const colleague = `op_${randomUUID()}`;
    await read({ operatorId: colleague });
    await read({ target: "dlv_1" });
    nowMs += MINUTE_MS;
    await read();
    await read();
    await audit.job.end?.();
    const own = await entries();
    expect([own.length, total(own)]).toEqual([5, 5]);
    operatorId = colleague;
    expect(await entries()).toHaveLength(1);
  });

  test("waits for every caller until the minute's entry is committed", async () => {
    await superuser.query("BEGIN");
    await superuser.query("SELECT FROM clog_head FOR UPDATE");
    let answered = 0;
    const reads = [read(), read(), read()].map(async (each) => await each.then(() => (answered += 1)));
    await eventually(async () => {
      const { rows } = await superuser.query(
        "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
      );
      return rows.length === 1;
    }, "the entry to wait for the log");
    expect(answered).toBe(0);
    await superuser.query("COMMIT");
    await Promise.all(reads);
    expect(await entries()).toHaveLength(1);
  });

  test("is rejected while its entry cannot be written; the next read writes it", async () => {
    await withoutLog(async () => {
      const outcomes = await Promise.allSettled([read(), read()]);
      expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
    });
    await read();
    nowMs += MINUTE_MS;
    await audit.job.run();
    expect(await entries()).toHaveLength(1);
  });

  test("keeps a count that cannot be written until it can", async () => {
    await read();
    await read();
    nowMs += MINUTE_MS;
    await withoutLog(async () => {
      await expect(audit.job.run()).rejects.toThrow(/clog/);
    });
    await audit.job.run();
    expect(total(await entries())).toBe(2);
  });
});
