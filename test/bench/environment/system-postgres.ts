/** PostgreSQL from Debian's packages, on a new cluster of the bench. */
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chown, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { startServer, type StopStep } from "#processes/embedded/server-process.ts";
import { isRoot, unprivilegedUser } from "#processes/embedded/service-user.ts";
import type { Launched } from "./restartable.ts";
import { untilReady } from "./until-ready.ts";

const run = promisify(execFile);

const DEBIAN = "/usr/lib/postgresql";
/** Oldest PostgreSQL version that Signet supports. */
const OLDEST = 15;
const STOP: readonly StopStep[] = [
  ["SIGINT", 20_000],
  ["SIGQUIT", 10_000],
];

/** Returns the directory of the newest installed Debian server, or undefined if none is installed. */
export async function findSystemPostgres(): Promise<string | undefined> {
  const versions = (await readdir(DEBIAN).catch(() => []))
    .map(Number)
    .filter((version) => version >= OLDEST && existsSync(join(DEBIAN, String(version), "bin", "postgres")))
    .sort((a, b) => b - a);
  return versions[0] === undefined ? undefined : join(DEBIAN, String(versions[0]), "bin");
}

export interface SystemPostgresOptions {
  readonly programs: string;
  /** A directory that the unprivileged user may traverse. */
  readonly directory: string;
  readonly port: number;
  readonly settings: Readonly<Record<string, string>>;
  readonly environment?: Readonly<Record<string, string>>;
}

async function takesConnections(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  const taken = await client.connect().then(
    () => true,
    () => false,
  );
  await client.end().catch(() => undefined);
  return taken;
}

/** Starts the server of a cluster that exists. Resolves when it accepts connections. */
export async function launchSystemPostgres(options: SystemPostgresOptions, url: string): Promise<Launched> {
  const { programs, directory, port, settings } = options;
  const base = join(directory, "postgres");
  const all = { ...settings, listen_addresses: "127.0.0.1", unix_socket_directories: "", port: String(port) };
  const logFile = join(directory, "postgres.log");
  const server = await startServer({
    command: join(programs, "postgres"),
    args: [
      "-D",
      join(base, "data"),
      ...Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
    ],
    cwd: base,
    env: { LC_ALL: "C.UTF-8", ...options.environment },
    runAs: isRoot() ? unprivilegedUser() : undefined,
    logFile,
  });
  await untilReady("PostgreSQL", { server, logFile }, async () => await takesConnections(url));
  return { pid: server.pid, stop: async () => await server.stop(STOP) };
}

/** Creates a cluster. `launch` starts its server, also after a crash, and resolves when it accepts connections. */
export async function prepareSystemPostgres(
  options: SystemPostgresOptions,
): Promise<{ url: string; launch: () => Promise<Launched> }> {
  const { programs, directory, port } = options;
  const runAs = isRoot() ? unprivilegedUser() : undefined;
  const identity = runAs === undefined ? {} : { uid: runAs.uid, gid: runAs.gid };
  const base = join(directory, "postgres");
  const data = join(base, "data");
  const password = randomBytes(18).toString("hex");
  const passwordFile = join(base, "password");
  await mkdir(base, { recursive: true });
  await writeFile(passwordFile, password, { mode: 0o600 });
  if (runAs !== undefined) {
    await chown(base, runAs.uid, runAs.gid);
    await chown(passwordFile, runAs.uid, runAs.gid);
  }
  const access = ["--username=postgres", "--auth=scram-sha-256", `--pwfile=${passwordFile}`];
  const locale = ["--encoding=UTF8", "--locale=C.UTF-8"];
  await run(join(programs, "initdb"), [`--pgdata=${data}`, ...locale, ...access], {
    cwd: base,
    env: { LC_ALL: "C.UTF-8" },
    ...identity,
  });
  await rm(passwordFile);
  const url = `postgres://postgres:${password}@127.0.0.1:${port}/postgres`;
  return {
    url,
    launch: async () => await launchSystemPostgres(options, url),
  };
}
