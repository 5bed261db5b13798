/**
 * PostgreSQL as people have it, on the oldest supported version and the newest: a publication of all tables, settings of
 * the database that sessions inherit, other encodings. The main job works, or the start says what is wrong.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import { Client } from "pg";
import { describe, expect, inject, test } from "vitest";
import { requireUsableDatabase } from "#database/access.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool } from "#database/pool.ts";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { createLogger } from "#observability/logger.ts";
import { findSystemPostgres, prepareSystemPostgres } from "#test/bench/environment/system-postgres.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { skipUnless } from "#test/support/skips.ts";
import { useStarted } from "#test/support/started.ts";
import { createTenant, rows, WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import {
  execute,
  SERVICE_LOGIN,
  type TestDatabase,
  THROWN_AWAY,
  withDatabase,
} from "#test/support/test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

allowMinutes(4);

const log = createLogger({ level: "silent" });
const programs = await findSystemPostgres();
const OLDEST = 15;
const isOldest = programs?.includes(`/${OLDEST}/`) === true;

/** Settings of a database that change what statements mean, or how their answers are written. */
const INHERITED = {
  DateStyle: "'German, DMY'",
  IntervalStyle: "sql_standard",
  TimeZone: "'America/St_Johns'",
  standard_conforming_strings: "off",
  extra_float_digits: "-15",
  array_nulls: "off",
  transform_null_equals: "on",
  bytea_output: "escape",
  search_path: "other, public",
  lock_timeout: "'1ms'",
  statement_timeout: "'2s'",
  idle_in_transaction_session_timeout: "'1s'",
  default_transaction_isolation: "serializable",
  row_security: "off",
  plan_cache_mode: "force_custom_plan",
  client_min_messages: "debug1",
} as const;

interface Server {
  /** URL of the superuser. */
  readonly url: string;
  close(): Promise<void>;
}

const SETTINGS = { ...THROWN_AWAY, wal_level: "logical" };

const STARTS: Readonly<Record<string, (directory: string) => Promise<Server>>> = {
  oldest: async (directory) => {
    const { url, launch } = await prepareSystemPostgres({
      programs: programs ?? "",
      directory,
      port: await freePort(),
      settings: SETTINGS,
    });
    const launched = await launch();
    return { url, close: async () => await launched.stop() };
  },
  newest: async (home) => {
    const server = await startEmbeddedPostgres({
      home,
      port: await freePort(),
      settings: SETTINGS,
      log: () => undefined,
    });
    return { url: server.url, close: async () => await server.stop() };
  },
};

function databaseOf(url: string, name: string): TestDatabase {
  return {
    name,
    url: withDatabase(url, name, SERVICE_LOGIN),
    adminUrl: withDatabase(url, name),
    drop: async () => await Promise.resolve(),
  };
}

async function migrate({ url, adminUrl }: TestDatabase): Promise<number> {
  return await migrateDatabase({ timers: machineTimers, adminUrl, serviceUrl: url, nowMs: Date.now() });
}

async function ask<Row extends object>(url: string, text: string): Promise<Row[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(text)).rows;
  } finally {
    await client.end();
  }
}

/** Asks over a pool of the service, of its own sessions or behind a pooler. */
async function askAs<Row extends object>(url: string, sharesSessions: boolean, text: string): Promise<Row[]> {
  const pool = createPool({ url, role: "signet_worker", max: 1, log, sharesSessions });
  try {
    return (await pool.query<Row>(text)).rows;
  } finally {
    await pool.end();
  }
}

const ALL = Object.entries(INHERITED).map(([name, value]) => `ALTER DATABASE busy SET ${name} = ${value}`);

