/** Secrets with which producers sign events, and the data for verifying signatures. */
import type { Clock, Timers } from "#domain/clock.ts";
import { createBatcher } from "#database/batcher.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";

/** The state of a version, without its value. */
export interface ProducerSecretRow extends Row<
  "producer_secrets",
  "version" | "fingerprint" | "created_at" | "last_used_at" | "ends_at" | "revoked_at"
> {}

const COLUMNS = "version, fingerprint, created_at, last_used_at, ends_at, revoked_at";
/** Maximum number of versions returned per credential. */
const VERSIONS_MAX = 50;
/** Maximum number of secrets compared for one fingerprint of 32 bits. */
const SAME_FINGERPRINT_MAX = 100;

/** Returns the versions of a credential, newest first. */
export async function listProducerSecrets(
  db: Queryable,
  tenantId: string,
  credentialId: string,
): Promise<ProducerSecretRow[]> {
  const { rows } = await db.query<ProducerSecretRow>(
    `SELECT ${COLUMNS} FROM producer_secrets WHERE tenant_id = $1 AND credential_id = $2
      ORDER BY version DESC LIMIT $3`,
    [tenantId, credentialId, VERSIONS_MAX],
  );
  return rows;
}

/** Locks a tenant's credential, so that changes of its signing run one after the other. */
export async function lockCredential(db: Queryable, tenantId: string, id: string): Promise<void> {
  await db.query("SELECT FROM credentials WHERE tenant_id = $1 AND id = $2 FOR UPDATE", [tenantId, id]);
}

export interface NewProducerSecret {
  readonly tenantId: string;
  readonly credentialId: string;
  readonly version: number;
  readonly sealed: string;
  readonly fingerprint: string;
  readonly now: Date;
  /** When the previous versions end, unless they end sooner. */
  readonly othersEndAt: Date;
}

/** Adds a version and sets the end of the previous ones. */
export async function addProducerSecret(db: Queryable, secret: NewProducerSecret): Promise<void> {
  const { tenantId, credentialId, version, sealed, fingerprint, now, othersEndAt } = secret;
  await db.query(
    `UPDATE producer_secrets SET ends_at = $3
      WHERE tenant_id = $1 AND credential_id = $2 AND revoked_at IS NULL AND (ends_at IS NULL OR ends_at > $3)`,
    [tenantId, credentialId, othersEndAt],
  );
  await db.query(
    `INSERT INTO producer_secrets (tenant_id, credential_id, version, secret, fingerprint, created_at)
     VALUES ($1, $2, $3, $4, $5, $6)`,
    [tenantId, credentialId, version, sealed, fingerprint, now],
  );
}

/** Revokes and erases one version or all of them. @returns those that were not revoked before */
export async function revokeProducerSecrets(
  db: Queryable,
  tenantId: string,
  credentialId: string,
  { version, now }: { readonly version: number | undefined; readonly now: Date },
): Promise<number[]> {
  const { rows } = await db.query<{ version: number }>(
    `UPDATE producer_secrets SET revoked_at = $4, secret = NULL
      WHERE tenant_id = $1 AND credential_id = $2 AND revoked_at IS NULL AND ($3::int IS NULL OR version = $3)
      RETURNING version`,
    [tenantId, credentialId, version ?? null, now],
  );
  return rows.map((row) => row.version).sort((left, right) => left - right);
}

/** A version of a producer secret with what opens it. */
export interface SealedProducerSecret {
  readonly credential_id: string;
  readonly tenant_id: string;
  readonly client_id: string;
  readonly version: number;
  /** An envelope. */
  readonly sealed: string;
  /** The tenant's data key, wrapped. */
  readonly data_key: string;
}

/**
 * Returns the versions with a fingerprint that are not revoked. Fingerprints are short, so different secrets may share
 * one (role signet_operator, or signet_api for its tenant).
 *
 * @param tenantId the only tenant to search; null for all
 */
