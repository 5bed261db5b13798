/** Connections: one pool per database role, so that what a piece of code may touch is PostgreSQL's to say. */
import { type ClientBase, Pool, type PoolClient, types } from "pg";
import type { Logger } from "pino";
import { createInstantParser } from "./instants.ts";

/** The roles that the service's login may take; none bypasses row-level security (migration 0001). */
export const SERVICE_ROLES = [
  "signet_api",
  "signet_ingest",
  "signet_worker",
  "signet_issuer",
  "signet_rotator",
  "signet_operator",
  "signet_audit",
  "signet_edge",
] as const;

export type ServiceRole = (typeof SERVICE_ROLES)[number];

/** What repositories need: a pool or a client inside a transaction. */
export type Queryable = Pick<ClientBase, "query">;

export type { Pool, PoolClient };

// bigint columns hold counts far below 2^53.
types.setTypeParser(types.builtins.INT8, Number);
// A `date` is a partition key, `YYYY-MM-DD`; as a Date it would move with the time zone.
types.setTypeParser(types.builtins.DATE, (text) => text);
types.setTypeParser(types.builtins.TIMESTAMPTZ, createInstantParser());

export interface PoolOptions {
  readonly url: string;
  readonly role: ServiceRole;
  /** Most connections. */
  readonly max: number;
  readonly log: Logger;
}

/** A role's connections in this process. */
export interface PoolStatistics {
  readonly role: ServiceRole;
  /** Most connections. */
  readonly size: number;
  readonly total: number;
  readonly idle: number;
  /** Who waits for a connection. */
  readonly waiting: number;
}

const openPools = new Map<Pool, ServiceRole>();

function forgetEnded(): void {
  for (const pool of openPools.keys()) {
    if (pool.ended) {
      openPools.delete(pool);
    }
  }
}

/** The pools that are open in this process, one row a role. */
export function poolStatistics(): readonly PoolStatistics[] {
  forgetEnded();
  const byRole = new Map<ServiceRole, PoolStatistics>();
  for (const [pool, role] of openPools) {
    const before = byRole.get(role) ?? { role, size: 0, total: 0, idle: 0, waiting: 0 };
    byRole.set(role, {
      role,
      size: before.size + (pool.options.max ?? 0),
      total: before.total + pool.totalCount,
      idle: before.idle + pool.idleCount,
      waiting: before.waiting + pool.waitingCount,
    });
  }
  return [...byRole.values()];
}

/**
 * A pool whose connections act as `role` from their first statement on. RESET ROLE falls back to the same role,
 * since it is given with the start of the session.
 */
export function createPool({ url, role, max, log }: PoolOptions): Pool {
  const pool = new Pool({
    connectionString: url,
    max,
    options: `-c role=${role} -c TimeZone=UTC`,
    application_name: role,
    connectionTimeoutMillis: 5_000,
    // A query that takes longer than this is stuck; nothing here is meant to run for more than a second or two.
    statement_timeout: 15_000,
    idle_in_transaction_session_timeout: 15_000,
    keepAlive: true,
  });
  forgetEnded();
  openPools.set(pool, role);
  // An idle connection that breaks must not end the process; the next query opens a new one.
  pool.on("error", (error) => log.warn({ err: error, role }, "database connection lost"));
  // Nor one that breaks while it is held and nothing is asked over it: its holder hears of it at the next query.
  pool.on("connect", (client) => client.on("error", () => undefined));
  return pool;
}
