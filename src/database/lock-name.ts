/** Locks by name, for what has no row of its own. */
import type { Queryable } from "./pool.ts";

/**
 * Locks a name until the transaction ends (role signet_api or signet_operator). Other names may share its row (migration
 * 0064), so transactions must be short.
 *
 * @throws Error if the rows are missing, for instance after an incomplete restore
 */
export async function lockName(db: Queryable, name: string): Promise<void> {
  const { rowCount } = await db.query({
    name: "lock-name",
    text: "SELECT FROM lock_slots WHERE id = hashtext($1) & 1023 FOR NO KEY UPDATE",
    values: [name],
  });
  if (rowCount !== 1) {
    throw new Error("the table lock_slots lacks rows: the database is not complete");
  }
}
