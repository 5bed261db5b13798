/** Statements on silently dead connections fail in bounded time, and new connections replace them. */
import { execFile } from "node:child_process";
import { chown, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, type QueryResult } from "pg";
import { describe, expect, test as base } from "vitest";
import { BoundedClient } from "#database/bounded-client.ts";
import { listen } from "#database/listener.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { isDatabaseAway } from "#database/errors.ts";
import { databaseReadiness } from "#database/readiness.ts";
import { subscribe } from "#database/subscription.ts";
import { transaction } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { eventually } from "#test/support/eventually.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { skipUnless } from "#test/support/skips.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { execute } from "#test/support/test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const run = promisify(execFile);
const TIMEOUT_MS = 60_000;
const log = createLogger({ level: "silent" });
const database = useTestDatabase();

interface Line {
  readonly proxy: TcpProxy;
  /** URL of the database through the proxy. */
  readonly url: string;
  readonly pool: Pool;
  /** Listens on the channel `half_open` until the test ends. */
  readonly startListening: (onNotice: (payload: string | undefined) => void) => void;
}

/** Each test has a proxy and a pool of its own. */
const test = base.extend<{ line: Line }>({
  // oxlint-disable-next-line no-empty-pattern -- vitest requires a destructured first argument
  line: async ({}, use) => {
    const through = new URL(database.url);
    const proxy = await startTcpProxy(Number(through.port));
    through.port = String(proxy.port);
    const url = through.href;
    const pool = createPool({ url, role: "signet_worker", max: 4, log });
    const listeners: ReturnType<typeof listen>[] = [];
    const startListening: Line["startListening"] = (onNotice) =>
      void listeners.push(listen({ timers: machineTimers, url, channels: { half_open: onNotice }, log }));
    await use({ proxy, url, pool, startListening });
    await Promise.all(listeners.map(async (stop) => await stop()));
    if (!pool.ending) {
      await pool.end();
    }
    await proxy.close();
  },
});

async function askAdmin(sql: string): Promise<QueryResult> {
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  try {
    return await client.query(sql);
  } finally {
    await client.end();
  }
}

async function fill(pool: Pool): Promise<void> {
  const held = await Promise.all(Array.from({ length: 4 }, async () => await pool.connect()));
  held.forEach((client) => client.release());
}

test.concurrent(
  "a statement on a dead connection fails as if the database were away, and closes all connections of its age",
  async ({ line: { proxy, pool } }) => {
    await fill(pool);
    expect(proxy.blackHole()).toBe(4);
    const waiting = Promise.allSettled([
      pool.query("SELECT 1"),
      transaction(pool, async (client) => await client.query("SELECT 1")),
    ]);
    for (const outcome of await waiting) {
      expect(outcome).toMatchObject({ status: "rejected" });
      expect(isDatabaseAway((outcome as PromiseRejectedResult).reason)).toBe(true);
    }
    // Two were idle; the next caller must not wait for them to fail.
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect(pool.totalCount).toBe(1);
  },
  TIMEOUT_MS,
);

test.concurrent(
  "a subscription asks again before the answer to the question before",
  async ({ line: { proxy, url } }) => {
    const holder = new Client({ connectionString: database.adminUrl });
    await holder.connect();
    await holder.query("SELECT pg_advisory_lock(7001)");
    const subscription = await subscribe({
      timers: machineTimers,
      url,
      role: "signet_edge",
      channel: "half_open",
      idleMs: TIMEOUT_MS,
      onNotification: () => undefined,
      onLost: () => undefined,
    });
    const asked = [7001, 7002].map(
      async (key) => await subscription.db.query("SELECT pg_advisory_lock($1)", [key]),
    );
    const locks = async (key: number): Promise<readonly boolean[]> => {
      const { rows } = await holder.query<{ granted: boolean }>(
        "SELECT granted FROM pg_locks WHERE locktype = 'advisory' AND objid = $1 ORDER BY granted",
        [key],
      );
      return rows.map(({ granted }) => granted);
    };
    await eventually(async () => (await locks(7001)).includes(false), "the first question");
    proxy.freeze();
    await holder.query("SELECT pg_advisory_unlock(7001)");
    await eventually(
      async () => (await locks(7002)).includes(true),
      "the second question, before any answer",
    );
    proxy.thaw();
    await Promise.all(asked);
    await subscription.close();
    await holder.end();
  },
  TIMEOUT_MS,
);

