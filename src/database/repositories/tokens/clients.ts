/** Clients for the token endpoint: one statement for all requests that arrive together, without a cache. */
import type { Clock, Timers } from "#domain/clock.ts";
import type { SecretVersionTimes } from "#domain/secret-version.ts";
import { createBatcher } from "#database/batcher.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import type { CredentialRow } from "./credentials.ts";
import type { ClientKeySet } from "./workload-credentials.ts";

/** A version of a secret with which a client may authenticate. */
export interface SecretVersionRecord extends SecretVersionTimes {
  readonly version: number;
  readonly mac: Buffer;
  /** The pepper that made the MAC. */
  readonly mac_key_id: string;
  /** The version's secret, wrapped with the one before it; `null` once it is erased. */
  readonly wrapped: string | null;
}

export interface ClientRecord {
  readonly client_id: string;
  readonly credential_id: string;
  readonly tenant_id: string;
  readonly principal_id: string;
  /** True if credential, principal and tenant are all active. */
  readonly active: boolean;
  readonly rotation_mode: CredentialRow["rotation_mode"];
  /** When a replaced credential ends, in Unix milliseconds. */
  readonly ends_at: number | null;
  readonly region: string;
  /** The principal's scopes, separated by spaces. */
  readonly scope: string;
  /** The client's registered certificate: its SPIFFE id, or thumbprints (SHA-256, lowercase hexadecimal). */
  readonly san_uri: string | null;
  readonly certificate_thumbprints: readonly string[];
  /** The public keys with which it authenticates instead of a secret; else `null`. */
  readonly jwks: ClientKeySet | null;
  readonly versions: readonly SecretVersionRecord[];
}

/** A client beside one of its versions, whose columns are all null for a client without a secret. */
type ClientRow = Omit<ClientRecord, "versions"> &
  Omit<SecretVersionRecord, "version"> & { readonly version: number | null };

/** Returns SQL for Unix milliseconds. Numbers are cheaper to read than dates. */
function milliseconds(column: string): string {
  return `(extract(epoch FROM ${column}) * 1000)::float8`;
}

/** Versions that may be valid, and ended ones that are recent enough to be rescued or to raise an alert. */
const WHICH_VERSIONS = {
  live: "v.state IN ('PENDING', 'ACTIVE', 'RETIRING')",
  retired: "v.state = 'RETIRED' AND (NOT v.rescue_ended OR v.retired_at > $2)",
} as const;

type WhichVersions = keyof typeof WHICH_VERSIONS;

const findClientsWith = (which: WhichVersions): string => `
  SELECT c.client_id, c.id AS credential_id, c.tenant_id, c.principal_id,
         c.state = 'ACTIVE' AND p.state = 'ACTIVE' AND t.state = 'ACTIVE' AS active,
         c.rotation_mode, ${milliseconds("c.ends_at")} AS ends_at,
         p.region, array_to_string(p.scopes, ' ') AS scope, c.san_uri,
         c.certificate_thumbprints, c.jwks,
         v.version, v.mac, v.mac_key_id, v.state, ${milliseconds("v.issued_at")} AS issued_at,
         ${milliseconds("v.due_at")} AS due_at, ${milliseconds("v.retire_by")} AS retire_by,
         ${milliseconds("v.superseded_at")} AS superseded_at, ${milliseconds("v.last_used_at")} AS last_used_at,
         ${milliseconds("v.retired_at")} AS retired_at, v.retired_reason, v.wrapped
    FROM credentials c
    JOIN tenants t ON t.id = c.tenant_id
    JOIN principals p ON p.id = c.principal_id
    ${which === "live" ? "LEFT JOIN" : "JOIN"} secret_versions v ON v.credential_id = c.id AND ${WHICH_VERSIONS[which]}
   WHERE c.client_id = ANY ($1::text[])`;

const FIND_CLIENTS = { live: findClientsWith("live"), retired: findClientsWith("retired") } as const;

