/**
 * The versions of an endpoint's secret for a sender: the current one and the other signing one. Also the endpoint
 * itself, for requests that are not deliveries.
 */
import type { Row } from "#database/rows.ts";
import { lateral } from "#database/sql.ts";
import type { RotationTimes } from "#domain/endpoint-secrets.ts";
import { REQUEST_COLUMNS } from "./endpoints/endpoints.ts";

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
const SECRET_COLUMNS = `s.secret, s.version AS secret_version, s.signing_key, b.secret AS beside_secret, b.version AS beside_version,
        b.signing_key AS beside_key, b.state AS beside_state, b.current_at, b.overlap_ends_at`;

/** Joins an endpoint's current secret, and the other one during a rotation, from an index that is nearly empty. */
export function joinSecrets(endpointId: string): string {
  const secret = (alias: string, states: string): string =>
    lateral("endpoint_secrets", alias, `endpoint_id = ${endpointId} AND state ${states}`);
  return `LEFT JOIN ${secret("s", "= 'CURRENT'")} ON true
      LEFT JOIN ${secret("b", "IN ('NEXT', 'PREVIOUS')")} ON true`;
}

/** Returns a row with its secrets in place of their columns. */
export function withSecrets<R extends SecretColumns>(row: R): Omit<R, "secret"> & StoredSecrets {
  const { secret, secret_version: version, signing_key: sealedKey } = row;
  return {
    ...row,
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

const OF_ENDPOINT = ["url", "metadata", ...REQUEST_COLUMNS] as const;

/** The data for a request to an endpoint. The tenant's data key is empty once it is erased. */
interface TargetRow
  extends
    Row<"endpoints", "tenant_id" | (typeof OF_ENDPOINT)[number]>,
    Row<"tenants", "data_key" | "held_at"> {
  readonly endpoint_id: string;
}

export interface EndpointTarget extends TargetRow, StoredSecrets {}

export interface TargetColumns extends TargetRow, SecretColumns {}

/** Returns the columns of an {@link EndpointTarget} without its ids: of an endpoint, its secrets and its tenant `t`. */
export function requestColumns(endpoint: string): string {
  return `${OF_ENDPOINT.map((name) => `${endpoint}.${name}`).join(", ")}, ${SECRET_COLUMNS}, t.data_key, t.held_at`;
}

/** The columns of {@link TARGET_FROM}. */
export const TARGET_COLUMNS = `e.id AS endpoint_id, e.tenant_id, ${requestColumns("e")}`;

export const TARGET_FROM = `endpoints e
      ${joinSecrets("e.id")}
      CROSS JOIN ${lateral("tenants", "t", "id = e.tenant_id")}`;
