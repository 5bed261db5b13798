/** Databases of a test run, copied from one migrated template. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { SERVICE_ROLES } from "#database/pool.ts";

export const TEMPLATE_DATABASE = "signet_template";
/** The service's login in tests; a member of the service roles, as in production. */
export const SERVICE_LOGIN = { user: "signet_service", password: "signet_service" } as const;

/** Settings of a disposable server: nothing waits for the disk, and commits have times, from which tests measure. */
export const THROWN_AWAY = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  track_commit_timestamp: "on",
} as const;

/** Whether this run of the tests forces parallel plans. */
export const FORCES_PARALLEL_PLANS = process.env["SIGNET_TEST_PARALLEL_PLANS"] === "1";

/** Settings with which PostgreSQL plans in parallel wherever it may, as it does for large tables. */
export const PARALLEL_PLANS = {
  debug_parallel_query: "on",
  parallel_setup_cost: "0",
  parallel_tuple_cost: "0",
  min_parallel_table_scan_size: "0",
  min_parallel_index_scan_size: "0",
  max_parallel_workers: "16",
  max_worker_processes: "24",
} as const;

/** Returns the URL of another database on the same server, with another login if given. */
export function withDatabase(
  url: string,
  database: string,
  login?: { readonly user: string; readonly password: string },
): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  changed.username = login?.user ?? changed.username;
  changed.password = login?.password ?? changed.password;
  return changed.href;
}

export interface TestDatabase {
  readonly name: string;
  /** URL of the service's login: not a superuser, row-level security applies. */
  readonly url: string;
  /** The same without a pooler, if `url` leads to one in transaction mode. */
  readonly directUrl?: string;
  /** URL of the superuser. */
  readonly adminUrl: string;
  /** Drops it and ends its connections. */
  drop(): Promise<void>;
}

/** Runs one statement as superuser. */
export async function execute(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Creates a database. @param from SQL after its name: the template, if not the server's own */
export async function createDatabase(databaseUrl: string, prefix: string, from = ""): Promise<TestDatabase> {
  const name = `${prefix}_${randomBytes(6).toString("hex")}`;
  await execute(databaseUrl, `CREATE DATABASE ${name} ${from}`);
  return {
    name,
    url: withDatabase(databaseUrl, name, SERVICE_LOGIN),
    adminUrl: withDatabase(databaseUrl, name),
    drop: async () => await execute(databaseUrl, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}

/**
 * Takes from logins what they may. Their roles stay: a migration beside this grants its database to all members of the
 * service's roles, and could not to one that is gone.
 */
export async function retireLogins(databaseUrl: string, users: readonly string[]): Promise<void> {
  for (const user of users) {
    await execute(
      databaseUrl,
      `REVOKE ${SERVICE_ROLES.join(", ")} FROM ${user}; ALTER ROLE ${user} NOLOGIN NOSUPERUSER NOBYPASSRLS`,
    );
  }
}

/** Creates a copy of the migrated template. */
export async function copyTemplate(databaseUrl: string): Promise<TestDatabase> {
  // Copies the files. By default every page goes through the log, which takes half as much time again.
  return await createDatabase(databaseUrl, "test", `TEMPLATE ${TEMPLATE_DATABASE} STRATEGY FILE_COPY`);
}
