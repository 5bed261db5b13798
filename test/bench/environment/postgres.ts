/** One PostgreSQL server for Signet's databases and Temporal's. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { freePort } from "#test/support/free-port.ts";
import type { Janitor } from "./janitor.ts";
import { Restartable } from "./restartable.ts";
import { POSTGRES_SETTINGS } from "./shipped.ts";
import { findSystemPostgres, prepareSystemPostgres } from "./system-postgres.ts";

export interface Postgres {
  /** URL of the database `postgres`, as superuser. */
  readonly adminUrl: string;
  /** The postmaster; undefined for an external server. */
  readonly process: Restartable | undefined;
  /** Returns the URL of a database, as superuser. */
  url(database: string): string;
  /** Returns the URL of a database, as Signet's login. */
  serviceUrl(database: string): string;
  stop(): Promise<void>;
}

export interface PostgresOptions {
  readonly directory: string;
  readonly janitor: Janitor;
  readonly kind: "system" | "embedded";
  readonly log: (line: string) => void;
  /** Added to the bench's settings; overrides them. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Additional environment of Debian's server. */
  readonly environment?: Readonly<Record<string, string>>;
}

function databaseUrl(adminUrl: string, database: string): string {
  const url = new URL(adminUrl);
  url.pathname = `/${database}`;
  return url.href;
}

interface Server {
  readonly adminUrl: string;
  readonly serviceUrl?: string;
  readonly process?: Restartable;
}

/** Returns the URL of the login that `signet migrate` creates, with a random password. */
function newLogin(adminUrl: string): string {
  const url = new URL(adminUrl);
  url.username = "signet_service";
  url.password = randomBytes(18).toString("hex");
  return url.href;
}

function describe({ adminUrl, serviceUrl = newLogin(adminUrl), process }: Server): Postgres {
  return {
    adminUrl,
    process,
    stop: async () => await process?.stop(),
    url: (database) => databaseUrl(adminUrl, database),
    serviceUrl: (database) => databaseUrl(serviceUrl, database),
  };
}

/** An external server, which the bench neither starts nor stops. */
export function foreignPostgres(adminUrl: string, serviceUrl: string): Postgres {
  return describe({ adminUrl, serviceUrl });
}

async function startEmbedded(
  { directory, janitor, log, settings: own }: PostgresOptions,
  port: number,
): Promise<Postgres> {
  const settings = { ...POSTGRES_SETTINGS, ...own };
  log("starting the embedded PostgreSQL");
  let adminUrl = "";
  const process = await Restartable.start(async () => {
    const server = await startEmbeddedPostgres({ home: directory, port, log, settings });
    janitor.mind(server.pid, "SIGINT");
    adminUrl = databaseUrl(server.url, "postgres");
    return server;
  });
  return describe({ adminUrl, process });
}

/** Starts a server on a new cluster: Debian's if installed, else the embedded one. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { directory, janitor, kind, log } = options;
  const programs = kind === "system" ? await findSystemPostgres() : undefined;
  const port = await freePort();
  if (programs === undefined) {
    return await startEmbedded(options, port);
  }
  log(`starting PostgreSQL from ${programs}`);
  const { url, launch } = await prepareSystemPostgres({
    programs,
    directory,
    port,
    settings: { ...POSTGRES_SETTINGS, ...options.settings },
    ...(options.environment === undefined ? {} : { environment: options.environment }),
  });
  const process = await Restartable.start(async () => {
    const server = await launch();
    janitor.mind(server.pid, "SIGINT");
    return server;
  });
  return describe({ adminUrl: url, process });
}

/** Runs statements as superuser. */
export async function withClient<Result>(
  url: string,
  use: (client: Client) => Promise<Result>,
): Promise<Result> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return await use(client);
  } finally {
    await client.end();
  }
}

/** Returns the position of the server's WAL, in bytes. */
export async function walBytes(url: string): Promise<number> {
  return await withClient(url, async (client) => {
    const { rows } = await client.query<{ wal: number }>(
      "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8 AS wal",
    );
    return rows[0]?.wal ?? Number.NaN;
  });
}

/** Returns the version and every setting that differs from PostgreSQL's defaults. */
export async function describeServer(url: string): Promise<Readonly<Record<string, string>>> {
  return await withClient(url, async (client) => {
    const { rows } = await client.query<{ name: string; value: string }>(
      `SELECT name, current_setting(name) AS value FROM pg_settings
       WHERE source NOT IN ('default', 'client', 'session') AND category <> 'File Locations'
          OR name IN ('server_version', 'fsync', 'synchronous_commit', 'full_page_writes', 'wal_sync_method', 'work_mem')
       ORDER BY name`,
    );
    const settings = rows.filter(
      ({ name }) => !/_file$|_directory$|^data_dir|^port$|^lc_|^listen_/.test(name),
    );
    return Object.fromEntries(settings.map(({ name, value }) => [name, value]));
  });
}
