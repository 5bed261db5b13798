/** Temporal's server and schema tool, built once from their Go module and cached in SIGNET_CACHE. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { cp, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { type Environment, processEnvironment } from "#config/config.ts";
import { goInstall } from "#processes/embedded/go-install.ts";
import { findOnPath } from "#processes/embedded/temporal-binary.ts";

const run = promisify(execFile);

export const TEMPORAL_SERVER_VERSION = "1.32.1";
const MODULE = `go.temporal.io/server`;

export interface TemporalPrograms {
  readonly server: string;
  readonly sql: string;
  /** Directory with `temporal/versioned` and `visibility/versioned`. */
  readonly schema: string;
}

/** A build other than Temporal's own, with a cache of its own. */
export interface TemporalBuild {
  readonly name: string;
  /** Further variables of the Go toolchain. */
  readonly environment: Environment;
}

type Log = (line: string) => void;

export function findGo(): string {
  const go = findOnPath(processEnvironment(), "go");
  if (go === undefined) {
    throw new Error(
      "Building Temporal's server needs a Go toolchain on PATH (https://go.dev/dl); alternatively, set TEMPORAL_ADDRESS to a running server",
    );
  }
  return go;
}

async function install(directory: string, log: Log, build: TemporalBuild | undefined): Promise<void> {
  const args = ["server", "tools/sql"].map((name) => `${MODULE}/cmd/${name}@v${TEMPORAL_SERVER_VERSION}`);
  const what = `Temporal server ${TEMPORAL_SERVER_VERSION}`;
  log(`building ${what} with go install; once only, about 4 minutes`);
  const environment = { ...processEnvironment(), ...build?.environment };
  await goInstall({ go: findGo(), args, what, directory, environment, progress: log });
}

/** Runs `make` in a new directory, then renames the result, so that no incomplete result stays behind. */
export async function atomically(target: string, make: (draft: string) => Promise<void>): Promise<void> {
  await mkdir(join(target, ".."), { recursive: true });
  const draft = await mkdtemp(`${target}.draft-`);
  try {
    await make(draft);
    await rename(draft, target);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

async function copySchema(target: string): Promise<void> {
  const { stdout } = await run(findGo(), [
    "mod",
    "download",
    "-json",
    `${MODULE}@v${TEMPORAL_SERVER_VERSION}`,
  ]);
  const { Dir: directory } = JSON.parse(stdout) as { Dir: string };
  // The module cache is read-only; the copy must be writable.
  await cp(join(directory, "schema", "postgresql", "v12"), target, { recursive: true, mode: 0 });
  await run("chmod", ["-R", "u+w", target]);
}

/** Returns where they are cached. */
function temporalDirectory(cache: string): string {
  return join(cache, `temporal-server-${TEMPORAL_SERVER_VERSION}`);
}

/** Returns the cached programs, after building them if necessary. */
export async function temporalPrograms(
  cache: string,
  log: Log,
  build?: TemporalBuild,
): Promise<TemporalPrograms> {
  const plain = temporalDirectory(cache);
  const directory = build === undefined ? plain : `${plain}-${build.name}`;
  const programs = { server: join(directory, "server"), sql: join(directory, "sql") };
  if (!existsSync(programs.server) || !existsSync(programs.sql)) {
    await rm(directory, { recursive: true, force: true });
    await atomically(directory, async (draft) => await install(draft, log, build));
  }
  const schema = `${plain}-schema`;
  if (!existsSync(schema)) {
    await atomically(schema, async (draft) => await copySchema(draft));
  }
  return { ...programs, schema };
}
