import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { ROW_TYPES, rowTypes } from "#tools/row-types.ts";
import { useTestDatabase } from "#test/support/services.ts";

const database = useTestDatabase();

test("the types of rows match the migrated schema: run `npm run docs` when this fails", async () => {
  expect(await rowTypes(database.adminUrl)).toBe(await readFile(ROW_TYPES, "utf8"));
});
