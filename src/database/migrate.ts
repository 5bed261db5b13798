/**
 * Forward-only migrations: `migrations/NNNN-name.sql`, each in one transaction, under an advisory lock. The sha256 of
 * each applied text is stored, so that a changed file is rejected, not skipped.
 */
import { type Client, escapeIdentifier, escapeLiteral } from "pg";
import type { Logger } from "pino";
import { applyMigrations, type Migrator, openSession, patiently } from "./apply-migrations.ts";
import { SignetError } from "#domain/errors.ts";
import { BoundedClient } from "./bounded-client.ts";
import { CELL_ROLES, EDGE_ROLE, rolesBeyondEdge } from "./edge-login.ts";
import { SERVICE_ROLES, type ServiceRole } from "./pool.ts";
import { ensurePartitions } from "./repositories/partitions.ts";
import { setLeaseKeys } from "./repositories/tokens/lease-keys.ts";
import { requireOwnRoles, requireUtf8 } from "./server-checks.ts";
import type { Timers } from "#domain/clock.ts";

/** Reads everything, for logical backups, and belongs to no login of the service (docs/operations.md). */
const BACKUP_ROLE = "signet_backup";
const ROLES = ["signet_owner", BACKUP_ROLE, ...SERVICE_ROLES] as const;
/** "signet" in hexadecimal. The lock admits one migrator at a time per database. */
const LOCK_KEY = 0x7369676e6574n;
const OLDEST_SERVER = 150_000;

export interface MigrateOptions {
  /** A login that may create roles, and that owns the database or may create in it; at first set-up, a superuser. */
  readonly adminUrl: string;
  /** The service's own login. Created with the URL's password if missing, as a member of the service roles. */
  readonly serviceUrl?: string;
  /** The edges' login. Created in the same way, as a member of `signet_edge` only. */
  readonly edgeUrl?: string;
  /** The login of another cell at this home cell. Created in the same way, as a member of {@link CELL_ROLES}. */
  readonly cell?: {
    readonly url: string;
    /** The cell's region. May be undefined if an earlier call has bound the login. */
    readonly name: string | undefined;
  };
  /** Keys of the proofs that reach edges through hubs. If absent, those of an earlier call stay. */
  readonly leaseKeys?: readonly Buffer[];
  readonly nowMs: number;
  readonly log?: Logger;
  /** Waits until other transactions have ended. */
  readonly timers: Pick<Timers, "sleep">;
}

async function ensureRoles(client: Client): Promise<void> {
  for (const role of ROLES) {
    // Two databases of one cluster may be migrated at once. They share roles, and CREATE ROLE has no IF NOT EXISTS.
    await client.query(`DO $$ BEGIN
      IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = '${role}') THEN
        CREATE ROLE ${role} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
      END IF;
    EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`);
  }
}

async function ensureLogin(client: Client, url: string, roles: readonly ServiceRole[]): Promise<string> {
  const { username, password: secret } = new URL(url);
  const user = decodeURIComponent(username);
  const login = escapeIdentifier(user);
  const name = escapeLiteral(user);
  const password = escapeLiteral(decodeURIComponent(secret));
  await client.query(`DO $$ BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = ${name}) THEN
      CREATE ROLE ${login} LOGIN NOINHERIT NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE PASSWORD ${password};
    END IF;
  EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$`);
  await client.query(`GRANT ${roles.join(", ")} TO ${login}`);
  return user;
}

/** An intruder in an edge or another cell can do what its login may, so the login must have no other roles. */
async function ensureOutsideLogin(
  client: Client,
  url: string,
  roles: readonly ServiceRole[],
  whose: string,
): Promise<string> {
  const login = await ensureLogin(client, url, roles);
  const others = await rolesBeyondEdge(client, login, roles);
  if (others.length > 0) {
    throw new Error(
      `the login "${login}" must belong to the ${whose} alone, but may also act as ${others.join(", ")}`,
    );
  }
  return login;
}

/** Binds the login of a cell to the cell's name: no other may send the log of that cell, and it may send no other. */
async function bindCell(client: Client, login: string, cell: string | undefined): Promise<void> {
  await client.query("SET ROLE signet_owner");
  const { rows } = await client.query<{ cell: string; login: string }>(
    "SELECT cell, login FROM cell_logs WHERE login = $1 OR cell = $2",
    [login, cell],
  );
  const other = rows.find((row) => row.cell === cell && row.login !== login);
  if (other !== undefined) {
    throw new Error(`the log of the cell "${other.cell}" belongs to the login "${other.login}"`);
  }
  const further = rows.find((row) => cell !== undefined && row.cell !== cell);
  if (further !== undefined || rows.length > 1) {
    throw new Error(
      `the login "${login}" belongs to the cell "${further?.cell ?? rows[0]?.cell}": each cell has a login of its own`,
    );
  }
  if (rows.length === 0) {
    if (cell === undefined) {
      throw new Error(`SIGNET_HOME_DATABASE_CELL must name the cell of the login "${login}"`);
    }
    await client.query("INSERT INTO cell_logs (cell, login) VALUES ($1, $2)", [cell, login]);
  }
  await client.query("RESET ROLE");
}

