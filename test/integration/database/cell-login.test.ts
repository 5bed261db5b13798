/** What a cell's login may do at the home cell's database (decision 35, migrations 0054 and 0063). */
import { createHash, randomBytes } from "node:crypto";
import { Client } from "pg";
import { expect, test } from "vitest";
import { cellEntry } from "#compliance/cell-entry.ts";
import { encodeEntry } from "#compliance/entry.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool } from "#database/pool.ts";
import { appendCellEntries, type CellEntries, readHomeTenants } from "#database/repositories/cells.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { execute } from "#test/support/test-database.ts";

const database = useTestDatabase();

/** Creates a login, and binds it to a cell as `signet migrate` does in the home cell. */
async function loginOf(cell: string | undefined, name = cell): Promise<string> {
  const url = new URL(database.adminUrl);
  url.username = `cell_${name}_${database.name}`;
  url.password = "of-the-cell";
  await migrateDatabase({
    timers: machineTimers,
    adminUrl: database.adminUrl,
    cell: { url: url.href, name: cell },
    nowMs: Date.now(),
  });
  return url.href;
}

const leaf = (text: string): Buffer => createHash("sha256").update(text).digest();
/** Entries of a log, from `first` on, each named by a letter of `names`. */
function entries(cell: string, names: string, { first = 0, now = () => Date.now() } = {}): CellEntries {
  const all = names.split("");
  return {
    cell,
    first,
    leafBefore: first === 0 ? null : leaf(all[first - 1] ?? ""),
    leaves: all.slice(first).map(leaf),
    entries: all.slice(first).map((name, index) => {
      const parts = encodeEntry(
        { type: "endpoint.created", actor: "system:test", tenant: null, target: name },
        { clock: { ...systemClock, now }, randomBytes },
      );
      const own = Buffer.concat([parts.beforeIndex, Buffer.from(String(first + index)), parts.afterIndex]);
      return cellEntry(own, cell);
    }),
  };
}

async function append(given: CellEntries, as: string) {
  const pool = createPool({
    url: as,
    role: "signet_cell",
    max: 1,
    log: createLogger({ level: "silent" }),
  });
  try {
    return await appendCellEntries(pool, given);
  } finally {
    await pool.end();
  }
}

test("takes each entry once, and none beyond a gap", async () => {
  const login = await loginOf("ap");
  expect(await append(entries("ap", "ab"), login)).toBe(2);
  expect(await append(entries("ap", "ab"), login)).toBe(2);
  expect(await append(entries("ap", "abc", { first: 1 }), login)).toBe(3);
  expect(await append(entries("ap", "abcdef", { first: 5 }), login)).toBe(3);
});

test("refuses another past, and entries of other cells", async () => {
  const login = await loginOf("xx");
  expect(await append(entries("xx", "ab"), login)).toBe(2);
  await expect(append(entries("xx", "xyz"), login)).rejects.toThrow(
    "is not the one whose 2 entries are here",
  );
  await expect(append(entries("xx", "xyz", { first: 2 }), login)).rejects.toThrow(
    "is not the one whose 2 entries are here",
  );
  const stranger = await loginOf("yy");
  await expect(append({ ...entries("xx", "ab"), cell: "yy" }, stranger)).rejects.toThrow("names its cell");
});

test("a login sends the log of the cell that it was made for, and takes no other name", async () => {
  const login = await loginOf("us");
  const refused = "is not that of the cell";
  // Names of the home cell, of a cell to come, and of another cell.
  await loginOf("sa");
  for (const name of ["eu", "zz", "sa"]) {
    await expect(append(entries(name, "a"), login)).rejects.toThrow(refused);
  }
  await expect(append(entries("us", "a"), database.url)).rejects.toThrow(refused);
  // So the name is free for its own login.
  expect(await append(entries("zz", "a"), await loginOf("zz"))).toBe(1);
  // Migrations change no binding, and need no name for a login that has one.
  await expect(loginOf("us", "other")).rejects.toThrow('the log of the cell "us" belongs to the login');
  await expect(loginOf("mx", "us")).rejects.toThrow('belongs to the cell "us"');
  await expect(loginOf(undefined, "new")).rejects.toThrow("SIGNET_HOME_DATABASE_CELL must name the cell");
  expect(await append(entries("us", "a"), await loginOf(undefined, "us"))).toBe(1);
});