/** Returns the clients with these ids, by id. */
async function findClients(
  db: Queryable,
  which: WhichVersions,
  values: readonly unknown[],
): Promise<ReadonlyMap<string, ClientRecord>> {
  const { rows } = await db.query<ClientRow>({
    name: `find-${which}-clients`,
    text: FIND_CLIENTS[which],
    values: [...values],
  });
  const clients = new Map<string, ClientRecord & { versions: SecretVersionRecord[] }>();
  for (const row of rows) {
    const { version, mac, mac_key_id, state, issued_at, due_at, retire_by, superseded_at, ...others } = row;
    const { last_used_at, retired_at, retired_reason, wrapped, ...found } = others;
    const client = clients.get(found.client_id) ?? { ...found, versions: [] };
    if (version !== null) {
      const lifetime = {
        state,
        issued_at,
        due_at,
        retire_by,
        superseded_at,
        last_used_at,
        retired_at,
        retired_reason,
      };
      client.versions.push({ version, mac, mac_key_id, wrapped, ...lifetime });
    }
    clients.set(found.client_id, client);
  }
  return clients;
}

/** Maximum number of clients per statement, and of concurrent statements. */
const LOOKUP_BATCH = { maxItems: 64, maxInFlight: 4 };

/** Finds a client by its client id. */
export type FindClient = (clientId: string) => Promise<ClientRecord | undefined>;

/** Creates the look-up of clients with the versions of their secrets that may be valid (role signet_issuer). */
export function createClientLookup(pool: Pool, timers: Timers): FindClient {
  return batchedLookup(
    { ...LOOKUP_BATCH, timers },
    async (clientIds) => await findClients(pool, "live", [clientIds]),
  );
}

/** How long a version that ended for ever is still recognized when it is presented, in milliseconds. */
const REMEMBERED_MS = 365 * 86_400_000;

/** Creates the look-up of clients with their ended versions (role signet_issuer). */
export function createRetiredClientLookup(pool: Pool, clock: Clock, timers: Timers): FindClient {
  return batchedLookup(
    { ...LOOKUP_BATCH, maxInFlight: 1, timers },
    async (clientIds) =>
      await findClients(pool, "retired", [clientIds, new Date(clock.now() - REMEMBERED_MS)]),
  );
}

function batchedLookup(
  limits: typeof LOOKUP_BATCH & { readonly timers: Timers },
  find: (clientIds: readonly string[]) => Promise<ReadonlyMap<string, ClientRecord>>,
): FindClient {
  const batcher = createBatcher<string, ClientRecord | undefined>({
    ...limits,
    flush: async (clientIds) => {
      const clients = await find(clientIds);
      return clientIds.map((clientId) => clients.get(clientId));
    },
  });
  return async (clientId) => await batcher.add(clientId);
}

/** A version of a credential's secret. */
export interface SecretVersionKey {
  readonly credential_id: string;
  readonly version: number;
}

export interface UsedVersion extends SecretVersionKey {
  /** When it was last used, in Unix milliseconds. */
  readonly usedAtMs: number;
}

/**
 * Records the use of versions, at most once a minute each (role signet_issuer).
 *
 * @param table secrets of clients or of producers
 */
export async function touchVersions(
  db: Queryable,
  table: "secret_versions" | "producer_secrets",
  used: readonly UsedVersion[],
): Promise<void> {
  await db.query(
    `UPDATE ${table} v SET last_used_at = used.at
       FROM unnest($1::text[], $2::int[], $3::timestamptz[]) AS used (credential_id, version, at)
      WHERE v.credential_id = used.credential_id AND v.version = used.version
        AND (v.last_used_at IS NULL OR v.last_used_at < used.at - interval '1 minute')`,
    [
      used.map((key) => key.credential_id),
      used.map((key) => key.version),
      used.map((key) => new Date(key.usedAtMs)),
    ],
  );
}

/** Replaces the MAC of a version, unless it was already replaced. */
export async function replaceMac(
  db: Queryable,
  from: SecretVersionKey & Pick<SecretVersionRecord, "mac_key_id">,
  to: Pick<SecretVersionRecord, "mac_key_id" | "mac">,
): Promise<void> {
  await db.query(
    `UPDATE secret_versions SET mac = $4, mac_key_id = $5
      WHERE credential_id = $1 AND version = $2 AND mac_key_id = $3`,
    [from.credential_id, from.version, from.mac_key_id, to.mac, to.mac_key_id],
  );
}
