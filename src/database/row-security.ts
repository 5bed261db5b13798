/** Row-level security separates the tenants, so a login that can bypass it must not be used. */
import { SignetError } from "#domain/errors.ts";
import type { Queryable } from "./pool.ts";

/** Returns the roles that the session's login may act as and that bypass row-level security, possibly its own. */
async function rolesThatBypass(db: Queryable): Promise<readonly string[]> {
  const { rows } = await db.query<{ rolname: string }>(
    `SELECT rolname FROM pg_roles
      WHERE (rolsuper OR rolbypassrls) AND pg_has_role(session_user, oid, 'MEMBER') ORDER BY rolname = session_user DESC, 1`,
  );
  return rows.map(({ rolname }) => rolname);
}

/**
 * Rejects a login that is a superuser, has BYPASSRLS, or may become such a role. `SET ROLE` at the start of a session
 * hides this from every query, but one statement undoes it.
 *
 * @throws SignetError `UNAVAILABLE` in production; development accepts any login
 */
export async function requireRowSecurity(
  db: Queryable,
  { development }: { readonly development: boolean },
): Promise<void> {
  const roles = development ? [] : await rolesThatBypass(db);
  if (roles.length > 0) {
    throw new SignetError("UNAVAILABLE", {
      detail: `the database login bypasses row-level security (as ${roles.slice(0, 5).join(", ")}): production requires one without SUPERUSER and BYPASSRLS, as created by \`signet migrate\``,
    });
  }
}
