import type { Pool, PoolClient } from "./pool.ts";

/** Runs `work` in one transaction: commits what it returns from, rolls back what it throws. */
export async function transaction<T>(pool: Pool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let broken: Error | undefined;
  // A connection that breaks between two statements has nobody else to tell, and would end the process.
  const onError = (error: Error): void => {
    broken = error;
  };
  client.on("error", onError);
  try {
    await client.query("BEGIN");
    const result = await work(client);
    await client.query("COMMIT");
    return result;
  } catch (error) {
    await client.query("ROLLBACK").catch((rollbackError: Error) => {
      broken = rollbackError;
    });
    throw error;
  } finally {
    client.off("error", onError);
    client.release(broken);
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