describe.each(["oldest", "newest"])("the %s supported PostgreSQL", (which) => {
  const skipped =
    which === "oldest" &&
    skipUnless(
      isOldest,
      "the oldest PostgreSQL",
      `PostgreSQL ${OLDEST} is missing; .ci/programs installs it on Debian 12`,
    );

  describe.skipIf(skipped)("as people have it", () => {
    const server = useStarted("the server", async () => {
      const directory = await mkdtemp(join(inject("runDirectory"), `${which}-`));
      await chmod(directory, 0o755);
      const started = await (STARTS[which] as (directory: string) => Promise<Server>)(directory);
      return {
        ...started,
        close: async () => {
          await started.close();
          await rm(directory, { recursive: true });
        },
      };
    });
    const receiver = useStarted("the receiver", async () => await startReceiver());
    const api = useTestApi({
      worker: true,
      environment: { SIGNET_RETRY_WINDOW_MS: "2000" },
      database: async () => {
        const { url } = server.current;
        await execute(url, "CREATE DATABASE busy");
        const busy = databaseOf(url, "busy");
        await execute(busy.adminUrl, "CREATE SCHEMA other; CREATE PUBLICATION everything FOR ALL TABLES");
        await migrate(busy);
        for (const statement of ALL) {
          await execute(url, statement);
        }
        return busy;
      },
    });

    test("does the main job, and counts it, with a publication of all tables and settings of its own", async () => {
      const tenant = await createTenant(api, [...WEBHOOK_SCOPES]);
      const url = `${receiver.current.url}/hook`;
      const { body } = await tenant.post("/v1/webhooks/endpoints", { url, events: ["*"] });
      const path = `/v1/webhooks/endpoints/${String(body["id"])}`;
      await eventually(async () => (await tenant.get(path)).body["state"] === "ACTIVE", "an ACTIVE endpoint");
      const before = Date.now();
      const event = await tenant.post("/v1/events", { type: "now.one", data: { n: 1 } });
      expect(Date.parse(String(event.body["created_at"]))).toBeGreaterThan(before - 60_000);
      const untilOne = async (state: string): Promise<string> =>
        await eventually(async () => {
          const found = rows(await tenant.get(`/v1/webhooks/deliveries?state=${state}`));
          return found.length === 1 ? String(found[0]?.["id"]) : undefined;
        }, `one delivery that is ${state}`);
      await untilOne("DELIVERED");
      receiver.current.answer([{ kind: "answer", status: 500 }]);
      await tenant.post("/v1/events", { type: "now.two", data: {} });
      const dead = await untilOne("DEAD_LETTERED");
      receiver.current.answer([{ kind: "answer" }]);
      await tenant.post(`/v1/webhooks/dlq/${dead}/replay`);
      await eventually(
        async () => (await tenant.get(`/v1/webhooks/deliveries/${dead}`)).body["state"] === "DELIVERED",
        "the replay",
      );
      // The lines of changes were deleted.
      await eventually(
        async () =>
          (await ask(api.database.adminUrl, "SELECT FROM delivery_changes")).length === 0 &&
          (await ask(api.database.adminUrl, "SELECT FROM delivery_counts WHERE delivered > 0")).length === 2,
        "the counts",
      );
      expect(api.log.filter((line) => line.includes('"level":"error"'))).toEqual([]);
    });

    test.each([false, true])(
      "leaves sessions what they rely on, behind a pooler: %s",
      async (sharesSessions) => {
        const shown = Object.keys(INHERITED).map((name) => `current_setting('${name}') AS "${name}"`);
        const [settings] = await askAs<Record<string, string>>(
          api.database.url,
          sharesSessions,
          `SELECT ${shown.join(", ")}, current_setting('transaction_isolation') AS isolation`,
        );
        expect(settings).toMatchObject({
          DateStyle: expect.stringMatching(/^ISO/),
          IntervalStyle: "postgres",
          TimeZone: "UTC",
          standard_conforming_strings: "on",
          extra_float_digits: "1",
          array_nulls: "on",
          transform_null_equals: "off",
          search_path: "public",
          lock_timeout: "0",
          statement_timeout: "8s",
          idle_in_transaction_session_timeout: "15s",
          isolation: "read committed",
          row_security: "on",
          plan_cache_mode: "force_generic_plan",
        });
      },
    );

    test("has a primary key on every table, by which replication finds a deleted row", async () => {
      const without = await ask(
        api.database.adminUrl,
        `SELECT oid::regclass::text AS table FROM pg_class WHERE relnamespace = 'public'::regnamespace
           AND relkind IN ('r', 'p') AND NOT EXISTS (SELECT FROM pg_index WHERE indrelid = pg_class.oid AND indisprimary)`,
      );
      expect(without).toEqual([]);
    });

    test.each(["LATIN1", "SQL_ASCII"])("is not used with the encoding %s", async (encoding) => {
      const name = encoding.toLowerCase();
      await execute(
        server.current.url,
        `CREATE DATABASE ${name} TEMPLATE template0 ENCODING '${encoding}' LOCALE_PROVIDER libc LC_COLLATE 'C' LC_CTYPE 'C'`,
      );
      const other = databaseOf(server.current.url, name);
      const because = `the database ${name} has the encoding ${encoding}, but Signet needs UTF8`;
      await expect(migrate(other)).rejects.toThrow(because);
      const pool = createPool({ url: other.url, role: "signet_api", max: 1, log });
      try {
        const settings = { databaseUrl: other.url, development: false };
        await expect(requireUsableDatabase(pool, settings, settings)).rejects.toThrow(because);
      } finally {
        await pool.end();
      }
    });
  });
});
