/** The cluster's files: created once, checked at each start, freed of a postmaster that outlived its parent. */
import { execFile } from "node:child_process";
import { randomBytes, randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { chown, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import type { PostgresPlace } from "./postgres-place.ts";
import type { PostgresPrograms } from "./postgres-programs.ts";
import { commandLine, isRunning } from "./process-identity.ts";
import { type StopStep, stopProcess } from "./server-process.ts";
import { hasCode, startUpError } from "./start-up-error.ts";

const run = promisify(execFile);

/**
 * Fast shutdown, then immediate, which loses nothing and recovers at the next start, then a kill. `npm start` ends within
 * 10 seconds, and a fast shutdown writes all changed pages first.
 */
export const STOP_POSTGRES: readonly StopStep[] = [
  ["SIGINT", 2_500],
  ["SIGQUIT", 1_500],
  ["SIGKILL", 1_000],
];

/** PostgreSQL's whole environment: the caller's variables must not affect it. */
export const POSTGRES_ENV = { PATH: "/usr/local/bin:/usr/bin:/bin", LC_ALL: "C", TZ: "UTC" } as const;

/**
 * Returns the superuser's password, that in `<home>/postgres-password`; creates it if there is no cluster yet.
 *
 * @throws SignetError `UNAVAILABLE` when a cluster exists and its password is lost
 */
export async function superuserPassword(home: string, data: string): Promise<string> {
  const path = join(home, "postgres-password");
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if (!hasCode(error, "ENOENT")) {
      throw error;
    }
  }
  if (existsSync(data)) {
    throw startUpError(`${path} is missing: restore it, or delete ${data} to start with an empty database`);
  }
  const password = randomBytes(24).toString("base64url");
  await writeFile(path, `${password}\n`, { mode: 0o600 });
  return password;
}

export interface ClusterOptions {
  readonly place: PostgresPlace;
  readonly programs: PostgresPrograms;
  readonly password: string;
  /** False only if a lost cluster costs nothing; by default, waits for the disk after initdb. */
  readonly durable: boolean;
  /** Ends initdb. */
  readonly signal?: AbortSignal | undefined;
}

/** Runs initdb to its end; an aborted signal ends it early. Its draft is removed by the next start. */
async function runInitdb(initdb: string, args: readonly string[], options: InitdbOptions): Promise<void> {
  const { signal, ...spawning } = options;
  const running = run(initdb, args, { ...spawning, env: POSTGRES_ENV });
  const interrupt = (): void => void running.child.kill("SIGINT");
  signal?.addEventListener("abort", interrupt, { once: true });
  try {
    await running;
  } finally {
    signal?.removeEventListener("abort", interrupt);
  }
}

interface InitdbOptions {
  readonly cwd: string;
  readonly uid?: number;
  readonly gid?: number;
  readonly signal: AbortSignal | undefined;
}

async function initialise({ place, programs, password, durable, signal }: ClusterOptions): Promise<void> {
  const { base, data, runAs } = place;
  for (const name of await readdir(base)) {
    if (name.startsWith("draft-")) {
      await rm(join(base, name), { recursive: true, force: true });
    }
  }
  const draft = join(base, `draft-${randomUUID()}`);
  const passwordFile = `${draft}-password`;
  await writeFile(passwordFile, `${password}\n`, { mode: 0o600 });
  if (runAs !== undefined) {
    await chown(passwordFile, runAs.uid, runAs.gid);
  }
  // The builtin provider's C.UTF-8 is the same on every system and needs no installed locale.
  const locale = ["--no-locale", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--encoding=UTF8"];
  const access = ["--username=postgres", "--auth=scram-sha-256", `--pwfile=${passwordFile}`];
  const args = [`--pgdata=${draft}`, ...locale, ...access, ...(durable ? [] : ["--no-sync"])];
  const identity = runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid };
  try {
    await runInitdb(programs.initdb, args, { cwd: base, ...identity, signal });
    // Only a complete cluster gets the name that the next start looks for.
    await rename(draft, data);
  } catch (error) {
    signal?.throwIfAborted();
    const stderr = error instanceof Error && "stderr" in error ? String(error.stderr).trim() : String(error);
    // Without an entry in /etc/passwd, PostgreSQL does not run.
    const wayOut = stderr.includes("user ID") ? "; set SIGNET_DATABASE_URL to a server of your own" : "";
    throw startUpError(`initdb failed: ${stderr}${wayOut}`, error);
  } finally {
    await rm(passwordFile, { force: true });
  }
}

/** Creates the cluster if there is none; rejects one of another major version. */
export async function ensureCluster(options: ClusterOptions): Promise<void> {
  const { place, programs } = options;
  if (!existsSync(place.data)) {
    await initialise(options);
    return;
  }
  const major = (await readFile(join(place.data, "PG_VERSION"), "utf8")).trim();
  if (major !== programs.major) {
    throw startUpError(
      `${place.data} was made by PostgreSQL ${major} and this is ${programs.major}: move it away to start with an empty one, or convert it with pg_upgrade`,
    );
  }
}

/**
 * Handles `postmaster.pid` of a cluster whose parent has died: stops a postmaster that still runs, and removes a file
 * whose pid belongs to another program. The caller holds the lock of the home, so none is in use.
 */
export async function stopLeftOverPostgres(data: string, log: (line: string) => void): Promise<void> {
  const path = join(data, "postmaster.pid");
  const text = await readFile(path, "utf8").catch(() => undefined);
  const pid = Number(text?.split("\n")[0]);
  if (text === undefined || !isRunning(pid)) {
    // PostgreSQL itself removes a file whose process is gone, after a check of shared memory.
    return;
  }
  const [program = "", ...args] = commandLine(pid);
  if (basename(program) !== "postgres") {
    await rm(path, { force: true });
    return;
  }
  if (!args.includes(data)) {
    // Possibly this cluster under another path: two servers would destroy it, so a person must decide.
    throw startUpError(
      `pid ${pid} in ${path} is a PostgreSQL of another directory: stop it, or remove that file`,
    );
  }
  log(`stopping the embedded PostgreSQL (pid ${pid}) left by an earlier run`);
  await stopProcess(pid, STOP_POSTGRES);
}
