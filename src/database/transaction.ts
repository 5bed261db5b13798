import { isDeadlock } from "./errors.ts";
import type { Pool, PoolClient, Queryable, ServiceRole } from "./pool.ts";

/** A connection that nobody else uses until it is let go; one that broke, or is let go with an error, is not used again. */
async function hold(pool: Pool): Promise<{ client: PoolClient; release: (error?: Error) => void }> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection that breaks between two statements has nobody else to tell, and would end the process.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on("error", onError);
  const release = (error?: Error): void => {
    client.off("error", onError);
    client.release(error ?? broken);
  };
  return { client, release };
}

/** Runs `work` in one transaction: commits what it returns from, rolls back what it throws. */
export async function transaction<T>(pool: Pool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const { client, release } = await hold(pool);
  let unusable: Error | undefined;
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch((rollbackError: Error) => {
      unusable = rollbackError;
    });
    throw error;
  } finally {
    release(unusable);
  }
}

/**
 * A transaction that sees one tenant's rows: row-level security compares `app.tenant_id`. Queries still name the
 * tenant themselves; this is the second wall.
 */
export async function tenantTransaction<T>(
  pool: Pool,
  tenantId: string,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  return await transaction(pool, async (client) => {
    await client.query({
      name: "set-tenant",
      text: "SELECT set_config('app.tenant_id', $1, true)",
      values: [tenantId],
    });
    return await work(client);
  });
}

/**
 * {@link tenantTransaction} for what only reads: it begins in one round trip, and nobody waits for its end, which can
 * change nothing any more.
 */
export async function tenantRead<T>(
  pool: Pool,
  tenantId: string,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const { client, release } = await hold(pool);
  try {
    const tenant = client.escapeLiteral(tenantId);
    await client.query(`BEGIN READ ONLY; SELECT set_config('app.tenant_id', ${tenant}, true)`);
    const result = await work(client);
    client.query("COMMIT").then(() => release(), release);
    return result;
  } catch (error) {
    // Awaited: whoever waits for this connection must not get one whose transaction has failed.
    await client.query("ROLLBACK").then(() => release(), release);
    throw error;
  }
}

const DEADLOCK_TRIES = 5;

/** Does the work again when it and another transaction waited for each other: each may take the same rows in its order. */
export async function retryDeadlocks<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await work();
    } catch (error) {
      if (tries === DEADLOCK_TRIES || !isDeadlock(error)) {
        throw error;
      }
    }
  }
}

/** Does a part of a transaction as another role, for what the transaction's own may not touch. */
export async function actAs<T>(db: Queryable, role: ServiceRole, work: () => Promise<T>): Promise<T> {
  const { rows } = await db.query<{ own: string }>(
    "SELECT current_setting('role') AS own, set_config('role', $1, true)",
    [role],
  );
  const result = await work();
  await db.query("SELECT set_config('role', $1, true)", [rows[0]?.own]);
  return result;
}
