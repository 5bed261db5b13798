/** The next release can leave its record: record.ts runs on today's build, and every table of today's schema has rows. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gunzipSync } from "node:zlib";
import { expect, test } from "vitest";
import { findSystemPostgres } from "../bench/environment/system-postgres.ts";
import { allowMinutes } from "../support/limits.ts";
import { imageEnvironment, productionImage } from "../support/processes.ts";
import { skipUnless } from "../support/skips.ts";

allowMinutes(10);

const run = promisify(execFile);
const RECORD = join(import.meta.dirname, "record.ts");
const VERSION = "99.0.0";
const PARTITION = /_(?:\d{8}|default)$/;

const NO_POSTGRES = skipUnless(
  (await findSystemPostgres()) !== undefined,
  "the record of a release",
  "Debian's PostgreSQL is missing; .ci/programs installs it",
);

test.skipIf(NO_POSTGRES)("a release's record has its keys, its schema, and rows in every table", async () => {
  const place = await mkdtemp(join(tmpdir(), "signet-record-"));
  try {
    const dist = join(productionImage(), "dist/");
    const env = { ...process.env, ...imageEnvironment() };
    await run(process.execPath, [RECORD, VERSION, dist, place], { env, maxBuffer: 1 << 26 });
    const directory = join(place, VERSION);
    expect((await readdir(directory)).toSorted()).toEqual(["keys.json", "rows.sql.gz", "schema.sql.gz"]);
    const [schema, rows] = await Promise.all(
      ["schema", "rows"].map(async (name) =>
        gunzipSync(await readFile(join(directory, `${name}.sql.gz`))).toString("utf8"),
      ),
    );
    const namesIn = (text = "", pattern: RegExp): Set<string> =>
      new Set([...text.matchAll(pattern)].map(([, name = ""]) => name));
    const tables = namesIn(schema, /^CREATE TABLE public\.(\w+)/gm);
    const filled = namesIn(rows, /^INSERT INTO public\.(\w+)/gm);
    expect(tables).toContain("deliveries");
    expect([...tables].filter((name) => !PARTITION.test(name) && !filled.has(name))).toEqual([]);
  } finally {
    await rm(place, { recursive: true, force: true });
  }
});
