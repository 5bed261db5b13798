/** Logins from outside: of edges, and of other cells. They have few roles, which are all that an intruder there gets. */
import type { Queryable, ServiceRole } from "./pool.ts";

export const EDGE_ROLE = "signet_edge" satisfies ServiceRole;
/** Roles of another cell at the home cell: it follows revocations as an edge does. */
export const CELL_ROLES = ["signet_cell", EDGE_ROLE] as const;

/** Returns the roles other than `allowed` and itself that a login may act as; all of them for a superuser. */
export async function rolesBeyondEdge(
  db: Queryable,
  login: string,
  allowed: readonly ServiceRole[] = [EDGE_ROLE],
): Promise<readonly string[]> {
  const { rows } = await db.query<{ rolname: string }>(
    "SELECT rolname FROM pg_roles WHERE rolname <> ALL ($2) AND pg_has_role($1::name, oid, 'MEMBER') ORDER BY 1",
    [login, [login, ...allowed]],
  );
  return rows.map(({ rolname }) => rolname);
}
