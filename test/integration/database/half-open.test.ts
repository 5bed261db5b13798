/** Statements on silently dead connections fail in bounded time, and new connections replace them. */
import { execFile } from "node:child_process";
import { chown, mkdir, mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client, type QueryResult } from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { BoundedClient } from "#database/bounded-client.ts";
import { listen } from "#database/listener.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { isDatabaseAway } from "#database/errors.ts";
import { databaseReadiness } from "#database/readiness.ts";
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
let proxy: TcpProxy;
let url: string;
let pool: Pool;
let stopListening: ReturnType<typeof listen> | undefined;

beforeEach(async () => {
  const through = new URL(database.url);
  proxy = await startTcpProxy(Number(through.port));
  through.port = String(proxy.port);
  url = through.href;
  pool = createPool({ url, role: "signet_worker", max: 4, log });
});

afterEach(async () => {
  await stopListening?.();
  stopListening = undefined;
  if (!pool.ending) {
    await pool.end();
  }
  await proxy.close();
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

async function fill(): Promise<void> {
  const held = await Promise.all(Array.from({ length: 4 }, async () => await pool.connect()));
  held.forEach((client) => client.release());
}

test(
  "a statement on a dead connection fails as if the database were away, and closes all connections of its age",
  async () => {
    await fill();
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

test(
  "a slow statement is cancelled by the server, and its connection remains",
  async () => {
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

test(
  "notifications resume after the listening connection died, and idle connections are replaced",
  async () => {
    const received: (string | undefined)[] = [];
    stopListening = listen({
      timers: machineTimers,
      url,
      channels: { half_open: (payload) => received.push(payload) },
      log,
    });
    await eventually(() => received.length >= 1, "the first notification");
    await fill();
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

test(
  "a running statement without a timeout fails once a new connection proves that the server answers",
  async () => {
    let notifications = 0;
    stopListening = listen({
      timers: machineTimers,
      url,
      channels: { half_open: () => (notifications += 1) },
      log,
    });
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

test(
  "a pool closes although its connections are dead and one is checked out",
  async () => {
    await fill();
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

test("a pool rejects excess waiters at once, as if the database were away", async () => {
  await fill();
  proxy.freeze();
  const asked = Array.from({ length: 1_100 }, async () => await pool.query("SELECT 1"));
  const refused = Promise.all(asked.slice(-50).map(async (query) => await query.catch(isDatabaseAway)));
  const all = Promise.allSettled(asked);
  await expect(refused).resolves.toEqual(Array.from({ length: 50 }, () => true));
  proxy.thaw();
  await all;
});

describe("readiness", () => {
  const ready = async (): Promise<void> => {
    await databaseReadiness({ pools: [pool], writes: true, timers: machineTimers }).check();
  };

  test("every role of a writing process may perform the check", async () => {
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

  test("fails within 2 s on dead connections, and then passes at once over new ones", async () => {
    await withoutPause(async () => {
      await fill();
      proxy.blackHole();
      // Each check uses two of the four.
      for (let check = 0; check < 2; check += 1) {
        const asked = performance.now();
        await expect(ready()).rejects.toThrow(/no answer/);
        expect(performance.now() - asked).toBeLessThan(3_000);
      }
      await ready();
    });
  });

  test("fails if transactions are read-only, which managed servers set before their disk is full", async () => {
    await execute(
      database.adminUrl,
      `ALTER DATABASE ${database.name} SET default_transaction_read_only = on`,
    );
    try {
      await expect(ready()).rejects.toThrow(/read-only/);
    } finally {
      await execute(
        database.adminUrl,
        `BEGIN READ WRITE; ALTER DATABASE ${database.name} RESET default_transaction_read_only; COMMIT`,
      );
    }
  });

  test("fails while the disk is full, and passes when there is space again", async ({ skip }) => {
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
      await ready();
      await expect(writeFile(ballast, Buffer.alloc(4_194_304))).rejects.toThrow(/ENOSPC/);
      await expect(ready()).rejects.toMatchObject({ code: "53100" });
      await rm(ballast);
      await ready();
    } finally {
      await pool.end();
      await execute(database.adminUrl, `ALTER DATABASE ${database.name} RESET temp_tablespaces`);
      await execute(database.adminUrl, "DROP TABLESPACE IF EXISTS small_disk");
      await run("umount", ["--lazy", directory]);
      await rm(directory, { recursive: true });
    }
  });
});
