/**
 * Whether a process may use its database: its login is bound by row-level security, and what it takes for a session is
 * one. A process that finds otherwise does not start.
 */
import type { Client } from "pg";
import {
  type DatabaseUrls,
  directUrl,
  named,
  type NamedUrl,
  poolAccess,
  type UrlValues,
} from "#config/database-settings.ts";
import { SignetError } from "#domain/errors.ts";
import { BoundedClient } from "./bounded-client.ts";
import { requireCurrentSchema } from "./migration-files.ts";
import type { Pool, Queryable } from "./pool.ts";
import { SERVICE_ROLES } from "./role-settings.ts";
import { requireRowSecurity } from "./row-security.ts";
import { requireUtf8 } from "./server-checks.ts";
import { OF_START, unreachable, unusable } from "./unreachable.ts";

/** A pooler may lend the same session again by chance. */
const PROBES = 8;

async function withClient<T>(url: string, work: (client: Client) => Promise<T>): Promise<T> {
  const client: Client = new BoundedClient({ connectionString: url, application_name: "signet_probe" });
  client.on("error", () => undefined);
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

async function backendOf(db: Queryable): Promise<number> {
  const { rows } = await db.query<{ pid: number }>("SELECT pg_backend_pid() AS pid");
  return rows[0]?.pid ?? 0;
}

/**
 * Whether another client's transaction can take this client's session, or this client gets another one. While the other
 * one holds a session, this client's statement shows which: a session of its own remains its own.
 */
async function losesSession(client: Client, other: Client): Promise<boolean> {
  const own = await backendOf(client);
  for (let probe = 0; probe < PROBES; probe += 1) {
    await other.query("BEGIN");
    const theirs = await backendOf(other);
    const now = await backendOf(client);
    await other.query("COMMIT");
    if (theirs === own || now !== own) {
      return true;
    }
  }
  return false;
}

/**
 * Rejects a pooler that lends its sessions by the transaction. There, a role that one process has set would be another's,
 * LISTEN would hear nothing, and a lock would remain.
 */
async function requireOwnSession(client: Client, url: string): Promise<void> {
  // A pooler gives its clients other process ids than the server does. Without one, nobody can share the session.
  const announced = (client as unknown as { readonly processID: number | null }).processID;
  if (announced === (await backendOf(client))) {
    return;
  }
  if (await withClient(url, async (other) => await losesSession(client, other))) {
    throw new SignetError("UNAVAILABLE", {
      detail:
        "the database is behind a pooler in transaction mode: set SIGNET_DATABASE_DIRECT_URL to the database itself, or use session mode",
    });
  }
}

/**
 * Rejects a login with the rights of a service role before it takes it. Each transaction takes its role itself, and one
 * that did not must see nothing.
 */
async function requireNoRightsOfItsOwn(db: Queryable): Promise<void> {
  const { rows } = await db.query<{ role: string }>(
    "SELECT role FROM unnest($1::name[]) AS role WHERE pg_has_role(session_user, role, 'USAGE')",
    [[...SERVICE_ROLES]],
  );
  if (rows.length > 0) {
    throw new SignetError("UNAVAILABLE", {
      detail: `the database login inherits ${rows.map(({ role }) => role).join(", ")}: behind a pooler it must be NOINHERIT, as created by \`signet migrate\``,
    });
  }
}

/** Identifies the running server and the database. */
async function placeOf(db: Queryable): Promise<string> {
  const { rows } = await db.query<{ place: string }>(
    `SELECT concat_ws(' ', extract(epoch FROM pg_postmaster_start_time()), oid) AS place
       FROM pg_database WHERE datname = current_database()`,
  );
  return rows[0]?.place ?? "";
}

/**
 * @param pool a pool of the process, opened with {@link poolAccess} of the same settings
 * @throws SignetError `UNAVAILABLE` if the process must not use this database
 */
export async function requireSafeAccess(
  pool: Pool,
  { development, ...urls }: DatabaseUrls & { readonly development: boolean },
): Promise<void> {
  const direct = directUrl(urls);
  await withClient(direct, async (client) => {
    await requireOwnSession(client, direct);
    await requireUtf8(client);
    await requireRowSecurity(client, { development });
    if (!poolAccess(urls).sharesSessions) {
      return;
    }
    await requireRowSecurity(pool, { development });
    await requireNoRightsOfItsOwn(pool);
    if ((await placeOf(client)) !== (await placeOf(pool))) {
      throw new SignetError("UNAVAILABLE", {
        detail:
          "SIGNET_DATABASE_DIRECT_URL leads to another server or database than SIGNET_DATABASE_URL: revocations would be missed",
      });
    }
  });
}

/**
 * Connects once.
 *
 * @throws SignetError `UNAVAILABLE`, one sentence with the host, the setting and the answer
 */
export async function requireReachable(place: NamedUrl): Promise<void> {
  try {
    await withClient(place.url, async () => await Promise.resolve());
  } catch (error) {
    throw unreachable(error, place);
  }
}

/**
 * Checks a process's database when it starts: connection, access, encoding and schema.
 *
 * @param pool as in {@link requireSafeAccess}
 * @param settings name the variables that the URLs come from
 * @throws SignetError `UNAVAILABLE`, one sentence, for what an operator can correct
 */
export async function requireUsableDatabase(
  pool: Pool,
  config: DatabaseUrls & { readonly development: boolean },
  settings: UrlValues,
): Promise<void> {
  const place = named(settings, config.databaseUrl);
  for (const url of new Set([directUrl(config), config.databaseUrl])) {
    await requireReachable(named(settings, url));
  }
  try {
    await requireSafeAccess(pool, config);
    await requireCurrentSchema(pool);
  } catch (error) {
    throw unusable(error, place, OF_START);
  }
}
