/** What a server and a database must be before Signet uses them. */
import { SignetError } from "#domain/errors.ts";
import type { Queryable } from "./pool.ts";

/**
 * Rejects a database of another encoding than UTF-8: names, descriptions and reasons have characters that it cannot hold.
 *
 * @throws SignetError `UNAVAILABLE`
 */
export async function requireUtf8(db: Queryable): Promise<void> {
  const { rows } = await db.query<{ database: string; encoding: string }>(
    "SELECT current_database() AS database, current_setting('server_encoding') AS encoding",
  );
  const { database, encoding } = rows[0] ?? {};
  if (encoding !== "UTF8") {
    throw new SignetError("UNAVAILABLE", {
      detail: `the database ${database} has the encoding ${encoding}, but Signet needs UTF8: create another with CREATE DATABASE … TEMPLATE template0 ENCODING 'UTF8', and restore a dump of this one into it`,
    });
  }
}

/**
 * Rejects a login that may not grant these roles. Roles belong to the server: from PostgreSQL 16 on, only the owner of the
 * first database, who has created them, may grant them.
 *
 * @throws SignetError `UNAVAILABLE` with the statement that the first owner must run
 */
export async function requireOwnRoles(db: Queryable, roles: readonly string[]): Promise<void> {
  const { rows } = await db.query<{ login: string; lacking: string[] | null; owners: string[] | null }>(
    `SELECT quote_ident(current_user) AS login,
       array_agg(rolname::text ORDER BY rolname) AS lacking,
       (SELECT array_agg(DISTINCT member::regrole::text) FROM pg_auth_members
          WHERE admin_option AND roleid::regrole::text = ANY ($1)) AS owners
     FROM pg_roles
     WHERE rolname = ANY ($1) AND current_setting('server_version_num')::int >= 160000
       AND NOT pg_has_role(current_user, oid, 'MEMBER WITH ADMIN OPTION')`,
    [[...roles]],
  );
  const { login = "", lacking, owners } = rows[0] ?? {};
  if (lacking) {
    throw new SignetError("UNAVAILABLE", {
      detail: `${login} may not grant the roles of Signet, which another database of this server uses: let their owner (${owners?.join(", ") ?? "a superuser"}) run GRANT ${lacking.join(", ")} TO ${login} WITH ADMIN OPTION`,
    });
  }
}
