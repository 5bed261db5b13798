import { Client } from "pg";
import { expect, it } from "vitest";
import { createTestDatabase, testNamespace, useTestDatabase } from "#test/support/services.ts";

const database = useTestDatabase();

async function query(url: string, sql: string): Promise<unknown[]> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(sql)).rows;
  } finally {
    await client.end();
  }
}

it("a test file's database is migrated, empty and its own, and the service's login is no superuser", async () => {
  const other = await createTestDatabase();
  expect(other.name).not.toBe(database.name);
  expect(await query(other.adminUrl, "SELECT count(*)::int AS count FROM tenants")).toEqual([{ count: 0 }]);
  expect(await query(other.url, "SELECT current_setting('is_superuser') AS superuser")).toEqual([
    { superuser: "off" },
  ]);
  await other.drop();
  await expect(query(other.url, "SELECT")).rejects.toMatchObject({ code: "3D000" });
  expect(await query(database.url, "SELECT 1 AS one")).toEqual([{ one: 1 }]);
});

it("no namespace is assigned twice, even after the prepared ones are used up", async () => {
  const namespaces = await Promise.all(
    Array.from({ length: 5 }, async () => await testNamespace(["only-1", "only-2", "only-3"])),
  );
  expect(namespaces).toEqual(expect.arrayContaining(["only-1", "only-2", "only-3"]));
  expect(new Set([...namespaces, await testNamespace(), await testNamespace()]).size).toBe(7);
});
