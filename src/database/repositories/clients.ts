/** What the token endpoint reads of a client: one statement for all requests that arrive together, nothing cached. */
import { createBatcher } from "../batcher.ts";
import type { Pool, Queryable } from "../pool.ts";

/** A version of a secret that may authenticate. */
export interface SecretVersionRecord {
  readonly version: number;
  readonly mac: Buffer;
  /** The pepper that made the MAC. */
  readonly macKeyId: string;
  /** Unix milliseconds. */
  readonly lastUsedAt: number | null;
}

export interface ClientRecord {
  readonly clientId: string;
  readonly credentialId: string;
  readonly tenantId: string;
  readonly principalId: string;
  /** Neither the credential is revoked nor the tenant suspended. */
  readonly active: boolean;
  readonly region: string;
  /** The principal's scopes, space-separated. */
  readonly scope: string;
  /** The client's registered certificate: its SPIFFE id, or thumbprints (SHA-256, lowercase hexadecimal). */
  readonly sanUri: string | null;
  readonly certificateThumbprints: readonly string[];
  readonly versions: readonly SecretVersionRecord[];
}

interface ClientRow {
  readonly client_id: string;
  readonly credential_id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  readonly active: boolean;
  readonly region: string;
  readonly scope: string;
  readonly san_uri: string | null;
  readonly certificate_thumbprints: string[];
  readonly version: number;
  readonly mac: Buffer;
  readonly mac_key_id: string;
  readonly last_used_at: number | null;
}

const FIND_CLIENTS = `
  SELECT c.client_id, c.id AS credential_id, c.tenant_id, c.principal_id,
         c.state = 'ACTIVE' AND t.state = 'ACTIVE' AS active,
         p.region, array_to_string(p.scopes, ' ') AS scope, c.san_uri, c.certificate_thumbprints,
         v.version, v.mac, v.mac_key_id, (extract(epoch FROM v.last_used_at) * 1000)::float8 AS last_used_at
    FROM credentials c
    JOIN tenants t ON t.id = c.tenant_id
    JOIN principals p ON p.id = c.principal_id
    JOIN secret_versions v ON v.credential_id = c.id AND v.state IN ('PENDING', 'ACTIVE', 'RETIRING')
   WHERE c.client_id = ANY ($1::text[])`;

/** The clients with these ids, by id. */
async function findClients(
  db: Queryable,
  clientIds: readonly string[],
): Promise<ReadonlyMap<string, ClientRecord>> {
  const { rows } = await db.query<ClientRow>({
    name: "find-clients",
    text: FIND_CLIENTS,
    values: [clientIds],
  });
  const clients = new Map<string, ClientRecord & { versions: SecretVersionRecord[] }>();
  for (const row of rows) {
    const client = clients.get(row.client_id) ?? {
      clientId: row.client_id,
      credentialId: row.credential_id,
      tenantId: row.tenant_id,
      principalId: row.principal_id,
      active: row.active,
      region: row.region,
      scope: row.scope,
      sanUri: row.san_uri,
      certificateThumbprints: row.certificate_thumbprints,
      versions: [],
    };
    client.versions.push({
      version: row.version,
      mac: row.mac,
      macKeyId: row.mac_key_id,
      lastUsedAt: row.last_used_at,
    });
    clients.set(row.client_id, client);
  }
  return clients;
}

/** Most clients of one statement, and most statements at once. */
const LOOKUP_BATCH = { maxItems: 64, maxInFlight: 4 };

/** Makes the look-up of clients by client id (role signet_issuer). */
export function createClientLookup(pool: Pool): (clientId: string) => Promise<ClientRecord | undefined> {
  const batcher = createBatcher<string, ClientRecord | undefined>({
    ...LOOKUP_BATCH,
    flush: async (clientIds) => {
      const clients = await findClients(pool, clientIds);
      return clientIds.map((clientId) => clients.get(clientId));
    },
  });
  return async (clientId) => await batcher.add(clientId);
}

/** A version of a credential's secret. */
export interface SecretVersionKey {
  readonly credentialId: string;
  readonly version: number;
}

/** Notes that these versions were used; what was noted within the minute stays. */
export async function touchSecretVersions(
  db: Queryable,
  used: readonly SecretVersionKey[],
  nowMs: number,
): Promise<void> {
  await db.query(
    `UPDATE secret_versions v SET last_used_at = $3
       FROM unnest($1::text[], $2::int[]) AS used (credential_id, version)
      WHERE v.credential_id = used.credential_id AND v.version = used.version
        AND (v.last_used_at IS NULL OR v.last_used_at < $3::timestamptz - interval '1 minute')`,
    [used.map((key) => key.credentialId), used.map((key) => key.version), new Date(nowMs)],
  );
}

/** Replaces the MAC of a version unless somebody has done so before. */
export async function replaceMac(
  db: Queryable,
  { credentialId, version }: SecretVersionKey,
  from: { readonly macKeyId: string },
  to: { readonly macKeyId: string; readonly mac: Buffer },
): Promise<void> {
  await db.query(
    `UPDATE secret_versions SET mac = $4, mac_key_id = $5
      WHERE credential_id = $1 AND version = $2 AND mac_key_id = $3`,
    [credentialId, version, from.macKeyId, to.mac, to.macKeyId],
  );
}
