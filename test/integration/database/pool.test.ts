/** A broken connection fails its holder's next query, not the process. */
import { expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
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
