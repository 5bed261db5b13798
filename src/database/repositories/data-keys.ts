import type { Queryable } from "../pool.ts";

/** A tenant's wrapped data key. The tenant is the caller's own, so that it is missing only by our mistake. */
export async function findDataKey(db: Queryable, tenantId: string): Promise<string> {
  const { rows } = await db.query<{ data_key: string }>({
    name: "find-data-key",
    text: "SELECT data_key FROM tenants WHERE id = $1",
    values: [tenantId],
  });
  const row = rows[0];
  if (row === undefined) {
    throw new Error(`tenant ${tenantId} has no row`);
  }
  return row.data_key;
}
