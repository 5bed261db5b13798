/** The steps of docs/operations.md, Upgrade, as they stand, on the database of each release that can be upgraded so. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Client, Connection } from "@temporalio/client";
import { describe, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { readMigrations } from "#database/migration-files.ts";
import { unqueryable } from "#temporal/namespace.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { type SpawnedProcess, spawnSignet } from "../support/processes.ts";
import { type Run, startSignet } from "../support/signet-command.ts";
import { execute } from "../support/test-database.ts";
import { startWorkerProcess } from "../support/worker-process.ts";
import { makeWorld } from "../support/world.ts";
import { createReleaseDatabase, KEPT, keysOf } from "./releases.ts";

allowMinutes(4);

const OPERATIONS = join(import.meta.dirname, "..", "..", "docs", "operations.md");

/** Returns the numbered steps of the page, each from its first word on. */
async function steps(): Promise<string[]> {
  const [, upgrade = ""] = /^## Upgrade\n([\s\S]*?)^##/m.exec(await readFile(OPERATIONS, "utf8")) ?? [];
  return [...upgrade.matchAll(/^\d\. (.*)$/gm)].map(([, text = ""]) => text);
}

/** Runs the command that a step begins with: Run `signet …`. */
async function follow(step: string | undefined, environment: Environment): Promise<Run> {
  const [, line = ""] = /^Run `signet ([^`]+)`/.exec(step ?? "") ?? [];
  return await startSignet(line.split(" "), environment).ended;
}

/** What the release's own worker has done until now: it delivers, and replaces signing keys. */
const OLD_WORKER = `UPDATE public.deliveries SET state = 'DELIVERED', next_attempt_at = NULL
    WHERE state IN ('QUEUED', 'RETRYING');
  UPDATE public.signing_keys SET activated_at = now() - interval '1 hour' WHERE state = 'CURRENT'`;

/** Removes the search attributes that the release's namespace did not have. */
async function removeNewAttributes({ connection, options: { namespace } }: Client): Promise<void> {
  const searchAttributes = ["SignetDead", "SignetExpires"];
  await (connection as Connection).operatorService.removeSearchAttributes({ namespace, searchAttributes });
  const missing = async (): Promise<boolean> =>
    (await unqueryable(connection, namespace)).length === searchAttributes.length;
  await eventually(missing, "the namespace to lack them");
}

async function startApi(environment: Environment): Promise<SpawnedProcess> {
  const [publicPort = 0, adminPort = 0, metricsPort = 0] = await freePorts(3);
  const api = spawnSignet(["api"], {
    ...environment,
    SIGNET_API_LISTEN: `127.0.0.1:${publicPort}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${adminPort}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metricsPort}`,
  });
  await eventually(
    async () => api.state() !== undefined || (await fetch(`http://127.0.0.1:${metricsPort}/readyz`)).ok,
    "the api to be ready",
  );
  return api;
}

describe.each(["0.2.0", "0.3.0"])("the upgrade from %s", (release) => {
  test("goes through every step of the page, and each says what the page says", async () => {
    const [, check, migrate, workers, apis, end, ...others] = await steps();
    expect(others).toEqual([]);
    const database = await createReleaseDatabase(release);
    const world = await makeWorld({ database, environment: { ...KEPT, ...(await keysOf(release)) } });
    const environment = { ...world.environment, SIGNET_DATABASE_ADMIN_URL: database.adminUrl };
    const processes: SpawnedProcess[] = [];
    try {
      await execute(database.adminUrl, OLD_WORKER);
      await removeNewAttributes(world.temporal);
      const { rows } = await world.sql.query("SELECT FROM schema_migrations");
      const pending = (await readMigrations()).length - rows.length;

      const before = await follow(check, environment);
      expect(before.stdout).toMatch(
        new RegExp(`^ok +database +reachable, ${pending} migrations will be applied$`, "m"),
      );
      expect(before.stdout).toMatch(/^ok +replay +0 open workflows would continue with this build$/m);
      expect(before).toMatchObject({ code: 0, stdout: expect.not.stringContaining("FAIL") });
      expect((await world.sql.query("SELECT FROM schema_migrations")).rowCount).toBe(rows.length);

      expect(await follow(migrate, environment)).toMatchObject({ code: 0 });
      expect(workers).toMatch(/^Replace the workers/);
      processes.push(await startWorkerProcess(world));
      expect(apis).toMatch(/^Replace the apis/);
      const api = await startApi(environment);
      processes.push(api);
      expect(api.state()).toBeUndefined();

      await eventually(
        async () => {
          const { rowCount } = await world.sql.query(
            "SELECT FROM uncounted_hours WHERE hour = 'infinity' OR hour <= now() - interval '1 hour' LIMIT 1",
          );
          return rowCount === 0;
        },
        "the stored deliveries to be counted",
        200_000,
      );
      const after = await follow(end, environment);
      expect(after).toMatchObject({ code: 0, stdout: expect.not.stringContaining("FAIL") });
      expect(after.stdout).toMatch(/^ok +database +reachable, schema up to date$/m);
      expect(after.stdout).toMatch(/^ok +counts +every stored delivery is counted$/m);

      await world.sql.query("INSERT INTO schema_migrations VALUES (9999, '9999-later.sql', 'x', now())");
      // Going back: a version starts on every schema that contains its own.
      const old = await startSignet(["doctor"], environment).ended;
      expect(old).toMatchObject({ code: 0 });
      expect(old.stdout).toMatch(/^ok +database +reachable, schema up to date$/m);
    } finally {
      await Promise.all(processes.map(async (process) => await process.stop("SIGKILL")));
      await world.close();
    }
  });
});
