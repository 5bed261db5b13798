/** COPY delivers all bytes, and its errors are reported like any other statement's. */
import { Pool as PgPool } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { copyOut } from "#database/copy-out.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestDatabase } from "#test/support/services.ts";

const database = useTestDatabase();
let pool: Pool;

beforeAll(() => {
  pool = createPool({
    url: database.url,
    role: "signet_audit",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
});
afterAll(async () => await pool.end());

test("rows of more than a mebibyte arrive whole and in order", async () => {
  const ROWS = 3_000;
  const bytes = await copyOut(
    pool,
    `SELECT n::int4, repeat('x', 1000) FROM generate_series(0, ${ROWS - 1}) AS n`,
  );
  const width = 2 + 4 + 4 + 4 + 1_000;
  expect(bytes).toHaveLength(ROWS * width + 2);
  for (let row = 0; row < ROWS; row += 1) {
    expect(bytes.readInt32BE(row * width + 6)).toBe(row);
  }
  expect(bytes.readInt16BE(ROWS * width)).toBe(-1);
});

test("no rows yield an empty stream", async () => {
  expect(await copyOut(pool, "SELECT 1 WHERE false")).toEqual(Buffer.from([0xff, 0xff]));
});

test("an error rejects, at once or midway, and the connection remains usable", async () => {
  await expect(copyOut(pool, "SELECT nothing")).rejects.toMatchObject({ code: "42703" });
  await expect(copyOut(pool, "SELECT 1 / (2000 - n) FROM generate_series(1, 3000) AS n")).rejects.toThrow(
    "division by zero",
  );
  expect(await copyOut(pool, "SELECT 1 WHERE false")).toHaveLength(2);
});

test("a connection that breaks midway rejects", async () => {
  const superuser = new PgPool({ connectionString: database.adminUrl, max: 1 });
  superuser.on("error", () => undefined);
  const broken = copyOut(
    superuser,
    "SELECT CASE WHEN n = 2000 THEN pg_terminate_backend(pg_backend_pid()) END FROM generate_series(1, 3000) AS n",
  );
  await expect(broken).rejects.toThrow(/terminat/);
  await superuser.end();
});
