/** A broken connection fails its holder's next query, not the process. Named statements keep to their connections. */
import { expect, test } from "vitest";
import { createPool, type Pool } from "#database/pool.ts";
import { queryInOrder } from "#database/transaction.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { execute } from "#test/support/test-database.ts";

const database = useTestDatabase();

test("a connection that breaks while checked out and idle does not end the process", async () => {
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: database.url, role: "signet_edge", max: 1, log });
  try {
    const held = await pool.connect();
    const { rows } = await held.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
    // Vitest fails a run with an uncaught error, just as Node would end the process.
    const ended = new Promise((resolve) => void held.once("end", resolve));
    await execute(database.adminUrl, `SELECT pg_terminate_backend(${rows[0]?.pid})`);
    await ended;
    await expect(held.query("SELECT")).rejects.toThrow(/not queryable|terminated/);
    held.release(true);
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
  } finally {
    await pool.end();
  }
});

test("a named statement goes to an idle connection that has planned it, whichever was used last", async () => {
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: database.url, role: "signet_edge", max: 2, log });
  const pidOf = async (db: Pick<Pool, "query">, name?: string): Promise<number> => {
    const { rows } = await db.query<{ pid: number }>({
      ...(name !== undefined && { name }),
      text: "SELECT pg_backend_pid() AS pid",
    });
    return rows[0]?.pid ?? 0;
  };
  try {
    const clients = [await pool.connect(), await pool.connect()] as const;
    const pids = [await pidOf(clients[0], "looks"), await pidOf(clients[1])];
    clients[0].release();
    clients[1].release();
    expect([await pidOf(pool), await pidOf(pool, "other")]).toEqual([pids[1], pids[1]]);
    const text = "SELECT pg_backend_pid() AS pid";
    expect(await queryInOrder(pool, { name: "looks", text })).toEqual([{ pid: pids[0] }]);
    // Both wait for the same turn. The second finds its connection lent, and plans on the other.
    expect(await Promise.all([pidOf(pool, "looks"), pidOf(pool, "looks")])).toEqual(pids);
    expect(await pidOf(pool, "other")).toBe(pids[1]);
  } finally {
    await pool.end();
  }
});
