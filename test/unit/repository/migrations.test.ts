/** What every migration must have, read from its text; test/integration/database checks the schema itself. */
import { createHash } from "node:crypto";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { indexesOf } from "../../../src/database/apply-migrations.ts";

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
  const later = (await migrationNames()).filter((name) => name > "0035");

  it.each(later)("%s", async (name) => {
    const text = (await textOf(name)).replaceAll(/\$\$[\s\S]*?\$\$/g, "");
    const created = new Set([...text.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, table = ""]) => table));
    const changes = [...text.matchAll(/^ALTER TABLE (\w+)[^;]*;/gm)].filter(
      ([, table = ""]) => !created.has(table),
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
  ["0038-endpoints-that-are-gone.sql", "e5ce4f3018e06cd8d879af49fc98b3003fb350bc7eb350733b0007a7a272927b"],
  [
    "0039-policies-over-the-revocations.sql",
    "5d2fddf5597b90f7aae214ccd17c89fa08ae58a22c63b6b79c78b4ef4cdd893c",
  ],
  ["0046-delivery-counts.sql", "29ccab4421dec2e004dc5213a9fe4f8b653d7e1405099801c3093f20553c8f62"],
  ["0048-resends.sql", "2816abc249841bcf42396d36a2483fb0cd8c27effefac491d7ec5cc345803493"],
  ["0049-portal-brands-and-names.sql", "a73ffdf420cc4bc6503276946a210266f9d17c47ee1ac4f7b329f65d71fe6711"],
  ["0054-cells.sql", "e6b1ee95d2ffa31e4b5d1ea322be7a8fb68203c8ff0b25b5cb67eb704ab8cc63"],
])("%s, which is not what databases recorded, stays as it is", async (name, sha256) => {
  const text = await readFile(join(MIGRATIONS, name), "utf8");
  expect(createHash("sha256").update(text).digest("hex")).toBe(sha256);
});
