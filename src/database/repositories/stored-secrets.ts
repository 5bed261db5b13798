/**
 * The versions of an endpoint's secret for a sender: the current one and the other signing one. Also the endpoint
 * itself, for requests that are not deliveries.
 */
import type { RotationTimes } from "#domain/endpoint-secrets.ts";

export interface StoredSecret {
  readonly version: number;
  readonly sealed: string;
  /** The sealed Ed25519 private key; null if the endpoint has not requested one. */
  readonly sealedKey: string | null;
}

export interface StoredSecrets {
  /** Null for a deleted endpoint. */
  readonly secret: StoredSecret | null;
  /** Set during a rotation. */
  readonly besideSecret: (StoredSecret & RotationTimes) | null;
}

/** Columns of `endpoint_secrets`, joined once for the current version and once for the other one. */
export interface SecretColumns {
  secret: string | null;
  secret_version: number | null;
  signing_key: string | null;
  beside_secret: string | null;
  beside_version: number | null;
  beside_key: string | null;
  beside_state: RotationTimes["state"] | null;
  current_at: Date | null;
  overlap_ends_at: Date | null;
}

/** The columns of the versions joined by {@link joinSecrets}. */
export const SECRET_COLUMNS = `s.secret, s.version AS secret_version, s.signing_key, b.secret AS beside_secret, b.version AS beside_version,
        b.signing_key AS beside_key, b.state AS beside_state, b.current_at, b.overlap_ends_at`;

/** Joins an endpoint's current secret, and the other one during a rotation, from an index that is nearly empty. */
export function joinSecrets(endpointId: string): string {
  return `LEFT JOIN endpoint_secrets s ON s.endpoint_id = ${endpointId} AND s.state = 'CURRENT'
      LEFT JOIN endpoint_secrets b ON b.endpoint_id = ${endpointId} AND b.state IN ('NEXT', 'PREVIOUS')`;
}

export function toStoredSecrets(row: SecretColumns): StoredSecrets {
  const { secret, secret_version: version, signing_key: sealedKey } = row;
  return {
    secret: secret === null || version === null ? null : { version, sealed: secret, sealedKey },
    besideSecret: besideSecret(row),
  };
}

function besideSecret(row: SecretColumns): StoredSecrets["besideSecret"] {
  const { beside_secret: sealed, beside_version: version, beside_state: state } = row;
  if (sealed === null || version === null || state === null) {
    return null;
  }
  return {
    version,
    sealed,
    sealedKey: row.beside_key,
    state,
    currentAt: row.current_at,
    overlapEndsAt: row.overlap_ends_at,
  };
}

/** The data for a request to an endpoint that is not a delivery. */
export interface EndpointTarget extends StoredSecrets {
  readonly tenantId: string;
  readonly url: string;
  readonly requestVersion: number | null;
  readonly wrappedDataKey: string;
  /** When the tenant's hold began; null without one. During a hold, secrets do not change. */
  readonly heldAt: Date | null;
}

export interface TargetColumns extends SecretColumns {
  tenant_id: string;
  url: string;
  request_version: number | null;
  data_key: string;
  held_at: Date | null;
}

/** The columns of {@link TARGET_FROM}. */
export const TARGET_COLUMNS = `e.tenant_id, e.url, e.request_version, ${SECRET_COLUMNS}, t.data_key, t.held_at`;

export const TARGET_FROM = `endpoints e
      ${joinSecrets("e.id")}
      JOIN tenants t ON t.id = e.tenant_id`;

export function toTarget(row: TargetColumns): EndpointTarget {
  return {
    tenantId: row.tenant_id,
    url: row.url,
    requestVersion: row.request_version,
    wrappedDataKey: row.data_key,
    heldAt: row.held_at,
    ...toStoredSecrets(row),
  };
}
