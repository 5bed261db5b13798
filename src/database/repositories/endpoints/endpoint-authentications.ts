/** What receivers ask of whoever sends to them: the sealed part, and what a worker needs of it. */
import { SignetError } from "../../../domain/errors.ts";
import { isRefusedByState } from "../../errors.ts";
import type { Queryable } from "../../pool.ts";

export interface SealedAuthentication {
  readonly endpointId: string;
  readonly tenantId: string;
  /** The endpoint's `requestVersion` that it belongs to. */
  readonly version: number;
  readonly sealed: string;
}

/**
 * In the place of what there was. Not by an upsert: the api's role may not read what is sealed.
 *
 * @throws SignetError INVALID_STATE where the tenant is held
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
        detail: "The tenant is held: what its endpoints authenticate with stays as it is.",
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

/** What requests to one endpoint are made of beyond the signature. */
export interface StoredRequestSettings {
  readonly version: number;
  /** JSON text. */
  readonly headers: string | null;
  readonly authentication: { readonly version: number; readonly sealed: string } | null;
}

/** Undefined when there is nothing of it, or the endpoint has gone. */
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
