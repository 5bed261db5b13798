/** A real PgBouncer in front of the run's PostgreSQL. */
import { existsSync } from "node:fs";
import { chown, mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Client } from "pg";
import { inject } from "vitest";
import { type ServerProcess, startServer } from "#processes/embedded/server-process.ts";
import { isRoot, unprivilegedUser } from "#processes/embedded/service-user.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { skipUnless } from "./skips.ts";
import { copyTemplate, SERVICE_LOGIN, type TestDatabase, withDatabase } from "./test-database.ts";

const PROGRAM = "/usr/sbin/pgbouncer";

export type PoolMode = "session" | "transaction";

/** For `skipIf`. */
export const withoutPgBouncer = (tests: string): boolean =>
  skipUnless(existsSync(PROGRAM), tests, `${PROGRAM} is missing; .ci/programs installs it`);

interface Login {
  readonly user: string;
  readonly password: string;
}

export interface PgBouncer {
  readonly mode: PoolMode;
  /** Returns the URL of the same database through the pooler. */
  readonly through: (url: string) => string;
  /** Kills it, which breaks all its connections, and starts it again after a while. */
  restart(awayMs: number): Promise<void>;
  close(): Promise<void>;
}

export interface PgBouncerOptions {
  readonly mode: PoolMode;
  /** Sessions of a login. With few, roles follow each other in the same session. */
  readonly sessions: number;
  /** URL of the server. */
  readonly databaseUrl?: string;
  /** The logins that it knows; by default, the tests' service login. The first one must exist. */
  readonly logins?: readonly Login[];
  /** Parent of its directory; by default, that of the test run. */
  readonly directory?: string;
}

async function answers(url: string): Promise<boolean> {
  const client = new Client({ connectionString: url });
  client.on("error", () => undefined);
  const answered = await client.connect().then(
    () => true,
    () => false,
  );
  await client.end().catch(() => undefined);
  return answered;
}

/** Starts it with its own defaults: DISCARD ALL at a session's end in session mode, nothing in transaction mode. */
export async function startPgBouncer(options: PgBouncerOptions): Promise<PgBouncer> {
  const { mode, sessions, databaseUrl = inject("databaseUrl"), logins = [SERVICE_LOGIN] } = options;
  const { hostname, port: serverPort } = new URL(databaseUrl);
  const directory = await mkdtemp(join(options.directory ?? inject("runDirectory"), "pgbouncer-"));
  const port = await freePort();
  await writeFile(
    join(directory, "userlist.txt"),
    logins.map(({ user, password }) => `"${user}" "${password}"\n`).join(""),
  );
  const settings = {
    listen_addr: "127.0.0.1",
    listen_port: port,
    unix_socket_dir: "",
    auth_type: "scram-sha-256",
    auth_file: join(directory, "userlist.txt"),
    pool_mode: mode,
    default_pool_size: sessions,
    max_client_conn: 500,
    query_wait_timeout: 20,
    log_connections: 0,
    log_disconnections: 0,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}\n`);
  const file = join(directory, "pgbouncer.ini");
  await writeFile(
    file,
    `[databases]\n* = host=${hostname} port=${serverPort}\n[pgbouncer]\n${lines.join("")}`,
  );
  const runAs = isRoot() ? unprivilegedUser() : undefined;
  if (runAs !== undefined) {
    await Promise.all([directory, file].map(async (path) => await chown(path, runAs.uid, runAs.gid)));
    await chown(join(directory, "userlist.txt"), runAs.uid, runAs.gid);
  }
  const through = (url: string): string => {
    const pooled = new URL(url);
    pooled.port = String(port);
    return pooled.href;
  };
  const known = through(withDatabase(databaseUrl, new URL(databaseUrl).pathname.slice(1), logins[0]));
  const start = async (): Promise<ServerProcess> => {
    const started = await startServer({
      command: PROGRAM,
      args: [file],
      cwd: directory,
      env: {},
      runAs,
      logFile: join(directory, "pgbouncer.log"),
      // SIGINT waits for its clients.
      exitSignal: "SIGTERM",
    });
    await eventually(async () => await answers(known), "PgBouncer to answer");
    return started;
  };
  let server = await start();
  return {
    mode,
    through,
    restart: async (awayMs) => {
      await server.stop([["SIGKILL", 5_000]]);
      await delay(awayMs);
      server = await start();
    },
    close: async () => await server.stop([["SIGTERM", 5_000]]),
  };
}

/** Creates a database whose service reaches it through the pooler. */
export async function databaseBehind({ mode, through }: PgBouncer): Promise<TestDatabase> {
  const database = await copyTemplate(inject("databaseUrl"));
  return {
    ...database,
    url: through(database.url),
    ...(mode === "transaction" ? { directUrl: database.url } : {}),
  };
}
