/** Reads the records of releases that record.ts has written. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { gunzipSync } from "node:zlib";
import { inject } from "vitest";
import { createDatabase, execute, type TestDatabase } from "../support/test-database.ts";

const HERE = new URL("./", import.meta.url);
export const RELEASES: readonly string[] = (await readdir(HERE)).filter((name) =>
  /^\d+\.\d+\.\d+$/.test(name),
);

async function readSql(release: string, file: string): Promise<string> {
  return gunzipSync(await readFile(new URL(`${release}/${file}.sql.gz`, HERE))).toString("utf8");
}

/** Fills an empty database with a release's schema and rows. */
export async function loadRelease(release: string, adminUrl: string): Promise<void> {
  for (const file of ["schema", "rows"]) {
    await execute(adminUrl, await readSql(release, file));
  }
}

/**
 * Moves what ends at a time, so that the upgrade comes three days after the record, whenever the test runs.
 * Other times stay: ids carry their day, and the sealed rows name these ids.
 */
const THREE_DAYS_LATER = `DO $$
  DECLARE
    passed interval := now() - (SELECT max(created_at) FROM events) - interval '3 days';
  BEGIN
    UPDATE deliveries SET expires_at = expires_at + passed WHERE expires_at IS NOT NULL;
    IF to_regclass('endpoint_failures') IS NOT NULL THEN
      UPDATE endpoint_failures SET failing_since = failing_since + passed, exhausted_at = exhausted_at + passed;
    END IF;
  END $$`;

/** Creates a database as a release has left it three days ago. */
export async function createReleaseDatabase(release: string): Promise<TestDatabase> {
  const database = await createDatabase(inject("databaseUrl"), "release");
  await loadRelease(release, database.adminUrl);
  await execute(database.adminUrl, THREE_DAYS_LATER);
  return database;
}

/** Settings of a world that holds a record of any age: its days are kept. */
export const KEPT: Readonly<Record<string, string>> = { SIGNET_RETENTION_DAYS: "3650" };

/** Returns the settings for the keys that sealed the rows; undefined if they were not kept (0.1.0). */
export async function keysOf(release: string): Promise<Readonly<Record<string, string>> | undefined> {
  const url = new URL(`${release}/keys.json`, HERE);
  return existsSync(url) ? (JSON.parse(await readFile(url, "utf8")) as Record<string, string>) : undefined;
}
