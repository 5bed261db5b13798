/** Credentials with which we authenticate to receivers: the sealed part, and the settings that a worker needs. */
import { SignetError } from "../../../domain/errors.ts";
import { isRefusedByState } from "../../errors.ts";
import type { Queryable } from "../../pool.ts";

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
  try {
    await db.query({
      name: "save-endpoint-authentication",
      text: "INSERT INTO endpoint_authentications (endpoint_id, tenant_id, version, sealed) VALUES ($1, $2, $3, $4)",
      values: [row.endpointId, row.tenantId, row.version, row.sealed],
    });
  } catch (error) {
    if (isRefusedByState(error, "endpoint_secrets_frozen")) {
      throw new SignetError("INVALID_STATE", {
        detail: "The tenant is on hold: its endpoints' authentication cannot change.",
        cause: error,
      });
    }
    throw error;
  }
}

export async function eraseAuthentication(db: Queryable, tenantId: string, id: string): Promise<void> {
  await db.query({
    name: "erase-endpoint-authentication",
    text: "DELETE FROM endpoint_authentications WHERE endpoint_id = $1 AND tenant_id = $2",
    values: [id, tenantId],
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
    text: `SELECT e.request_version, e.headers, a.version, a.sealed FROM endpoints e
      LEFT JOIN endpoint_authentications a ON a.endpoint_id = e.id
      WHERE e.id = $1 AND e.tenant_id = $2 AND e.request_version IS NOT NULL`,
    values: [id, tenantId],
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
