/** Read-only transactions: one tenant's rows, no writes, and a clean connection afterwards. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { tenantRead } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { useSharedApi } from "#test/support/api.ts";
import { provision, type Provisioned } from "#test/support/factories.ts";
import { execute } from "#test/support/test-database.ts";

const api = useSharedApi();
let pool: Pool;
let a: Provisioned;
let b: Provisioned;

beforeAll(async () => {
  [a, b] = [await provision(api), await provision(api)];
  const log = createLogger({ level: "silent" });
  pool = createPool({ url: api.database.url, role: "signet_api", max: 1, log });
});
afterAll(async () => {
  await pool.end();
});

const tenants = async (of: Provisioned): Promise<unknown> =>
  await tenantRead(pool, of.tenantId, async (db) => (await db.query("SELECT id FROM tenants")).rows);
const SLEEPER = "SELECT pg_sleep(60)";

test("a connection sees one tenant, then the other, then none", async () => {
  expect(await tenants(a)).toEqual([{ id: a.tenantId }]);
  expect(await tenants(b)).toEqual([{ id: b.tenantId }]);
  expect((await pool.query("SELECT FROM tenants")).rowCount).toBe(0);
});

test("a read cannot write, and its connection can write afterwards", async () => {
  const writing = tenantRead(
    pool,
    a.tenantId,
    async (db) => await db.query("UPDATE endpoints SET url = url"),
  );
  await expect(writing).rejects.toThrow("read-only transaction");
  const { rows } = await pool.query("SELECT current_setting('transaction_read_only') AS read_only");
  expect(rows).toEqual([{ read_only: "off" }]);
  expect(await tenants(b)).toEqual([{ id: b.tenantId }]);
});

test("a read rethrows what the work throws", async () => {
  const work = async (): Promise<never> => await Promise.reject(new Error("of the work"));
  await expect(tenantRead(pool, a.tenantId, work)).rejects.toThrow("of the work");
  expect(await tenants(a)).toEqual([{ id: a.tenantId }]);
});

test("a tenant id is bound as a value, whatever it contains", async () => {
  const name = "x', true); SELECT set_config('app.tenant_id', 'y";
  const seen = await tenantRead(
    pool,
    name,
    async (db) => (await db.query("SELECT current_setting('app.tenant_id') AS tenant")).rows,
  );
  expect(seen).toEqual([{ tenant: name }]);
});

test("a broken connection is replaced", async () => {
  const broken = tenantRead(pool, a.tenantId, async (db) => {
    const { rows } = await db.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    const end = execute(api.database.adminUrl, `SELECT pg_terminate_backend(${rows[0]?.pid})`);
    await Promise.all([db.query(SLEEPER), end]);
  });
  await expect(broken).rejects.toThrow(/terminat/);
  expect(await tenants(b)).toEqual([{ id: b.tenantId }]);
});
