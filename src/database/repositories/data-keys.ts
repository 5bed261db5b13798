import type { Queryable } from "../pool.ts";

/** Returns a tenant's wrapped data key. The tenant is the caller's own, so a missing row is our mistake. */
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

/** Returns the wrapped data keys of tenants, without those that are erased or never existed. */
export async function findDataKeys(
  db: Queryable,
  tenantIds: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const { rows } = await db.query<{ id: string; data_key: string }>({
    name: "find-data-keys",
    text: "SELECT id, data_key FROM tenants WHERE id = ANY ($1) AND data_key <> ''",
    values: [tenantIds],
  });
  return new Map(rows.map((row) => [row.id, row.data_key]));
}

/** Returns a tenant and its wrapped data key, to check that it can be opened; undefined if there is none. */
export async function findAnyDataKey(
  db: Queryable,
): Promise<{ readonly id: string; readonly data_key: string } | undefined> {
  const { rows } = await db.query<{ id: string; data_key: string }>(
    "SELECT id, data_key FROM tenants WHERE data_key <> '' LIMIT 1",
  );
  return rows[0];
}
