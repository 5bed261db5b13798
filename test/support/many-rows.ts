/** Fills a database with many rows of one kind, as the service leaves them, in few statements. */
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import { newId } from "#domain/ids.ts";
import { seedDeadLetters } from "./seeded-letters.ts";

export const FILLED_TYPE = "inference.completed";

/** What a delivery in a state has that a dead letter has not. */
const STATES = {
  DEAD_LETTERED: "state = 'DEAD_LETTERED'",
  DELIVERED: `state = 'DELIVERED', carrier = 'bat_gone', delivered_at = created_at, attempt_count = 1, last_status = 200,
    last_error = NULL, reason = NULL, dead_lettered_at = NULL, expires_at = NULL`,
  QUEUED: `state = 'QUEUED', attempt_count = 0, cycle_started_at = NULL, last_status = NULL, last_error = NULL,
    reason = NULL, dead_lettered_at = NULL, expires_at = NULL`,
  RETRYING: `state = 'RETRYING', carrier = 'bat_held', claimed_at = created_at, attempt_count = 3,
    next_attempt_at = now() + interval '1 hour', reason = NULL, dead_lettered_at = NULL, expires_at = NULL`,
} as const;

export interface ManyDeliveries {
  readonly tenantId: string;
  readonly endpointId: string;
  readonly state: keyof typeof STATES;
  readonly count: number;
  /** When they were accepted; now by default. */
  readonly atMs?: number;
}

/** Does work as the owner without triggers and foreign keys, so that nothing is counted and no row needs others. */
export async function unwatched(owner: Client, work: () => Promise<void>): Promise<void> {
  await owner.query("SET session_replication_role = replica");
  await work();
  await owner.query("SET session_replication_role = DEFAULT");
}

/** Inserts deliveries with their events; returns the ids, oldest first. Their counts are not written. */
export async function fillDeliveries(owner: Client, { state, ...many }: ManyDeliveries): Promise<string[]> {
  let ids: string[] = [];
  await unwatched(owner, async () => {
    // It hides the real table, which then gets each row once, in its state.
    await owner.query("CREATE TEMP TABLE deliveries (LIKE public.deliveries INCLUDING DEFAULTS)");
    ids = await seedDeadLetters(owner, many);
    await owner.query(
      `UPDATE deliveries SET ${STATES[state]};
        INSERT INTO public.deliveries TABLE pg_temp.deliveries;
        DROP TABLE pg_temp.deliveries;
        DELETE FROM delivery_changes`,
    );
  });
  return ids;
}

/** Inserts tenants without a usable data key; returns their ids. */
export async function fillTenants(owner: Client, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId("tenant", Date.now(), randomBytes)).toSorted();
  await owner.query(
    `INSERT INTO tenants (id, name, region, data_key, created_at)
      SELECT id, 'many', 'eu', 'none', now() FROM unnest($1::text[]) AS id`,
    [ids],
  );
  return ids;
}

/** Inserts verified endpoints of a tenant without secrets; returns their ids. */
export async function fillEndpoints(
  owner: Client,
  { tenantId, count, type }: { readonly tenantId: string; readonly count: number; readonly type: string },
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId("endpoint", Date.now(), randomBytes)).toSorted();
  await owner.query(
    `INSERT INTO endpoints (id, tenant_id, url, event_types, state, verification_state, verification_requested_at,
       created_at, updated_at)
      SELECT id, $2, 'https://receiver.example/' || id, ARRAY[$3], 'ACTIVE', 'VERIFIED', now(), now(), now()
      FROM unnest($1::text[]) AS id`,
    [ids, tenantId, type],
  );
  return ids;
}

/** Inserts credentials of one principal, each with a current secret; returns their client ids. */
export async function fillCredentials(owner: Client, tenantId: string, count: number): Promise<string[]> {
  const [role, principal] = [newId("role", 1, randomBytes), newId("principal", 1, randomBytes)];
  await owner.query(
    "INSERT INTO roles (id, tenant_id, name, scopes, created_at) VALUES ($1, $2, $1, '{}', now())",
    [role, tenantId],
  );
  await owner.query(
    `INSERT INTO principals (id, tenant_id, role_id, name, region, environment, scopes, provisioned_at, created_at)
      VALUES ($1, $2, $3, $1, 'eu', 'production', '{}', now(), now())`,
    [principal, tenantId, role],
  );
  const ids = Array.from({ length: count }, () => newId("credential", Date.now(), randomBytes)).toSorted();
  await owner.query(
    `WITH made AS (
        INSERT INTO credentials (id, tenant_id, principal_id, client_id, rotation_mode, created_at)
        SELECT id, $2, $3, 'client-' || id, 'manual', now() FROM unnest($1::text[]) AS id RETURNING id
      )
      INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at)
      SELECT id, 1, $2, '', 'none', 'ACTIVE', now() FROM made`,
    [ids, tenantId, principal],
  );
  return ids.map((id) => `client-${id}`);
}

/** Inserts keys of events that are two days old. */
export async function fillKeys(owner: Client, tenantId: string, count: number): Promise<void> {
  await owner.query(
    `INSERT INTO idempotency_keys (tenant_id, route, key, body_hash, resource_id, created_at)
      SELECT $1, 'POST /v1/events', 'many-' || n, '', 'evt_many', now() - interval '2 days' FROM generate_series(1, $2::int) n`,
    [tenantId, count],
  );
}
