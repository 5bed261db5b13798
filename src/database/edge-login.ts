/** The edges' database login. It has only one role, because a compromised edge can do whatever its login may. */
import type { Queryable, ServiceRole } from "./pool.ts";

export const EDGE_ROLE = "signet_edge" satisfies ServiceRole;

/** Returns the roles other than {@link EDGE_ROLE} and itself that a login may act as; all of them for a superuser. */
export async function rolesBeyondEdge(db: Queryable, login: string): Promise<readonly string[]> {
  const { rows } = await db.query<{ rolname: string }>(
    "SELECT rolname FROM pg_roles WHERE rolname <> ALL ($2) AND pg_has_role($1::name, oid, 'MEMBER') ORDER BY 1",
    [login, [login, EDGE_ROLE]],
  );
  return rows.map(({ rolname }) => rolname);
}
