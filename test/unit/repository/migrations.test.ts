/** What every migration must have, read from its text; test/integration/database checks the schema itself. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { indexesOf } from "#database/apply-migrations.ts";

const MIGRATIONS = join(import.meta.dirname, "..", "..", "..", "src", "database", "migrations");
/** A table with its columns; not a partition, which has the policies of its table. */
const TABLE = /^CREATE (?:UNLOGGED )?TABLE (\w+) (\(LIKE .*|\([\s\S]*?\n\))/gm;

async function migrationNames(): Promise<string[]> {
  return (await readdir(MIGRATIONS)).filter((name) => name.endsWith(".sql")).toSorted();
}

async function textOf(name: string): Promise<string> {
  return (await readFile(join(MIGRATIONS, name), "utf8")).replaceAll(/--.*/g, "");
}

async function statements(): Promise<string> {
  const names = await migrationNames();
  const texts = await Promise.all(names.map(async (name) => await readFile(join(MIGRATIONS, name), "utf8")));
  return texts.join("\n").replaceAll(/--.*/g, "");
}

it("row-level security is enabled and forced on every table with a tenant", async () => {
  const text = await statements();
  const tables = [...text.matchAll(TABLE)].filter(
    // A table like another may have its tenant.
    ([, name, columns = ""]) => name === "tenants" || /\btenant_id\b|^\(LIKE /.test(columns),
  );
  const names = tables.map(([, name = ""]) => name);
  expect(names).toEqual(expect.arrayContaining(["tenants", "endpoints", "deliveries", "portal_sessions"]));
  for (const step of ["ENABLE", "FORCE"]) {
    const without = names.filter((name) => !text.includes(`ALTER TABLE ${name} ${step} ROW LEVEL SECURITY;`));
    expect(without, step).toEqual([]);
  }
});

describe("no migration after 0.2.0 reads or writes stored rows while its locks stop others", async () => {
  /** What makes PostgreSQL read all rows of a table under the lock of ALTER TABLE. */
  const READS =
    /NO FORCE ROW|SET NOT NULL|\bTYPE\b|\bSTORED\b|\b(?:UNIQUE|PRIMARY KEY|REFERENCES|EXCLUDE)\b|DEFAULT (?:gen_random|clock_timestamp|now)/;
  /** No release has had it: migration 0046 creates it a moment before. */
  const EMPTY = "delivery_changes";
  const later = (await migrationNames()).filter((name) => name > "0035");

  it.each(later)("%s", async (name) => {
    const text = (await textOf(name)).replaceAll(/\$\$[\s\S]*?\$\$/g, "");
    const created = new Set([...text.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, table = ""]) => table));
    const changes = [...text.matchAll(/^ALTER TABLE (\w+)[^;]*;/gm)].filter(
      ([, table = ""]) => !created.has(table) && table !== EMPTY,
    );
    for (const [statement] of changes) {
      expect(statement).not.toMatch(READS);
      const checks = statement.match(/\bCHECK \(/g)?.length ?? 0;
      expect(statement.match(/NOT VALID/g)?.length ?? 0, statement).toBe(checks);
    }
    for (const [, table = ""] of text.matchAll(/^(?:UPDATE|DELETE FROM|INSERT INTO) (\w+)/gm)) {
      expect(created).toContain(table);
    }
    // Built beforehand, beside writers.
    expect(indexesOf(text)).toHaveLength(text.match(/\bCREATE (?:UNIQUE )?INDEX\b/g)?.length ?? 0);
  });
});

it.each([
  ["0038-endpoints-that-are-gone.sql", "dca993e83461beb703831066ed5c653aaadb17740b28f9ec48c089ddbb1201f2"],
  [
    "0039-policies-over-the-revocations.sql",
    "6632e2937b54a4ae0708ecb4880ce1f5a04be729f506074af12a9d84e61fffa0",
  ],
  ["0046-delivery-counts.sql", "b1c312f07d3829e3db349b8a41e4f1fcdfdf8a8d3396f86d7236731d61e80446"],
  ["0048-resends.sql", "911498e2f83bf988b6473d647e01f54548174100309d62df54267014eba8bbba"],
  ["0049-portal-brands-and-names.sql", "ec2c31bf6edda8679fa7b057ef1834dce4976a8de040ef658ed42e8786c55d94"],
  ["0054-cells.sql", "2a91ccace39a65e4bf2d083eee72f00fbc208890a4c010477d0fe4c753c6cf52"],
])("%s, which is not what databases recorded, stays as it is", async (name, sha256) => {
  const text = await readFile(join(MIGRATIONS, name), "utf8");
  expect(createHash("sha256").update(text).digest("hex")).toBe(sha256);
});