export async function listSecretsByFingerprint(
  db: Queryable,
  tenantId: string | null,
  fingerprint: string,
): Promise<SealedProducerSecret[]> {
  const { rows } = await db.query<SealedProducerSecret>(
    `SELECT s.credential_id, s.tenant_id, c.client_id, s.version,
            s.secret AS sealed, t.data_key
       FROM producer_secrets s
       JOIN credentials c ON c.id = s.credential_id
       JOIN tenants t ON t.id = s.tenant_id AND t.data_key <> ''
      WHERE s.fingerprint = $2 AND s.revoked_at IS NULL AND ($1::text IS NULL OR s.tenant_id = $1)
      ORDER BY s.credential_id, s.version LIMIT $3`,
    [tenantId, fingerprint, SAME_FINGERPRINT_MAX],
  );
  return rows;
}

/** Sets whether the credential must sign what it publishes. Returns false if nothing changed, or if it is revoked. */
export async function requireSignatures(
  db: Queryable,
  tenantId: string,
  credentialId: string,
  required: boolean,
): Promise<boolean> {
  const { rows } = await db.query<{ changed: boolean }>("SELECT require_signatures($1, $2, $3) AS changed", [
    tenantId,
    credentialId,
    required,
  ]);
  return rows[0]?.changed === true;
}

/** A credential that may sign events, with its valid secrets. */
export interface Producer {
  readonly credential_id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  readonly client_id: string;
  readonly region: string;
  readonly scopes: readonly string[];
  readonly san_uri: string | null;
  readonly certificate_thumbprints: readonly string[];
  /** The tenant's data key, wrapped. */
  readonly data_key: string;
  /** Newest first; at least one. */
  readonly versions: readonly {
    readonly version: number;
    /** An envelope. */
    readonly sealed: string;
    /** Unix milliseconds. */
    readonly last_used_at: number | null;
  }[];
}

interface ProducerRow extends Omit<Producer, "versions"> {
  readonly version: number;
  readonly sealed: string;
  readonly last_used_at: number | null;
}

const LOOKUP_BATCH = { maxItems: 64, maxInFlight: 4 };

/** Finds the producer with a credential; undefined if it may not sign. */
export type FindProducer = (credentialId: string) => Promise<Producer | undefined>;

/** Creates the look-up: one statement for all requests that arrive together, without a cache (role signet_issuer). */
export function createProducerLookup(pool: Pool, clock: Clock, timers: Timers): FindProducer {
  const batcher = createBatcher<string, Producer | undefined>({
    ...LOOKUP_BATCH,
    timers,
    flush: async (ids) => {
      const { rows } = await pool.query<ProducerRow>({
        name: "find-producers",
        text: `SELECT c.id AS credential_id, c.tenant_id, c.principal_id, c.client_id,
            p.region, p.scopes, c.san_uri, c.certificate_thumbprints,
            t.data_key, s.version, s.secret AS sealed,
            (extract(epoch FROM s.last_used_at) * 1000)::float8 AS last_used_at
          FROM credentials c
          JOIN principals p ON p.id = c.principal_id AND p.state = 'ACTIVE'
          JOIN tenants t ON t.id = c.tenant_id AND t.state = 'ACTIVE'
          JOIN producer_secrets s ON s.credential_id = c.id AND s.revoked_at IS NULL AND (s.ends_at IS NULL OR s.ends_at > $2)
         WHERE c.id = ANY ($1::text[]) AND c.state = 'ACTIVE' AND (c.ends_at IS NULL OR c.ends_at > $2)
         ORDER BY s.version DESC`,
        values: [[...new Set(ids)], new Date(clock.now())],
      });
      const producers = new Map<string, Producer & { versions: Producer["versions"][number][] }>();
      for (const { version, sealed, last_used_at: lastUsedAt, ...row } of rows) {
        const producer = producers.get(row.credential_id) ?? { ...row, versions: [] };
        producer.versions.push({ version, sealed, last_used_at: lastUsedAt });
        producers.set(row.credential_id, producer);
      }
      return ids.map((id) => producers.get(id));
    },
  });
  return async (credentialId) => await batcher.add(credentialId);
}
