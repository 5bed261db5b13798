/** The login of the edges: an edge that is broken into can do what its login may, so that is one role and no more. */
import type { Queryable, ServiceRole } from "./pool.ts";

export const EDGE_ROLE = "signet_edge" satisfies ServiceRole;

/** The roles beside {@link EDGE_ROLE} that a login may act as, itself excepted; all of them for a superuser. */
export async function rolesBeyondEdge(db: Queryable, login: string): Promise<readonly string[]> {
  const { rows } = await db.query<{ rolname: string }>(
    "SELECT rolname FROM pg_roles WHERE rolname <> ALL ($2) AND pg_has_role($1::name, oid, 'MEMBER') ORDER BY 1",
    [login, [login, EDGE_ROLE]],
  );
  return rows.map(({ rolname }) => rolname);
}
