import { execFile } from "node:child_process";
import { readdirSync } from "node:fs";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { readMigrations } from "#database/migration-files.ts";

const MODULE = new URL("../../../src/database/migration-files.ts", import.meta.url);
const FILES = readdirSync(new URL("migrations/", MODULE)).filter((name) => name.endsWith(".sql"));
/** Node itself needs about 20. */
const DESCRIPTORS = 40;

test("a process with fewer descriptors left than there are migrations reads them all", async () => {
  expect(FILES.length).toBeGreaterThan(DESCRIPTORS);
  const program = `const { readMigrations } = await import(${JSON.stringify(MODULE.href)});
    console.log((await readMigrations()).length)`;
  const { stdout } = await promisify(execFile)("/bin/sh", [
    "-c",
    'ulimit -n "$0" && exec "$@"',
    String(DESCRIPTORS),
    process.execPath,
    "--input-type=module",
    "--eval",
    program,
  ]);
  expect(Number(stdout)).toBe(FILES.length);
});

test("the migrations are read once for all readiness checks of a process", async () => {
  expect(await readMigrations()).toBe(await readMigrations());
});
