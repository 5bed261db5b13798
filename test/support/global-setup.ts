/**
 * Once per run: one PostgreSQL with a migrated template database, one Temporal with a pool of namespaces, and the
 * production build.
 */
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestProject } from "vitest/node";
import { migrateDatabase } from "#database/migrate.ts";
import { type EmbeddedPostgres, startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { stopLeftOverPostgres } from "#processes/embedded/postgres-cluster.ts";
import { processIdentity } from "#processes/embedded/process-identity.ts";
import { resolveTemporalBinary } from "#processes/embedded/temporal-binary.ts";
import { startEmbeddedTemporal, stopLeftOverTemporal } from "#processes/embedded/temporal.ts";
import { CACHE } from "./cache.ts";
import { freePorts } from "./free-port.ts";
import { interruptOnExit, killChildren, noteChildrenOf } from "./interrupt-on-exit.ts";
import { crashesIn } from "./postgres-log.ts";
import { makeImage } from "./production-image.ts";
import {
  execute,
  FORCES_PARALLEL_PLANS,
  PARALLEL_PLANS,
  SERVICE_LOGIN,
  TEMPLATE_DATABASE,
  THROWN_AWAY,
  withDatabase,
} from "./test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

declare module "vitest" {
  interface ProvidedContext {
    /** URL of the superuser. */
    databaseUrl: string;
    temporalAddress: string;
    /** Path of the `temporal` program. */
    temporalBinary: string;
    temporalNamespaces: string[];
    /** The run's scratch directory, removed at its end. */
    runDirectory: string;
    /** Directory with the content of the production image. */
    productionImage: string;
  }
}

const RUN_PREFIX = "signet-test-";
/** Prepared while PostgreSQL starts. Further namespaces are created when a test needs one. */
const NAMESPACES = 16;

const say = (line: string): void => console.error(`signet: ${line}`);

/** Removes the servers and files that a killed run left in the temporary directory. */
async function sweepDeadRuns(): Promise<void> {
  const temporary = await realpath(tmpdir());
  for (const name of await readdir(temporary)) {
    const directory = join(temporary, name);
    const owner = await readFile(join(directory, "owner"), "utf8").catch(() => "");
    if (
      !name.startsWith(RUN_PREFIX) ||
      owner === "" ||
      processIdentity(Number.parseInt(owner, 10)) === owner
    ) {
      continue;
    }
    killChildren(directory);
    await stopLeftOverPostgres(join(directory, "postgres", "data"), say);
    await stopLeftOverTemporal(directory, say);
    await rm(directory, { recursive: true, force: true });
  }
}

async function makeRunDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), RUN_PREFIX));
  await writeFile(join(directory, "owner"), processIdentity(process.pid) ?? "");
  // PostgreSQL runs as another user when the tests run as root.
  await chmod(directory, 0o755);
  await mkdir(join(directory, "namespaces"));
  return directory;
}

async function makeTemplate(databaseUrl: string): Promise<void> {
  await execute(databaseUrl, `CREATE DATABASE ${TEMPLATE_DATABASE}`);
  await migrateDatabase({
    timers: machineTimers,
    adminUrl: withDatabase(databaseUrl, TEMPLATE_DATABASE),
    serviceUrl: withDatabase(databaseUrl, TEMPLATE_DATABASE, SERVICE_LOGIN),
    nowMs: Date.now(),
  });
}

async function startPostgres(home: string, port: number): Promise<EmbeddedPostgres> {
  const plans = FORCES_PARALLEL_PLANS ? PARALLEL_PLANS : {};
  const settings = { ...THROWN_AWAY, ...plans };
  const postgres = await startEmbeddedPostgres({ home, port, settings, log: say });
  await makeTemplate(postgres.url);
  return postgres;
}

/** Servers and files of a run. */
interface TestRun {
  provideTo(project: TestProject): void;
  stop(): Promise<void>;
}

async function startRun(): Promise<TestRun> {
  await sweepDeadRuns();
  const binary = await resolveTemporalBinary({ environment: process.env, cacheDir: CACHE, log: say });
  const home = await makeRunDirectory();
  noteChildrenOf(home);
  const image = join(home, "image");
  const namespaces = Array.from({ length: NAMESPACES }, (_, index) => `t${index + 1}`);
  const [postgresPort = 0, temporalPort = 0] = await freePorts(2);
  const [postgres, temporal] = await Promise.all([
    startPostgres(home, postgresPort),
    startEmbeddedTemporal({
      binary: binary.path,
      home,
      port: temporalPort,
      uiPort: null,
      namespaces,
      dbFilename: null,
      // The workers of 150 namespaces poll each partition of their task queues.
      dynamicConfig: {
        "matching.numTaskqueueReadPartitions": "1",
        "matching.numTaskqueueWritePartitions": "1",
      },
      log: say,
    }),
    makeImage(image, CACHE),
  ]);
  // An interrupted run ends without a teardown.
  const left = [postgres, temporal].map(({ pid }) => interruptOnExit(() => pid));
  return {
    provideTo: (project) => {
      project.provide("databaseUrl", postgres.url);
      project.provide("temporalAddress", temporal.address);
      project.provide("temporalBinary", binary.path);
      project.provide("temporalNamespaces", namespaces);
      project.provide("runDirectory", home);
      project.provide("productionImage", image);
    },
    stop: async () => {
      left.forEach((leave) => leave());
      if (process.env["SIGNET_TEST_KEEP"] === "1") {
        say(`kept until the next run: ${postgres.url}, Temporal ${temporal.address}, ${home}`);
        return;
      }
      const killed = killChildren(home);
      if (killed.length > 0) {
        say(`killed processes that tests left: ${killed.join(", ")}`);
      }
      await Promise.all([postgres.stop(), temporal.stop()]);
      for (const crash of crashesIn(await readFile(join(home, "postgres.log"), "utf8"))) {
        say(`PostgreSQL crashed: ${crash}`);
      }
      await rm(home, { recursive: true, force: true });
    },
  };
}

/** Vitest loads this module once per project. The projects of a run share its servers. */
const shared = globalThis as { signetTestRun?: { readonly run: Promise<TestRun>; projects: number } };

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const current = (shared.signetTestRun ??= { run: startRun(), projects: 0 });
  current.projects += 1;
  const run = await current.run;
  run.provideTo(project);
  return async () => {
    current.projects -= 1;
    if (current.projects === 0) {
      delete shared.signetTestRun;
      await run.stop();
    }
  };
}
