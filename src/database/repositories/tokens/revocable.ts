/** Disables credentials, principals and tenants, so that they get no new tokens. */
import type { Queryable } from "#database/pool.ts";

export type RevocableNoun = "credential" | "principal" | "tenant";

/** The target and its tenant, and whether the target was active until now. */
export interface TakenOutOfUse {
  /** The target's own id, also if the caller named a credential by its client id. */
  readonly id: string;
  readonly tenantId: string;
  readonly changed: boolean;
}

const STATEMENTS: Readonly<Record<RevocableNoun, { readonly end: string; readonly find: string }>> = {
  credential: {
    end: `UPDATE credentials SET state = 'REVOKED', revoked_at = $3
           WHERE (id = $1 OR client_id = $1) AND ($2::text IS NULL OR tenant_id = $2) AND state = 'ACTIVE'
           RETURNING id, tenant_id`,
    find: "SELECT id, tenant_id FROM credentials WHERE (id = $1 OR client_id = $1) AND ($2::text IS NULL OR tenant_id = $2)",
  },
  principal: {
    end: `UPDATE principals SET state = 'REVOKED', revoked_at = $3
           WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2) AND state = 'ACTIVE' RETURNING id, tenant_id`,
    find: "SELECT id, tenant_id FROM principals WHERE id = $1 AND ($2::text IS NULL OR tenant_id = $2)",
  },
  tenant: {
    end: `UPDATE tenants SET state = 'SUSPENDED'
           WHERE id = $1 AND ($2::text IS NULL OR id = $2) AND state = 'ACTIVE' AND $3::timestamptz IS NOT NULL
           RETURNING id, id AS tenant_id`,
    find: "SELECT id, id AS tenant_id FROM tenants WHERE id = $1 AND ($2::text IS NULL OR id = $2)",
  },
};

interface TargetRow {
  readonly id: string;
  readonly tenant_id: string;
}

/** The target to disable, and the tenant on whose behalf. */
export interface Revocable {
  readonly noun: RevocableNoun;
  /** Id of the target; a credential may also be named by its client id. */
  readonly id: string;
  /** Requires that the target belongs to this tenant; null for operators, who may disable any. */
  readonly tenantId: string | null;
}

/** Disables a target. Returns `undefined` if it does not exist. Concurrent callers wait for each other. */
export async function takeOutOfUse(
  db: Queryable,
  { noun, id, tenantId }: Revocable,
  at: Date,
): Promise<TakenOutOfUse | undefined> {
  const { end, find } = STATEMENTS[noun];
  const ended = await db.query<TargetRow>(end, [id, tenantId, at]);
  const found = ended.rows[0] ?? (await db.query<TargetRow>(find, [id, tenantId])).rows[0];
  return found === undefined
    ? undefined
    : { id: found.id, tenantId: found.tenant_id, changed: ended.rows[0] !== undefined };
}
