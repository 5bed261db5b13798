/** Tenants: whose rows are whose. */
import { SignetError } from "../../errors.ts";
import { isUniqueViolation } from "../errors.ts";
import type { Queryable } from "../pool.ts";
import type { RowPage } from "./page.ts";

export interface TenantRow {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  readonly state: "ACTIVE" | "SUSPENDED";
  /** The tenant of the platform's own services; there is at most one. */
  readonly platform: boolean;
  readonly created_at: Date;
}

export interface NewTenant {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  readonly platform: boolean;
  /** Wrapped (keyring.newTenantDataKey). */
  readonly dataKey: string;
  readonly nowMs: number;
}

const COLUMNS = "id, name, region, state, platform, created_at";

/** Adds a tenant. Throws `CONFLICT` for a second platform tenant. */
export async function insertTenant(db: Queryable, tenant: NewTenant): Promise<TenantRow> {
  const { id, name, region, platform, dataKey, nowMs } = tenant;
  try {
    const { rows } = await db.query<TenantRow>(
      `INSERT INTO tenants (id, name, region, platform, data_key, created_at) VALUES ($1, $2, $3, $4, $5, $6)
       RETURNING ${COLUMNS}`,
      [id, name, region, platform, dataKey, new Date(nowMs)],
    );
    return rows[0] as TenantRow;
  } catch (error) {
    if (isUniqueViolation(error, "tenants_one_platform")) {
      throw new SignetError("CONFLICT", { detail: "There is a platform tenant already.", cause: error });
    }
    throw error;
  }
}

/** Tenants, newest first. */
export async function listTenants(db: Queryable, { limit, before }: RowPage): Promise<TenantRow[]> {
  const { rows } = await db.query<TenantRow>(
    `SELECT ${COLUMNS} FROM tenants WHERE $1::text IS NULL OR id < $1 ORDER BY id DESC LIMIT $2`,
    [before, limit + 1],
  );
  return rows;
}

export async function findTenant(db: Queryable, id: string): Promise<TenantRow | undefined> {
  const { rows } = await db.query<TenantRow>(`SELECT ${COLUMNS} FROM tenants WHERE id = $1`, [id]);
  return rows[0];
}

/** Puts a tenant into a state; `changed` says whether it was in the other one. */
export async function setTenantState(
  db: Queryable,
  id: string,
  state: TenantRow["state"],
): Promise<{ readonly row: TenantRow; readonly changed: boolean } | undefined> {
  const { rows } = await db.query<TenantRow>(
    `UPDATE tenants SET state = $2 WHERE id = $1 AND state <> $2 RETURNING ${COLUMNS}`,
    [id, state],
  );
  const row = rows[0] ?? (await findTenant(db, id));
  return row === undefined ? undefined : { row, changed: rows[0] !== undefined };
}