test.concurrent(
  "a slow statement is cancelled by the server, and its connection remains",
  async ({ line: { pool } }) => {
    const held = await pool.connect();
    try {
      await expect(held.query("SELECT pg_sleep(30)")).rejects.toMatchObject({ code: "57014" });
      expect((await held.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    } finally {
      held.release();
    }
  },
  TIMEOUT_MS,
);

test.concurrent(
  "notifications resume after the listening connection died, and idle connections are replaced",
  async ({ line: { proxy, pool, startListening } }) => {
    const received: (string | undefined)[] = [];
    startListening((payload) => received.push(payload));
    await eventually(() => received.length >= 1, "the first notification");
    await fill(pool);
    proxy.blackHole();
    await eventually(() => received.length >= 2, "a new connection");
    await execute(database.adminUrl, "NOTIFY half_open, 'again'");
    await eventually(() => received.includes("again"), "the notification");
    // On its own, the pool would have taken 10 s to notice.
    const { rows } = await pool.query("SELECT 1 AS one");
    expect(rows).toEqual([{ one: 1 }]);
  },
  TIMEOUT_MS,
);

test.concurrent(
  "a running statement without a timeout fails once a new connection proves that the server answers",
  async ({ line: { proxy, url, startListening } }) => {
    let notifications = 0;
    startListening(() => (notifications += 1));
    const client: Client = new BoundedClient({ connectionString: url, answerMs: Number.POSITIVE_INFINITY });
    client.on("error", () => undefined);
    await client.connect();
    await eventually(() => notifications >= 1, "the first notification");
    proxy.blackHole();
    const failure = await client.query("SELECT 1").catch((error: unknown) => error);
    expect(isDatabaseAway(failure)).toBe(true);
    expect(notifications).toBeGreaterThanOrEqual(2);
  },
  TIMEOUT_MS,
);

test.concurrent(
  "a pool closes although its connections are dead and one is checked out",
  async ({ line: { proxy, pool } }) => {
    await fill(pool);
    const held = await pool.connect();
    proxy.blackHole();
    const asked = held.query("SELECT 1").then(
      () => held.release(),
      (error: Error) => held.release(error),
    );
    await pool.end();
    await asked;
    expect(pool.totalCount).toBe(0);
  },
  TIMEOUT_MS,
);

test.concurrent(
  "the server ends the sessions that a forgetful network has left there",
  async ({ line: { proxy, url, pool } }) => {
    await fill(pool);
    const asked = await Promise.all(
      Array.from(
        { length: 4 },
        async () => await pool.query("SELECT pg_backend_pid() AS pid, pg_sleep(0.1)"),
      ),
    );
    const heard = Promise.withResolvers<undefined>();
    const channels = { forgotten: () => heard.resolve(undefined) };
    const stop = listen({ timers: machineTimers, url, channels, log });
    await heard.promise;
    const listening = await askAdmin("SELECT pid FROM pg_stat_activity WHERE query LIKE '%LISTEN forgotten'");
    const pids = [...asked, listening].flatMap(({ rows }) => rows.map(({ pid }) => pid as number));
    expect(new Set(pids).size).toBe(5);
    proxy.blackHole();
    await Promise.all([stop(), pool.end()]);
    const left = `SELECT FROM pg_stat_activity WHERE pid IN (${pids.join()})`;
    expect((await askAdmin(left)).rowCount).toBe(5);
    await eventually(async () => (await askAdmin(left)).rowCount === 0, "the end of the sessions");
  },
  TIMEOUT_MS,
);

test.concurrent("a pool rejects excess waiters at once, as if the database were away", async ({
  line: { proxy, pool },
}) => {
  await fill(pool);
  proxy.freeze();
  const asked = Array.from({ length: 1_100 }, async () => await pool.query("SELECT 1"));
  const refused = Promise.all(asked.slice(-50).map(async (query) => await query.catch(isDatabaseAway)));
  const all = Promise.allSettled(asked);
  await expect(refused).resolves.toEqual(Array.from({ length: 50 }, () => true));
  proxy.thaw();
  await all;
});

describe("readiness", () => {
  const ready = async (pool: Pool): Promise<void> => {
    await databaseReadiness({ pools: [pool], writes: true, timers: machineTimers }).check();
  };

  test("every role of a writing process may perform the check", async ({ line: { url } }) => {
    for (const role of ["signet_ingest", "signet_worker"] as const) {
      const own = createPool({ url, role, max: 1, log });
      try {
        await databaseReadiness({ pools: [own], writes: true, timers: machineTimers }).check();
        // Check that the statement itself works for this role.
        await expect(own.query("SELECT pg_logical_emit_message(true, 'signet', '')")).resolves.toBeDefined();
      } finally {
        await own.end();
      }
    }
  });

  test("fails within 2 s on dead connections, and then passes at once over new ones", async ({
    line: { proxy, pool },
  }) => {
    await withoutPause(async () => {
      await fill(pool);
      proxy.blackHole();
      // Each check uses two of the four.
      for (let check = 0; check < 2; check += 1) {
        const asked = performance.now();
        await expect(ready(pool)).rejects.toThrow(/no answer/);
        expect(performance.now() - asked).toBeLessThan(3_000);
      }
      await ready(pool);
    });
  });

  test("fails if transactions are read-only, which managed servers set before their disk is full", async ({
    line: { pool },
  }) => {
    await execute(
      database.adminUrl,
      `ALTER DATABASE ${database.name} SET default_transaction_read_only = on`,
    );
    try {
      await expect(ready(pool)).rejects.toThrow(/read-only/);
    } finally {
      await execute(
        database.adminUrl,
        `BEGIN READ WRITE; ALTER DATABASE ${database.name} RESET default_transaction_read_only; COMMIT`,
      );
    }
  });

  test("fails while the disk is full, and passes when there is space again", async ({
    line: { pool },
    skip,
  }) => {
    const { rows } = await askAdmin("SHOW data_directory");
    const { uid, gid } = await stat(rows[0].data_directory);
    const directory = await mkdtemp("/tmp/signet-small-disk-");
    const ballast = join(directory, "ballast");
    const options = `size=2m,uid=${uid},gid=${gid},mode=0700`;
    const mounted = await run("mount", ["-t", "tmpfs", "-o", options, "tmpfs", directory]).then(
      () => true,
      () => false,
    );
    skip(skipUnless(mounted, "the test of a full disk", "mounting needs root and CAP_SYS_ADMIN"));
    try {
      await mkdir(join(directory, "space"));
      await chown(join(directory, "space"), uid, gid);
      await execute(database.adminUrl, `CREATE TABLESPACE small_disk LOCATION '${directory}/space'`);
      await execute(database.adminUrl, "GRANT CREATE ON TABLESPACE small_disk TO PUBLIC");
      await execute(database.adminUrl, `ALTER DATABASE ${database.name} SET temp_tablespaces = small_disk`);
      await ready(pool);
      await expect(writeFile(ballast, Buffer.alloc(4_194_304))).rejects.toThrow(/ENOSPC/);
      await expect(ready(pool)).rejects.toMatchObject({ code: "53100" });
      await rm(ballast);
      await ready(pool);
    } finally {
      await pool.end();
      await execute(database.adminUrl, `ALTER DATABASE ${database.name} RESET temp_tablespaces`);
      await execute(database.adminUrl, "DROP TABLESPACE IF EXISTS small_disk");
      await run("umount", ["--lazy", directory]);
      await rm(directory, { recursive: true });
    }
  });
});
