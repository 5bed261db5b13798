/** Connections that went dead without a word: what waits on them fails in bounded time, and new ones take their place. */
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Listener, listen } from "../../../src/database/listener.ts";
import { createPool, type Pool } from "../../../src/database/pool.ts";
import { isDatabaseAway } from "../../../src/database/errors.ts";
import { transaction } from "../../../src/database/transaction.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { eventually } from "../../support/eventually.ts";
import { useTestDatabase } from "../../support/services.ts";
import { startTcpProxy, type TcpProxy } from "../../support/tcp-proxy.ts";
import { execute } from "../../support/test-database.ts";

const PATIENCE_MS = 60_000;
const log = createLogger({ level: "silent" });
const database = useTestDatabase();
let proxy: TcpProxy;
let url: string;
let pool: Pool;
let listener: Listener | undefined;

beforeEach(async () => {
  const through = new URL(database.url);
  proxy = await startTcpProxy(Number(through.port));
  through.port = String(proxy.port);
  url = through.href;
  pool = createPool({ url, role: "signet_worker", max: 4, log });
});

afterEach(async () => {
  await listener?.stop();
  listener = undefined;
  if (!pool.ending) {
    await pool.end();
  }
  await proxy.close();
});

async function fill(): Promise<void> {
  const held = await Promise.all(Array.from({ length: 4 }, async () => await pool.connect()));
  held.forEach((client) => client.release());
}

test(
  "a statement on a dead connection fails as a database that is away, and all connections of its age go with it",
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
    // Two were idle all the time: whoever comes next must not have to find out.
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect(pool.totalCount).toBe(1);
  },
  PATIENCE_MS,
);

test(
  "a statement that takes its time is cancelled by the server, and its connection stays",
  async () => {
    const held = await pool.connect();
    try {
      await expect(held.query("SELECT pg_sleep(30)")).rejects.toMatchObject({ code: "57014" });
      expect((await held.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    } finally {
      held.release();
    }
  },
  PATIENCE_MS,
);

test(
  "notifications arrive again after the connection that listened went dead, and idle connections are replaced with it",
  async () => {
    const heard: (string | undefined)[] = [];
    listener = listen({ url, channels: { half_open: (payload) => heard.push(payload) }, log });
    await eventually(() => heard.length === 1, "the first word");
    await fill();
    proxy.blackHole();
    await eventually(() => heard.length === 2, "a new connection");
    await execute(database.adminUrl, "NOTIFY half_open, 'again'");
    await eventually(() => heard.includes("again"), "the notification");
    // The pool's own connections would have had 10 s.
    const { rows } = await pool.query("SELECT 1 AS one");
    expect(rows).toEqual([{ one: 1 }]);
  },
  PATIENCE_MS,
);

test(
  "a pool ends although its connections are dead and one is held",
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
  PATIENCE_MS,
);

test("a pool refuses who would be too many to wait, at once and as a database that is away", async () => {
  await fill();
  proxy.freeze();
  const asked = Array.from({ length: 1_100 }, async () => await pool.query("SELECT 1"));
  const refused = Promise.all(asked.slice(-50).map(async (query) => await query.catch(isDatabaseAway)));
  const all = Promise.allSettled(asked);
  await expect(refused).resolves.toEqual(Array.from({ length: 50 }, () => true));
  proxy.thaw();
  await all;
});