test("what a cell sends is bounded in size, time and number", async () => {
  const login = await loginOf("br");
  const day = 86_400_000;
  const late = entries("br", "a", { now: () => Date.now() - 30 * day });
  expect(await append(late, login)).toBe(1);
  expect(await append(entries("br", "ab", { first: 1 }), login)).toBe(2);
  for (const wrong of [Date.now() + day, Date.now() - 2 * day]) {
    const given = entries("br", "abc", { first: 2, now: () => wrong });
    await expect(append(given, login)).rejects.toThrow("not from the future, nor a day older");
  }
  const [part] = entries("br", "abc", { first: 2 }).entries;
  const long = Buffer.from(`,"reason":"${"x".repeat(65_536)}"}`);
  const large = { ...entries("br", "abc", { first: 2 }), entries: [{ ...part!, afterIndex: long }] };
  await expect(append(large, login)).rejects.toThrow("at most 65536 bytes");
  const many = entries("br", "ab".padEnd(10_002, "c"), { first: 2 });
  await expect(append(many, login)).rejects.toThrow("too many entries");
});

test("a session of a cell that stays open holds up no entry of the home cell", async () => {
  const login = await loginOf("mx");
  const db = new Client({ connectionString: login });
  await db.connect();
  try {
    await db.query("SET ROLE signet_cell; SET idle_in_transaction_session_timeout = 0; BEGIN");
    await appendCellEntries(db, entries("mx", "a"));
    await execute(
      database.adminUrl,
      `SET lock_timeout = '2s'; SELECT FROM clog_head WHERE log_id = 1 FOR UPDATE`,
    );
  } finally {
    await db.end();
  }
});

test("a cell reads only what changes, also in a dump from a server with higher transaction ids", async () => {
  const insert = (id: string): string =>
    `INSERT INTO tenants (id, name, region, data_key, created_at) VALUES ('${id}', '${id}', 'eu', '', now());`;
  await execute(
    database.adminUrl,
    `ALTER TABLE tenants DISABLE TRIGGER tenants_change; ${insert("ten_dumped")}
      UPDATE tenants SET changed_by = '4000000000' WHERE id = 'ten_dumped';
      ALTER TABLE tenants ENABLE TRIGGER tenants_change`,
  );
  const home = new Client({ connectionString: await loginOf("cl") });
  await home.connect();
  try {
    await home.query("SET ROLE signet_cell");
    const read = async (since: string | null) => {
      const { tenants, upto } = await readHomeTenants(home, { since, after: "", limit: 10 });
      return { ids: tenants.map(({ id }) => id), upto };
    };
    const all = await read(null);
    expect(all.ids).toContain("ten_dumped");
    expect(await read(all.upto)).toMatchObject({ ids: [] });
    await execute(database.adminUrl, insert("ten_new"));
    expect(await read(all.upto)).toMatchObject({ ids: ["ten_new"] });
  } finally {
    await home.end();
  }
});

test("no other column holds ids or positions that mean nothing on another server", async () => {
  const client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  const { rows } = await client.query<{ name: string }>(
    `SELECT DISTINCT concat_ws('.', table_name, column_name) AS name FROM information_schema.columns
      WHERE table_schema = 'public'
        AND (udt_name ~ '^_?(xid8?|cid|tid|oid|pg_lsn|pg_snapshot|txid_snapshot|reg[a-z]+)$')`,
  );
  await client.end();
  expect(rows.map(({ name }) => name)).toEqual(["tenants.changed_by"]);
});

test("a cell's login reads tenants and revocations, and nothing else", async () => {
  const db = new Client({ connectionString: await loginOf("ca") });
  await db.connect();
  for (const table of [
    "tenants",
    "credentials",
    "events",
    "clog",
    "signing_keys",
    "lease_keys",
    "cell_entries",
    "lock_slots",
  ]) {
    await db.query("SET ROLE signet_cell");
    await expect(db.query(`SELECT * FROM ${table}`)).rejects.toThrow("permission denied");
  }
  await expect(db.query("SET ROLE signet_operator")).rejects.toThrow("permission denied");
  await db.end();
});
