/** Service principals, the owners of credentials, with the scopes of their tokens. */
import type { PrincipalEnvironment } from "#domain/identity.ts";
import { reportDuplicates } from "#database/errors.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, sql } from "#database/sql.ts";
import type { RowPage } from "../page.ts";
import type { Row } from "#database/rows.ts";

export interface PrincipalRow extends Row<
  "principals",
  | "id"
  | "tenant_id"
  | "role_id"
  | "name"
  | "region"
  | "environment"
  | "scopes"
  | "state"
  | "provisioned_at"
  | "created_at"
> {
  /** Copied from the role at provisioning (contract 2). */
  readonly scopes: string[];
}

export interface NewPrincipal {
  readonly id: string;
  readonly tenantId: string;
  readonly roleId: string;
  readonly name: string;
  readonly region: string;
  readonly environment: PrincipalEnvironment;
  readonly nowMs: number;
}

const COLUMNS =
  "id, tenant_id, role_id, name, region, environment, scopes, state, provisioned_at, created_at";

/**
 * Adds a principal with its role's current scopes.
 *
 * @returns `undefined` if the tenant has no such role
 * @throws DuplicateError if the tenant has a principal with this name
 */
export async function insertPrincipal(
  db: Queryable,
  principal: NewPrincipal,
): Promise<PrincipalRow | undefined> {
  const { id, tenantId, roleId, name, region, environment, nowMs } = principal;
  const at = new Date(nowMs);
  const { rows } = await reportDuplicates(
    db.query<PrincipalRow>(
      sql`INSERT INTO principals (id, tenant_id, role_id, name, region, environment, scopes, provisioned_at, created_at)
       SELECT ${id}, tenant_id, id, ${name}, ${region}, ${environment}, scopes, ${at}, ${at} FROM roles
        WHERE id = ${roleId} AND tenant_id = ${tenantId}
       RETURNING ${raw(COLUMNS)}`,
    ),
    { principals_name_once: "The tenant already has a principal with this name." },
  );
  return rows[0];
}

/** Returns a tenant's principals, newest first. */
export async function listPrincipals(
  db: Queryable,
  tenantId: string,
  page: RowPage,
): Promise<PrincipalRow[]> {
  const { rows } = await db.query<PrincipalRow>(
    `SELECT ${COLUMNS} FROM principals
      WHERE tenant_id = $1 AND ($2::text IS NULL OR id < $2) ORDER BY id DESC LIMIT $3`,
    [tenantId, page.before, page.limit + 1],
  );
  return rows;
}

export async function findPrincipal(db: Queryable, id: string): Promise<PrincipalRow | undefined> {
  const { rows } = await db.query<PrincipalRow>(`SELECT ${COLUMNS} FROM principals WHERE id = $1`, [id]);
  return rows[0];
}

/** Returns one principal of a tenant, unless it is revoked. */
export async function findTenantPrincipal(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<PrincipalRow | undefined> {
  const { rows } = await db.query<PrincipalRow>(
    `SELECT ${COLUMNS} FROM principals WHERE tenant_id = $1 AND id = $2 AND state = 'ACTIVE'`,
    [tenantId, id],
  );
  return rows[0];
}

/** A principal after its role's scopes were copied again, with its previous scopes. */
export type Reprovisioned = PrincipalRow & { readonly scopes_before: string[] };

/** Copies the role's current scopes to the principal. */
export async function reprovisionPrincipal(
  db: Queryable,
  id: string,
  nowMs: number,
): Promise<Reprovisioned | undefined> {
  const { rows } = await db.query<Reprovisioned>(
    `WITH before AS (SELECT id, scopes FROM principals WHERE id = $1 FOR UPDATE)
     UPDATE principals p SET scopes = r.scopes, provisioned_at = $2
       FROM roles r, before WHERE p.id = before.id AND r.id = p.role_id
     RETURNING p.id, p.tenant_id, p.role_id, p.name, p.region, p.environment, p.scopes, p.state, p.provisioned_at,
               p.created_at, before.scopes AS scopes_before`,
    [id, new Date(nowMs)],
  );
  return rows[0];
}
