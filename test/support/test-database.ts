/** Databases of a test run: each is a copy of one that was migrated once. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";

export const TEMPLATE_DATABASE = "signet_template";
/** The login that the service takes in tests; a member of the service roles, as in production. */
export const SERVICE_LOGIN = { user: "signet_service", password: "signet_service" } as const;

/** Settings of a server that is thrown away: nothing waits for a disk. */
export const THROWN_AWAY = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" } as const;

/** The same server, another database, and another login if one is given. */
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
  /** As the service connects: no superuser, row-level security applies. */
  readonly url: string;
  /** The superuser's. */
  readonly adminUrl: string;
  /** Drops it, whoever is still connected. */
  drop(): Promise<void>;
}

/** Runs one statement as the superuser. */
export async function execute(url: string, sql: string): Promise<void> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** A fresh copy of the migrated template. */
export async function copyTemplate(databaseUrl: string): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString("hex")}`;
  await execute(databaseUrl, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE_DATABASE}`);
  return {
    name,
    url: withDatabase(databaseUrl, name, SERVICE_LOGIN),
    adminUrl: withDatabase(databaseUrl, name),
    drop: async () => await execute(databaseUrl, `DROP DATABASE ${name} WITH (FORCE)`),
  };
}
