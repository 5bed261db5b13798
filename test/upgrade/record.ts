/**
 * Records the state of a release for the upgrade test of later ones. Run it once per release, on its build:
 *
 *   npm run build && node src/bootstrap.mjs run test/upgrade/record.ts 0.3.0
 *
 * It runs the service, has a little of everything happen, and writes schema, rows and the keys that open
 * them to test/upgrade/<version>/, or to the directory after the build's. Needs Debian's PostgreSQL for pg_dump. The release's workflow histories are those of
 * test/replay, which only gain files: name the new ones there.
 */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { withClient } from "../bench/environment/postgres.ts";
import { accessToken, type Tenant } from "../bench/environment/provision.ts";
import { DIST, type Signet } from "../bench/environment/signet.ts";
import { startStack } from "../bench/environment/stack.ts";
import { findSystemPostgres } from "../bench/environment/system-postgres.ts";
import { World } from "../bench/environment/world.ts";
import { dataHead, dataTail, indexText } from "../bench/load/event-id.ts";
import { LoadGenerator } from "../bench/load/load-generator.ts";
import { eventually } from "../support/eventually.ts";
import { Everything } from "./everything.ts";

const run = promisify(execFile);
const log = (line: string): void => console.error(line);
const EVENTS = 3;
const RUN = "0a1b2c3d";
const DATA_BYTES = 80;
/** Keys that decrypt the recorded rows; used for nothing else. */
const KEYS = {
  SIGNET_KEK: randomBytes(32).toString("base64"),
  SIGNET_PEPPER: randomBytes(32).toString("base64"),
} as const;

interface Publication {
  readonly type: string;
  /** Index of the event within the run. */
  readonly index: number;
  readonly key: string | undefined;
}

async function publish({ apiUrl }: Signet, token: string, { type, index, key }: Publication): Promise<void> {
  const response = await fetch(`${apiUrl}/v1/events`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      ...(key === undefined ? {} : { "idempotency-key": key }),
    },
    body: `{"type":"${type}","data":${dataHead(RUN)}${indexText(index)}${dataTail(RUN, DATA_BYTES)}}`,
  });
  if (response.status !== 202) {
    throw new Error(`${response.status} ${await response.text()}`);
  }
}

async function untilEnded(world: World): Promise<void> {
  await withClient(world.adminDatabaseUrl, async (client) => {
    await eventually(
      async () => {
        const { rows } = await client.query(
          "SELECT FROM deliveries WHERE state IN ('QUEUED', 'RETRYING') LIMIT 1",
        );
        return rows.length === 0;
      },
      "every delivery to end",
      120_000,
    );
  });
}

/** Creates deliveries that arrive, fail permanently, and wait. Leaves a worker that did not shut down gracefully. */
async function live(world: World, load: LoadGenerator): Promise<void> {
  const { tenants, types, endpoints } = await world.group({
    name: "release",
    tenants: 2,
    endpointsPerTenant: 2,
    fanOut: "one",
  });
  await load.begin(RUN, 100);
  await load.behave(endpoints.slice(1, 2), { kind: "fail", attempts: 100 });
  let index = 0;
  const publishAll = async (tenant: Tenant, times: number): Promise<void> => {
    const token = await accessToken(world.signet, tenant);
    for (let time = 0; time < times; time += 1) {
      for (const type of types) {
        await publish(world.signet, token, { type, index, key: time === 0 ? `key-${index}` : undefined });
        index += 1;
      }
    }
  };
  const [first] = tenants;
  if (first === undefined) {
    throw new Error("the group has no tenants");
  }
  const everything = new Everything(world, first);
  await everything.provision();
  await everything.own(endpoints[0]?.url ?? "");
  const { type, token } = everything.typed;
  const publishTyped = async (times: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      await publish(world.signet, token, { type, index, key: undefined });
      index += 1;
    }
  };
  await publishTyped(EVENTS);
  for (const tenant of tenants) {
    await publishAll(tenant, EVENTS);
  }
  await untilEnded(world);
  await everything.log();
  await withClient(world.adminDatabaseUrl, async (client) => {
    await eventually(
      async () => (await client.query("SELECT FROM endpoint_health LIMIT 1")).rows.length === 1,
      "the health of the endpoint that failed",
    );
  });
  await everything.replay();
  await untilEnded(world);
  // A worker reports dead letters a minute later, so the rows last no longer than that.
  await everything.untilRows("dead_letter_notices");
  await world.signet.worker.kill();
  await everything.elsewhere();
  // The next worker counts it.
  await everything.replayOne();
  await publishTyped(1);
  for (const tenant of tenants) {
    await publishAll(tenant, 1);
  }
}

/** The dump needs this: functions name later tables, and every name is qualified. */
const PREAMBLE = `SET check_function_bodies = false;
SELECT pg_catalog.set_config('search_path', '', false);

`;

/** Removes text that differs between runs and versions of pg_dump. */
function withoutNoise(sql: string): string {
  const kept = sql.split("\n").filter((line) => !/^(--|\\|SET |SELECT pg_catalog\.set_config)/.test(line));
  return `${PREAMBLE}${kept
    .join("\n")
    .replaceAll(/\n{3,}/g, "\n\n")
    .trim()}\n`;
}

async function dump(world: World, directory: string): Promise<void> {
  const programs = await findSystemPostgres();
  if (programs === undefined) {
    throw new Error("Debian's PostgreSQL is required for pg_dump");
  }
  const parts = {
    "schema.sql": ["--schema-only"],
    "rows.sql": ["--data-only", "--column-inserts", "--load-via-partition-root"],
  };
  for (const [file, options] of Object.entries(parts)) {
    const { stdout } = await run(join(programs, "pg_dump"), [...options, world.adminDatabaseUrl], {
      maxBuffer: 1 << 26,
    });
    // The dump is repetitive, so compress it.
    await writeFile(join(directory, `${file}.gz`), gzipSync(withoutNoise(stdout), { level: 9 }));
  }
  await writeFile(join(directory, "keys.json"), `${JSON.stringify(KEYS, null, 2)}\n`);
}

const [version, dist = DIST, place = import.meta.dirname] = process.argv.slice(2);
if (version === undefined || !/^\d+\.\d+\.\d+$/.test(version)) {
  throw new Error("usage: record.ts VERSION [DIST [DIRECTORY]]");
}
const directory = join(place, version);
const stack = await startStack({ postgres: "system", pruneIndexes: true, log });
const load = new LoadGenerator();
try {
  const world = await World.create({ name: "release", stack, load, dist, raised: {}, profiles: undefined });
  // The last of the 17 attempts comes within seconds, and the dead letter remains. The endpoint fails for more than ten
  // seconds, so it is slow.
  await world.run({
    SIGNET_RETRY_WINDOW_MS: "15000",
    SIGNET_PINGS_PER_HOST: "1000",
    SIGNET_STATUS_LIST_AUDIENCES: "signet",
    ...KEYS,
  });
  await live(world, load);
  await mkdir(directory, { recursive: true });
  await dump(world, directory);
  await world.stop();
} finally {
  load.stop();
  await stack.stop();
  stack.janitor.end();
}
process.exit(0);
