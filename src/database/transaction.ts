import type { QueryConfig, QueryResult, QueryResultRow } from "pg";
import { repeatContended } from "./errors.ts";
import {
  beginStatement,
  connectFor,
  type Pool,
  type PoolClient,
  type Queryable,
  type ServiceRole,
} from "./pool.ts";
import { planInOrder } from "./role-settings.ts";

type Named = QueryConfig & { readonly name: string };

/** Holds a connection exclusively until its release. A broken one, or one released with an error, is not reused. */
async function hold(
  pool: Pool,
  name?: string,
): Promise<{ client: PoolClient; release: (error?: Error) => void }> {
  const client = name === undefined ? await pool.connect() : await connectFor(pool, name);
  let broken: Error | undefined;
  // Without a listener, a connection that breaks between two statements would end the process.
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

/** What each running transaction sends with its COMMIT. */
const endings = new WeakMap<Queryable, string[]>();

/**
 * Adds a statement that the transaction sends in one message with its COMMIT. The locks that it takes are then held for no
 * round trip to this process, whose event loop may be busy.
 *
 * @param statement without parameters; if it fails, the transaction does
 * @returns false if `db` is not the client of a {@link transaction}
 */
export function sendWithCommit(db: Queryable, statement: string): boolean {
  return (endings.get(db)?.push(statement) ?? 0) > 0;
}

/** Sends these statements now, in their order, for a step that must come after them. */
export async function sendBeforeCommit(db: Queryable): Promise<void> {
  const statements = endings.get(db)?.splice(0) ?? [];
  if (statements.length > 0) {
    await db.query(statements.join("; "));
  }
}

/**
 * Runs `work` in one transaction. Commits if it returns, and rolls back if it throws.
 *
 * @param work changes nothing but the database: it runs again if PostgreSQL ends the transaction in favour of others
 * @param name of a statement that it runs, for {@link connectFor}
 */
export async function transaction<T>(pool: Pool, work: Work<T>, name?: string): Promise<T> {
  return await repeatContended(async () => await runTransaction(pool, work, name));
}

type Work<T> = (client: PoolClient) => Promise<T>;

async function runTransaction<T>(pool: Pool, work: Work<T>, name?: string): Promise<T> {
  const { client, release } = await hold(pool, name);
  let unusable: Error | undefined;
  try {
    await client.query(beginStatement(pool));
    const ending: string[] = [];
    endings.set(client, ending);
    const result = await work(client);
    await client.query([...ending, "COMMIT"].join("; "));
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch((rollbackError: Error) => {
      unusable = rollbackError;
    });
    throw error;
  } finally {
    endings.delete(client);
    release(unusable);
  }
}

/**
 * Runs `work` in a transaction that sees one tenant's rows: row-level security compares `app.tenant_id`. Queries must
 * still name the tenant. This is the second layer of protection.
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
 * Like {@link tenantTransaction}, but read-only. It begins in one round trip, and the result does not wait for the
 * commit, which changes nothing.
 */
export async function tenantRead<T>(
  pool: Pool,
  tenantId: string,
  work: (client: PoolClient) => Promise<T>,
): Promise<T> {
  const { client, release } = await hold(pool);
  try {
    const tenant = client.escapeLiteral(tenantId);
    await client.query(
      `${beginStatement(pool, " READ ONLY")}; SELECT set_config('app.tenant_id', ${tenant}, true)`,
    );
    const result = await work(client);
    client.query("COMMIT").then(() => release(), release);
    return result;
  } catch (error) {
    // Awaited, so that the next user of this connection does not get one with a failed transaction.
    await client.query("ROLLBACK").then(() => release(), release);
    throw error;
  }
}

/** Runs a part of a transaction as another role, for access that the transaction's own role lacks. */
export async function actAs<T>(db: Queryable, role: ServiceRole, work: () => Promise<T>): Promise<T> {
  const { rows } = await db.query<{ own: string }>(
    "SELECT current_setting('role') AS own, set_config('role', $1, true)",
    [role],
  );
  const result = await work();
  await db.query("SELECT set_config('role', $1, true)", [rows[0]?.own]);
  return result;
}

/** Lets a transaction of any role read the starts of the indexes of what waits, in their order (decision 40). */
export async function planTransactionInOrder(db: Queryable): Promise<void> {
  await db.query(planInOrder());
}

/** The last statement of each pool that waits for its turn. */
const looks = new WeakMap<Queryable, Promise<unknown>>();

/**
 * Runs a look after the earlier ones of its pool.
 *
 * @param look may not call this function
 */
async function inTurn<T>(pool: Queryable, look: () => Promise<T>): Promise<T> {
  const mine = (looks.get(pool) ?? Promise.resolve()).then(look);
  looks.set(
    pool,
    mine.catch(() => undefined),
  );
  return await mine;
}

/**
 * Runs a statement over all days for which nobody waits, after the earlier ones of its pool. PostgreSQL plans each again
 * after an ANALYZE. All at once, they take every core for a second.
 */
export async function queryInTurn<R extends QueryResultRow>(
  pool: Queryable,
  statement: Named,
): Promise<QueryResult<R>> {
  return await inTurn(pool, async () => await pool.query<R>(statement));
}

/**
 * Like {@link queryInTurn}, for a statement that reads the starts of the indexes of what waits, in their order. Returns its
 * rows.
 */
export async function queryInOrder<R extends QueryResultRow>(pool: Pool, statement: Named): Promise<R[]> {
  const work: Work<R[]> = async (client) => {
    await planTransactionInOrder(client);
    return (await client.query<R>(statement)).rows;
  };
  return await inTurn(pool, async () => await transaction(pool, work, statement.name));
}
