/** Behind a real PgBouncer the main job works, and each statement has its own role, or the process does not start. */
// oxlint-disable vitest/no-conditional-expect -- both modes share their tests
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from "vitest";
import { requireSafeAccess } from "#database/access.ts";
import { createPool, type Pool, SERVICE_ROLES, type ServiceRole } from "#database/pool.ts";
import { actAs, tenantRead, tenantTransaction, transaction } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { bearer } from "#test/support/factories.ts";
import {
  databaseBehind,
  type PgBouncer,
  type PoolMode,
  startPgBouncer,
  withoutPgBouncer,
} from "#test/support/pgbouncer.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { useStarted } from "#test/support/started.ts";
import {
  copyTemplate,
  execute,
  retireLogins,
  SERVICE_LOGIN,
  type TestDatabase,
  withDatabase,
} from "#test/support/test-database.ts";
import { createTenant, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const skipped = withoutPgBouncer("the service behind PgBouncer");
const log = createLogger({ level: "silent" });
const MODES: readonly PoolMode[] = ["session", "transaction"];
/** In session mode, one for each connection. */
const SESSIONS = { session: 120, transaction: 3 } as const;

describe.skipIf(skipped).each(MODES)("in %s mode", (mode) => {
  const bouncer = useStarted("PgBouncer", async () => {
    return await startPgBouncer({ mode, sessions: SESSIONS[mode] });
  });
  const api = useTestApi({ worker: true, database: async () => await databaseBehind(bouncer.current) });
  const edge = useTestEdge(api, {
    routes: [{ method: "GET", path: "/v1/files/*", scope: "files:read", upstream: "data" }],
  });

  test("a tenant gets a token, publishes, receives, passes an edge, and is out at once when revoked", async () => {
    const scopes = [...WEBHOOK_SCOPES, "files:read", "credentials:revoke"];
    const tenant = await createTenant(api, scopes);
    const receiver = await startReceiver();
    try {
      const made = await tenant.post("/v1/webhooks/endpoints", { url: receiver.url, events: ["a.b"] });
      const endpoint = String(made.body["id"]);
      await eventually(
        async () => (await tenant.get(`/v1/webhooks/endpoints/${endpoint}`)).body["state"] === "ACTIVE",
        "the endpoint to be ACTIVE",
      );
      const events = Array.from({ length: 50 }, async (_, index) => {
        return await tenant.post("/v1/events", { type: "a.b", data: { index } });
      });
      for (const published of await Promise.all(events)) {
        expect(published).toMatchObject({ status: 202 });
      }
      await eventually(async () => {
        const { body } = await tenant.get("/v1/webhooks/deliveries?state=DELIVERED&limit=100");
        return (body["data"] as readonly unknown[]).length >= 50;
      }, "50 deliveries");
      const read = async (): Promise<number> =>
        (await fetch(`${edge.url}/v1/files/a`, { headers: bearer(tenant.token) })).status;
      await eventually(async () => (await read()) === 200, "the edge to admit the token");
      const revoked = await tenant.post(`/v1/credentials/${tenant.credentialId}/revoke`);
      expect(revoked).toMatchObject({ status: 200 });
      await eventually(async () => (await read()) === 401, "the edge to reject the token");
      expect(await tenant.get("/v1/webhooks/endpoints")).toMatchObject({ status: 401 });
    } finally {
      await receiver.close();
    }
  });

  test("what was accepted adds up", async () => {
    const since = new Date(Date.now() - 3_600_000).toISOString();
    const { status, body } = await api.admin("GET", `/reconciliation?since=${since}`);
    expect({ status, body }).toMatchObject({
      status: 200,
      body: { adds_up: true, counted: { delivered: 50 } },
    });
  });

  test("every process is ready", async () => {
    await eventually(async () => (await api.request("/readyz")).status === 200, "the api to be ready");
    await eventually(async () => (await fetch(`${edge.url}/readyz`)).ok, "the edge to be ready");
  });

  test("requests use the pooler's sessions, however many connections the processes have", async () => {
    const asked = Array.from({ length: 40 }, async () => await api.admin("GET", "/tenants"));
    await Promise.all(asked);
    const rows = await sql<{ name: string; count: number }>(
      api,
      "SELECT application_name AS name, count(*)::int FROM pg_stat_activity WHERE datname = current_database() GROUP BY 1",
    );
    const sessions = Object.fromEntries(rows.map(({ name, count }) => [name, count]));
    if (mode === "transaction") {
      expect(sessions["signet"]).toBeLessThanOrEqual(SESSIONS.transaction);
      expect(sessions["signet"]).toBeGreaterThan(0);
      // The worker and the followers of revocations have the others.
      for (const role of ["signet_api", "signet_ingest", "signet_issuer"]) {
        expect(sessions).not.toHaveProperty(role);
      }
    } else {
      expect(sessions).not.toHaveProperty("signet");
      expect(sessions["signet_operator"]).toBeGreaterThan(0);
    }
  });
});

describe.skipIf(skipped)("roles that share sessions", () => {
  const bouncer = useStarted("PgBouncer", async () => {
    return await startPgBouncer({ mode: "transaction", sessions: 1 });
  });
  let database: TestDatabase;
  let pools: ReadonlyMap<ServiceRole, Pool>;
  const poolOf = (role: ServiceRole): Pool => pools.get(role) as Pool;

  beforeAll(async () => {
    database = await databaseBehind(bouncer.current);
    pools = new Map(
      SERVICE_ROLES.map((role) => [
        role,
        createPool({ url: database.url, role, max: 4, log, sharesSessions: true }),
      ]),
    );
    await execute(
      database.adminUrl,
      "INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ('ten_one', 'one', 'eu', '', now()), ('ten_two', 'two', 'eu', '', now())",
    );
  });
  afterAll(async () => {
    await Promise.all(
      [...(pools ?? new Map<ServiceRole, Pool>()).values()].map(async (pool) => await pool.end()),
    );
    await database?.drop();
  });

  interface Found {
    readonly role: string;
    readonly zone: string;
    readonly timeout: string;
    readonly pid: number;
  }
  const WHO = `SELECT current_user AS role, current_setting('TimeZone') AS zone,
    current_setting('statement_timeout') AS timeout, pg_backend_pid() AS pid`;

  test("each statement and each transaction has its own, in the same session", async () => {
    const asked = Array.from({ length: 30 }, () => SERVICE_ROLES).flat();
    const found = await Promise.all(
      asked.map(async (role, index): Promise<Found & { readonly wanted: string }> => {
        const pool = poolOf(role);
        const statement = { name: "who", text: WHO, values: [] };
        const { rows } = await (index % 3 === 0
          ? pool.query<Found>(WHO)
          : index % 3 === 1
            ? pool.query<Found>(statement)
            : transaction(pool, async (db) => await db.query<Found>(statement)));
        return { ...(rows[0] as Found), wanted: role };
      }),
    );
    for (const { role, wanted, zone, timeout } of found) {
      expect({ role, zone, timeout }).toEqual({ role: wanted, zone: "UTC", timeout: "8s" });
    }
    expect(new Set(found.map(({ pid }) => pid)).size).toBe(1);
  });

  test("a tenant's request sees its own rows, whoever used the session before", async () => {
    const asked = Array.from({ length: 60 }, async (_, index) => {
      if (index % 3 === 0) {
        const { rows } = await poolOf("signet_operator").query<{ id: string }>("SELECT id FROM tenants");
        expect(rows.length).toBe(2);
        return;
      }
      const tenantId = index % 2 === 0 ? "ten_one" : "ten_two";
      const scoped = index % 3 === 1 ? tenantRead : tenantTransaction;
      const { rows } = await scoped(poolOf("signet_api"), tenantId, async (db) => {
        return await db.query<{ id: string }>("SELECT id FROM tenants");
      });
      expect(rows).toEqual([{ id: tenantId }]);
    });
    await Promise.all(asked);
    expect((await poolOf("signet_api").query("SELECT id FROM tenants")).rows).toEqual([]);
  });

  test("a statement without a role has no rights, and a failure leaves nothing behind", async () => {
    const bare = new Client({ connectionString: database.url });
    await bare.connect();
    const expectNothing = async (): Promise<void> => {
      const { rows } = await bare.query(
        "SELECT current_user AS role, current_setting('app.tenant_id', true) AS tenant",
      );
      expect(rows).toEqual([{ role: "signet_service", tenant: expect.toBeOneOf(["", null]) }]);
      await expect(bare.query("SELECT id FROM tenants")).rejects.toThrow(/permission denied/);
    };
    try {
      await expectNothing();
      await tenantRead(
        poolOf("signet_api"),
        "ten_one",
        async (db) => await db.query("SELECT id FROM tenants"),
      );
      await expectNothing();
      await expect(poolOf("signet_operator").query("SELECT 1 / 0")).rejects.toThrow("division by zero");
      await expectNothing();
      await expect(poolOf("signet_edge").query("SELECT id FROM tenants")).rejects.toThrow(
        /permission denied/,
      );
      const acting = transaction(poolOf("signet_operator"), async (db) => {
        await actAs(db, "signet_api", async () => await db.query("SELECT 1 / 0"));
      });
      await expect(acting).rejects.toThrow("division by zero");
      await expectNothing();
    } finally {
      await bare.end();
    }
  });

  test("a statement that takes too long is cancelled", async () => {
    const pool = createPool({
      url: database.url,
      role: "signet_api",
      max: 1,
      log,
      statementMs: 2_000,
      sharesSessions: true,
    });
    try {
      await expect(pool.query("SELECT pg_sleep(30)")).rejects.toMatchObject({ code: "57014" });
      expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    } finally {
      await pool.end();
    }
  });
});

describe.skipIf(skipped)("a process does not start", () => {
  let database: TestDatabase;
  let other: TestDatabase;
  const bouncers = new Map<PoolMode, PgBouncer>();
  const opened: Pool[] = [];
  const heir = { user: `heir_${randomBytes(6).toString("hex")}`, password: "secret" };

  beforeAll(async () => {
    database = await copyTemplate(inject("databaseUrl"));
    other = await copyTemplate(inject("databaseUrl"));
    await execute(
      inject("databaseUrl"),
      `CREATE ROLE ${heir.user} LOGIN INHERIT PASSWORD '${heir.password}'; GRANT ${SERVICE_ROLES.join(", ")} TO ${heir.user}`,
    );
    for (const mode of MODES) {
      bouncers.set(mode, await startPgBouncer({ mode, sessions: 4, logins: [SERVICE_LOGIN, heir] }));
    }
  });
  afterEach(async () => {
    await Promise.all(opened.splice(0).map(async (pool) => await pool.end()));
  });
  afterAll(async () => {
    await Promise.all([...bouncers.values()].map(async (bouncer) => await bouncer.close()));
    await retireLogins(inject("databaseUrl"), [heir.user]);
    await Promise.all([database?.drop(), other?.drop()]);
  });

  const behind = (mode: PoolMode, url = database.url): string => bouncers.get(mode)?.through(url) ?? "";

  async function start(url: string, direct?: string): Promise<void> {
    const sharesSessions = direct !== undefined;
    const pool = createPool({ url, role: "signet_api", max: 2, log, sharesSessions });
    opened.push(pool);
    await requireSafeAccess(pool, { databaseUrl: url, databaseDirectUrl: direct, development: false });
  }

  test("behind a pooler in transaction mode that it takes for sessions", async () => {
    for (let tries = 0; tries < 5; tries += 1) {
      await expect(start(behind("transaction"))).rejects.toThrow(
        /transaction mode: set SIGNET_DATABASE_DIRECT_URL/,
      );
    }
    // Others use the pooler at the same time.
    const busy = createPool({
      url: behind("transaction"),
      role: "signet_api",
      max: 4,
      log,
      sharesSessions: true,
    });
    opened.push(busy);
    let stopped = false;
    const load = Array.from({ length: 4 }, async () => {
      // oxlint-disable-next-line no-unmodified-loop-condition -- changed below
      while (!stopped) {
        await busy.query("SELECT");
      }
    });
    for (let tries = 0; tries < 10; tries += 1) {
      await expect(start(behind("transaction"))).rejects.toThrow(/transaction mode/);
    }
    stopped = true;
    await Promise.all(load);
  });

  test("if the direct URL leads to such a pooler, too, or to another database", async () => {
    const pooled = behind("transaction");
    await expect(start(pooled, pooled)).rejects.toThrow(/transaction mode/);
    await expect(start(pooled, other.url)).rejects.toThrow(/another server or database/);
  });

  test("behind a pooler with a login that has the roles' rights without taking a role", async () => {
    const url = withDatabase(database.adminUrl, database.name, heir);
    await expect(start(behind("transaction", url), url)).rejects.toThrow(/inherits signet_api, .*NOINHERIT/);
  });

  test("but it does without a pooler, in session mode, and in transaction mode with a direct URL", async () => {
    await start(database.url);
    await start(behind("session"));
    await start(behind("transaction"), database.url);
    await start(behind("transaction"), behind("session"));
  });
});
