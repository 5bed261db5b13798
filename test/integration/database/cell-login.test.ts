/** What a cell's login may do at the home cell's database (decision 35, migration 0054). */
import { createHash, randomBytes } from "node:crypto";
import { Client } from "pg";
import { beforeAll, expect, test } from "vitest";
import { cellEntry, encodeEntry } from "../../../src/compliance/entry.ts";
import { migrateDatabase } from "../../../src/database/migrate.ts";
import { createPool } from "../../../src/database/pool.ts";
import { appendCellEntries, type CellEntries } from "../../../src/database/repositories/cells.ts";
import { systemClock } from "../../../src/domain/clock.ts";
import { createLogger } from "../../../src/observability/logger.ts";
import { useTestDatabase } from "../../support/services.ts";

const database = useTestDatabase();
let login = "";
beforeAll(async () => {
  const url = new URL(database.adminUrl);
  url.username = `cell_${database.name}`;
  url.password = "of-the-cell";
  login = url.href;
  await migrateDatabase({ adminUrl: database.adminUrl, cellUrl: login, nowMs: Date.now() });
});

const leaf = (text: string): Buffer => createHash("sha256").update(text).digest();
/** Entries of a log, from `first` on, each named by a letter of `names`. */
function entries(cell: string, names: string, first = 0): CellEntries {
  const all = names.split("");
  return {
    cell,
    first,
    leafBefore: first === 0 ? null : leaf(all[first - 1] ?? ""),
    leaves: all.slice(first).map(leaf),
    entries: all.slice(first).map((name, index) => {
      const parts = encodeEntry(
        { type: "endpoint.created", actor: "system:test", tenant: null, target: name },
        { clock: systemClock, randomBytes },
      );
      const own = Buffer.concat([parts.beforeIndex, Buffer.from(String(first + index)), parts.afterIndex]);
      return cellEntry(own, cell);
    }),
  };
}

async function append(given: CellEntries, as = login) {
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
  expect(await append(entries("ap", "ab"))).toBe(2);
  expect(await append(entries("ap", "ab"))).toBe(2);
  expect(await append(entries("ap", "abc", 1))).toBe(3);
  expect(await append(entries("ap", "abcdef", 5))).toBe(3);
});

test("refuses another past, entries of other cells, and other logins", async () => {
  expect(await append(entries("xx", "ab"))).toBe(2);
  await expect(append(entries("xx", "xyz"))).rejects.toThrow("is not the one whose 2 entries are here");
  await expect(append(entries("xx", "xyz", 2))).rejects.toThrow("is not the one whose 2 entries are here");
  await expect(append({ ...entries("xx", "ab"), cell: "yy" })).rejects.toThrow("names its cell");
  await expect(append(entries("xx", "abc", 2), database.url)).rejects.toThrow("another login");
});

test("a cell's login reads tenants and revocations, and nothing else", async () => {
  const db = new Client({ connectionString: login });
  await db.connect();
  for (const table of ["tenants", "credentials", "events", "clog", "signing_keys", "lease_keys"]) {
    await db.query("SET ROLE signet_cell");
    await expect(db.query(`SELECT * FROM ${table}`)).rejects.toThrow("permission denied");
  }
  await expect(db.query("SET ROLE signet_operator")).rejects.toThrow("permission denied");
  await db.end();
});
