/** Credentials with which we authenticate to receivers: the sealed part, and the settings that a worker needs. */
import type { Queryable } from "#database/pool.ts";
import { sql } from "#database/sql.ts";
import { unlessHeld } from "./unless-held.ts";

export interface SealedAuthentication {
  readonly endpointId: string;
  readonly tenantId: string;
  /** The endpoint's `requestVersion` of this authentication. */
  readonly version: number;
  readonly sealed: string;
}

/**
 * Replaces the stored authentication. Not an upsert, because the api's role may not read the sealed part.
 *
 * @throws SignetError INVALID_STATE if the tenant is on hold
 */
export async function saveAuthentication(db: Queryable, row: SealedAuthentication): Promise<void> {
  await eraseAuthentication(db, row.tenantId, row.endpointId);
  await unlessHeld("authentication", async () => {
    await db.query({
      name: "save-endpoint-authentication",
      ...sql`INSERT INTO endpoint_authentications (endpoint_id, tenant_id, version, sealed)
        VALUES (${row.endpointId}, ${row.tenantId}, ${row.version}, ${row.sealed})`,
    });
  });
}

export async function eraseAuthentication(db: Queryable, tenantId: string, id: string): Promise<void> {
  await db.query({
    name: "erase-endpoint-authentication",
    ...sql`DELETE FROM endpoint_authentications WHERE endpoint_id = ${id} AND tenant_id = ${tenantId}`,
  });
}

/** Settings of requests to one endpoint, apart from the signature. */
export interface StoredRequestSettings {
  readonly version: number;
  /** JSON text. */
  readonly headers: string | null;
  readonly authentication: { readonly version: number; readonly sealed: string } | null;
}

/** Returns undefined if there are no such settings, or the endpoint is gone. */
export async function loadRequestSettings(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<StoredRequestSettings | undefined> {
  const { rows } = await db.query<{
    request_version: number;
    headers: string | null;
    version: number | null;
    sealed: string | null;
  }>({
    name: "load-request-settings",
    ...sql`SELECT e.request_version, e.headers, a.version, a.sealed FROM endpoints e
      LEFT JOIN endpoint_authentications a ON a.endpoint_id = e.id
      WHERE e.id = ${id} AND e.tenant_id = ${tenantId} AND e.request_version IS NOT NULL`,
  });
  const row = rows[0];
  if (row === undefined) {
    return undefined;
  }
  const { request_version: version, headers, version: sealedWith, sealed } = row;
  return {
    version,
    headers,
    authentication: sealed === null || sealedWith === null ? null : { version: sealedWith, sealed },
  };
}
