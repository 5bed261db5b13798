/** Tenants, who own all other rows. */
import { reportDuplicates } from "../errors.ts";
import type { Queryable } from "../pool.ts";
import { raw, sql } from "../sql.ts";
import type { RowPage } from "./page.ts";
import type { Row } from "../rows.ts";

export const TENANT_STATES = ["ACTIVE", "SUSPENDED", "ERASED"] as const;

export interface TenantRow extends Row<
  "tenants",
  | "id"
  | "name"
  | "region"
  | "state"
  | "platform"
  | "held_at"
  | "erased_at"
  | "erasure_completed_at"
  | "created_at"
> {
  /** The tenant of the platform's own services; there is at most one. */
  readonly platform: boolean;
  /** When the hold began that makes its deliveries wait and freezes its endpoints' secrets. */
  readonly held_at: Date | null;
  /** When it was erased. Since then nothing of it can be read. */
  readonly erased_at: Date | null;
  /** When the erasure was complete. Since then nothing of it is left. */
  readonly erasure_completed_at: Date | null;
}

export interface NewTenant {
  readonly id: string;
  readonly name: string;
  readonly region: string;
  readonly platform: boolean;
  /** The wrapped data key (keyring.newTenantDataKey). */
  readonly dataKey: string;
  readonly nowMs: number;
}

/** Subquery of tenants on hold. There are hardly ever any, and they have their own index. */
export const HELD_TENANTS = "(SELECT id FROM public.tenants WHERE held_at IS NOT NULL)";

const COLUMNS = "id, name, region, state, platform, held_at, erased_at, erasure_completed_at, created_at";

/** Adds a tenant. @throws DuplicateError for a second platform tenant */
export async function insertTenant(db: Queryable, tenant: NewTenant): Promise<TenantRow> {
  const { id, name, region, platform, dataKey, nowMs } = tenant;
  const { rows } = await reportDuplicates(
    db.query<TenantRow>(
      sql`INSERT INTO tenants (id, name, region, platform, data_key, created_at)
       VALUES (${id}, ${name}, ${region}, ${platform}, ${dataKey}, ${new Date(nowMs)}) RETURNING ${raw(COLUMNS)}`,
    ),
    { tenants_one_platform: "A platform tenant already exists." },
  );
  return rows[0] as TenantRow;
}

/**
 * Returns tenants, newest first.
 *
 * @param name part of their names, in any case
 */
export async function listTenants(
  db: Queryable,
  { limit, before }: RowPage,
  name = "",
): Promise<TenantRow[]> {
  const { rows } = await db.query<TenantRow>(
    `SELECT ${COLUMNS} FROM tenants
      WHERE ($1::text IS NULL OR id < $1) AND ($3 = '' OR position($3 IN lower(name)) > 0) ORDER BY id DESC LIMIT $2`,
    [before, limit + 1, name.toLowerCase()],
  );
  return rows;
}

export async function findTenant(db: Queryable, id: string): Promise<TenantRow | undefined> {
  const { rows } = await db.query<TenantRow>(`SELECT ${COLUMNS} FROM tenants WHERE id = $1`, [id]);
  return rows[0];
}

/** Ends a tenant's suspension. Returns false if there was none. */
export async function resumeTenant(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE tenants SET state = 'ACTIVE' WHERE id = $1 AND state = 'SUSPENDED'",
    [id],
  );
  return rowCount === 1;
}

/** Whether the tenant is on hold. */
export async function tenantHeld(db: Queryable, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: "tenant-held",
    text: "SELECT FROM tenants WHERE id = $1 AND held_at IS NOT NULL",
    values: [id],
  });
  return rowCount === 1;
}

/** Locks the tenant's row. Returns when its hold began, null without a hold (role signet_operator). */
export async function lockTenantHold(db: Queryable, id: string): Promise<Date | null> {
  const { rows } = await db.query<{ held_at: Date | null }>(
    "SELECT held_at FROM tenants WHERE id = $1 FOR UPDATE",
    [id],
  );
  return rows[0]?.held_at ?? null;
}

/**
 * Holds or releases a tenant's deliveries. Returns true if that is a change (role signet_operator, or signet_api for
 * holding its own tenant).
 *
 * @param heldAt when the hold begins; null to release
 */
export async function setTenantHold(db: Queryable, id: string, heldAt: Date | null): Promise<boolean> {
  const { rowCount } = await db.query(
    "UPDATE tenants SET held_at = $2 WHERE id = $1 AND (held_at IS NULL) <> ($2::timestamptz IS NULL)",
    [id, heldAt],
  );
  return rowCount === 1;
}
