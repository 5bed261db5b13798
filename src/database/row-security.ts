/** Row-level security keeps tenants apart: a login that could step around it must not serve them. */
import type { Queryable } from "./pool.ts";

/** The roles that the session's login may act as and that bypass row-level security; its own name among them. */
async function rolesThatBypass(db: Queryable): Promise<readonly string[]> {
  const { rows } = await db.query<{ rolname: string }>(
    `SELECT rolname FROM pg_roles
      WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER') ORDER BY rolname = session_user DESC, 1`,
  );
  return rows.map(({ rolname }) => rolname);
}

/**
 * Refuses a login that is a superuser or has BYPASSRLS, or may become such a role. `SET ROLE` at the start of a session hides
 * it from every query, and is undone by one statement.
 *
 * @throws Error in production; development runs on whatever there is
 */
export async function requireRowSecurity(
  db: Queryable,
  { development }: { readonly development: boolean },
): Promise<void> {
  const roles = development ? [] : await rolesThatBypass(db);
  if (roles.length > 0) {
    throw new Error(
      `the database login bypasses row-level security (as ${roles.slice(0, 5).join(", ")}): production needs one without SUPERUSER and BYPASSRLS, as \`signet migrate\` makes it`,
    );
  }
}