async function prepareDatabase(client: Client): Promise<void> {
  const { rows } = await client.query<{ version: number; database: string }>(
    "SELECT current_setting('server_version_num')::int AS version, current_database() AS database",
  );
  const server = rows[0];
  if (server === undefined || server.version < OLDEST_SERVER) {
    throw new SignetError("UNAVAILABLE", { detail: "PostgreSQL 15 or newer is required" });
  }
  await requireUtf8(client);
  await ensureRoles(client);
  await requireOwnRoles(client, ["signet_owner", ...SERVICE_ROLES]);
  await client.query(`GRANT signet_owner TO CURRENT_USER`);
  await client.query(`GRANT CREATE, USAGE ON SCHEMA public TO signet_owner`);
  await client.query(`GRANT USAGE ON SCHEMA public TO ${SERVICE_ROLES.join(", ")}`);
  await client.query("SET ROLE signet_owner");
  await client.query(`CREATE TABLE IF NOT EXISTS schema_migrations (
    version int PRIMARY KEY, name text NOT NULL, sha256 text NOT NULL, applied_at timestamptz NOT NULL)`);
  await client.query(`GRANT SELECT ON schema_migrations TO ${SERVICE_ROLES.join(", ")}`);
}

/**
 * Lets {@link BACKUP_ROLE} read every table and every row. Forced row-level security hides rows even from the owner, and
 * only a superuser can create a role that bypasses it. All tables, whichever migration created them: a dump without
 * their rows would look complete.
 */
async function allowBackups(migrator: Migrator): Promise<void> {
  const { client } = migrator;
  await client.query(`GRANT USAGE ON SCHEMA public TO ${BACKUP_ROLE};
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO ${BACKUP_ROLE};
    ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON SEQUENCES TO ${BACKUP_ROLE}`);
  const { rows } = await client.query<{ statement: string }>(
    `SELECT statement FROM pg_class c CROSS JOIN LATERAL (VALUES
        (CASE WHEN relkind = 'S' THEN format('GRANT SELECT ON SEQUENCE %s TO ${BACKUP_ROLE}', c.oid::regclass)
          WHEN NOT has_table_privilege('${BACKUP_ROLE}', c.oid, 'SELECT')
          THEN format('GRANT SELECT ON %s TO ${BACKUP_ROLE}', c.oid::regclass) END),
        (CASE WHEN relrowsecurity AND NOT EXISTS (SELECT FROM pg_policy
            WHERE polrelid = c.oid AND polname = 'backup_rows')
          THEN format('CREATE POLICY backup_rows ON %s FOR SELECT TO ${BACKUP_ROLE} USING (true)', c.oid::regclass) END)
      ) AS missing (statement)
      WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'S') AND statement IS NOT NULL`,
  );
  // One by one: a policy locks its table.
  for (const { statement } of rows) {
    await patiently(migrator, statement, async () => await client.query(statement));
  }
}

/**
 * Takes the database from PUBLIC: anyone who could log in to the server could connect, create temporary tables, hold
 * advisory locks and hear notifications. Members of the service's roles may connect, also logins that inherit nothing.
 */
async function closeDatabase({ client, log }: Migrator): Promise<void> {
  const { rows } = await client.query<{ database: string; logins: string }>(
    `SELECT quote_ident(current_database()) AS database,
       string_agg(DISTINCT quote_ident(login.rolname), ', ') AS logins
     FROM pg_roles login, pg_roles role
     WHERE role.rolname = ANY ($1) AND pg_has_role(login.oid, role.oid, 'MEMBER') AND NOT login.rolsuper`,
    [ROLES],
  );
  const { database = "", logins = "" } = rows[0] ?? {};
  await client.query(`GRANT CONNECT ON DATABASE ${database} TO ${logins};
    GRANT TEMPORARY ON DATABASE ${database} TO signet_owner;
    REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
  const { rows: open } = await client.query(
    "SELECT WHERE has_database_privilege('public', current_database(), 'CONNECT')",
  );
  if (open.length > 0) {
    log?.warn(
      `every login of the server may connect to ${database}: let its owner run REVOKE ALL ON DATABASE ${database} FROM PUBLIC`,
    );
  }
}

/**
 * Migrates a database to the newest schema and creates the partitions until tomorrow.
 *
 * @returns the number of applied migrations; 0 if the schema was up to date
 */
export async function migrateDatabase(options: MigrateOptions): Promise<number> {
  // A migration may take as long as its tables need. Only a dead host ends it.
  const client: Client = new BoundedClient({
    connectionString: options.adminUrl,
    application_name: "signet_migrate",
    answerMs: Number.POSITIVE_INFINITY,
  });
  const migrator: Migrator = { client, timers: options.timers, log: options.log };
  await client.connect();
  try {
    await openSession(migrator, LOCK_KEY);
    await prepareDatabase(client);
    const count = await applyMigrations(migrator, options.nowMs);
    await ensurePartitions(client, options.nowMs, { timers: options.timers });
    if (options.leaseKeys !== undefined) {
      await setLeaseKeys(client, options.leaseKeys);
    }
    await allowBackups(migrator);
    await client.query("RESET ROLE");
    if (options.serviceUrl !== undefined && options.serviceUrl !== options.adminUrl) {
      await ensureLogin(client, options.serviceUrl, SERVICE_ROLES);
    }
    if (options.edgeUrl !== undefined) {
      await ensureOutsideLogin(client, options.edgeUrl, [EDGE_ROLE], "edges");
    }
    if (options.cell !== undefined) {
      const { url, name } = options.cell;
      await bindCell(client, await ensureOutsideLogin(client, url, CELL_ROLES, "cells"), name);
    }
    await closeDatabase(migrator);
    return count;
  } finally {
    await client.end();
  }
}
