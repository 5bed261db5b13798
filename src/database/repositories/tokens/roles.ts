/** Roles: named sets of scopes, which are copied to principals at provisioning. */
import { reportDuplicates } from "#database/errors.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { RowPage } from "../page.ts";
import type { Row } from "#database/rows.ts";

export interface RoleRow extends Row<"roles", "id" | "tenant_id" | "name" | "scopes" | "created_at"> {}

export interface NewRole {
  readonly id: string;
  readonly tenantId: string;
  readonly name: string;
  readonly scopes: readonly string[];
  readonly nowMs: number;
}

const COLUMNS = "id, tenant_id, name, scopes, created_at";

/** Adds a role. @throws DuplicateError if the tenant has one with this name */
export async function insertRole(
  db: Queryable,
  { id, tenantId, name, scopes, nowMs }: NewRole,
): Promise<RoleRow> {
  const { rows } = await reportDuplicates(
    db.query<RoleRow>(
      sql`INSERT INTO roles (id, tenant_id, name, scopes, created_at)
       VALUES (${id}, ${tenantId}, ${name}, ${scopes}, ${new Date(nowMs)}) RETURNING ${raw(COLUMNS)}`,
    ),
    { roles_name_once: "The tenant already has a role with this name." },
  );
  return rows[0] as RoleRow;
}

/** Returns a tenant's roles, newest first. */
export async function listRoles(db: Queryable, tenantId: string, page: RowPage): Promise<RoleRow[]> {
  const { rows } = await db.query<RoleRow>(
    `SELECT ${COLUMNS} FROM roles WHERE tenant_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [tenantId, page.before, page.limit + 1],
  );
  return rows;
}

export async function findRole(db: Queryable, id: string): Promise<RoleRow | undefined> {
  const { rows } = await db.query<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE id = $1`, [id]);
  return rows[0];
}

/** Returns a role, locked until the transaction ends. */
export async function lockRole(db: Queryable, id: string): Promise<RoleRow | undefined> {
  const { rows } = await db.query<RoleRow>(`SELECT ${COLUMNS} FROM roles WHERE id = $1 FOR UPDATE`, [id]);
  return rows[0];
}

/** Replaces a role's scopes. Its principals keep theirs until they are provisioned again. */
export async function updateRoleScopes(
  db: Queryable,
  id: string,
  scopes: readonly string[],
): Promise<RoleRow | undefined> {
  const { rows } = await db.query<RoleRow>(
    `UPDATE roles SET scopes = $2 WHERE id = $1 RETURNING ${COLUMNS}`,
    [id, scopes],
  );
  return rows[0];
}
