/** What every migration must have, read from its text; test/integration/database checks the schema itself. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const MIGRATIONS = join(import.meta.dirname, "..", "..", "..", "src", "database", "migrations");
/** A table with its columns; not a partition, which has the policies of its table. */
const TABLE = /^CREATE (?:UNLOGGED )?TABLE (\w+) (\(LIKE .*|\([\s\S]*?\n\))/gm;

async function statements(): Promise<string> {
  const names = (await readdir(MIGRATIONS)).filter((name) => name.endsWith(".sql")).toSorted();
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
