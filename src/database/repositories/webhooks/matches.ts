/** Which endpoints take a tenant's events of a type, and whether what is known of them is current (decision 28). */
import type { Queryable } from "#database/pool.ts";
import type { Row } from "#database/rows.ts";
import { lateral, raw, type Statement, sql } from "#database/sql.ts";

export interface TenantAndType {
  readonly tenantId: string;
  readonly type: string;
}

export interface MatchingEndpoint {
  readonly endpoint_id: string;
  readonly state: "ACTIVE" | "DISABLED";
}

/** The schema and the endpoints for events of one type of one tenant. */
export interface MatchedType extends Row<"event_types", "tenant_id" | "schema_digest" | "deprecated_at"> {
  readonly type: string;
  readonly endpoints: MatchingEndpoint[];
  /** The sum of the hashes of {@link listFilters}; null if every endpoint accepts every event of the type. */
  readonly filters: string | null;
  /** Of all the other members. The insert of events compares it to the current one, unless the version is current. */
  readonly fingerprint: string;
  /**
   * The tenant's. It changes with each change of a fingerprint of the tenant, in the same transaction, and never comes back
   * (migration 0081).
   */
  readonly version: string;
}

/** Returns the condition under which an endpoint `e` accepts events of some of `types` of its tenant. */
function takes(types: string): string {
  return `e.state IN ('ACTIVE', 'DISABLED') AND (e.event_types && ${types} OR e.event_types = '{*}')`;
}

/** SQL for a hash of an endpoint `e` and its filter; null without one. */
const FILTER_HASH = "hashtextextended(e.id, e.filter_hash)";
/** SQL for what a fingerprint has of endpoints `e`. Sums of hashes cost less than texts, and need no order. */
const ENDPOINT_HASHES = `sum(hashtextextended(e.id, hashtextextended(e.state, 0))) AS hash, sum(${FILTER_HASH}) AS filters`;
const HASHED_COLUMNS = "e.id, e.state, e.event_types, e.filter_hash";
/** SQL for the ids of endpoints `e`. A mark follows the id of one that is disabled. */
const ENDPOINT_LIST = "string_agg(CASE e.state WHEN 'ACTIVE' THEN e.id ELSE e.id || '!' END, ',')";

/**
 * Names `w`, the tenants and types in `rows`, and `versions`, the current ones of these tenants. Like all parts of a match,
 * they are MATERIALIZED: PostgreSQL may otherwise evaluate them for each row that they are joined with.
 */
function versionsOf(columns: string, rows: Statement): Statement {
  return sql`w AS MATERIALIZED (SELECT * FROM ${rows} AS w(${raw(columns)})),
    versions AS MATERIALIZED (SELECT tenant_id, coalesce((SELECT string_agg(m.version::text, ',' ORDER BY m.version)
        FROM match_versions m WHERE m.tenant_id = g.tenant_id), '') AS version
      FROM (SELECT DISTINCT tenant_id FROM w) g)`;
}

/**
 * Names `f`: the tenants and types of `wanted` with their matches. Reads a tenant's endpoints once, whatever the number of
 * types: the commit of a large batch has hundreds. Endpoints with the same types count as one afterwards, so most cost
 * nothing but their hash.
 *
 * @param lists SQL that names aggregates of the endpoints `e`, beside their hash
 * @param joined SQL that names the same of several lists `l`
 */
function fingerprints(wanted: "w" | "changed", lists = "", joined = ""): Statement {
  return raw(`lists AS MATERIALIZED (
      SELECT g.tenant_id, e.event_types, ${ENDPOINT_HASHES}${lists}
      FROM (SELECT tenant_id, array_agg(type) AS types FROM ${wanted} GROUP BY tenant_id) g
      CROSS JOIN ${lateral("endpoints", "e", `e.tenant_id = g.tenant_id AND ${takes("g.types")}`, HASHED_COLUMNS)}
      GROUP BY g.tenant_id, e.event_types
    ), named AS MATERIALIZED (
      SELECT l.tenant_id, t.type, sum(l.hash) AS hash, sum(l.filters) AS filters${joined}
      FROM lists l CROSS JOIN LATERAL unnest(l.event_types) AS t(type)
      WHERE l.event_types <> '{*}' GROUP BY l.tenant_id, t.type
    ), f AS MATERIALIZED (
      SELECT c.*, t.schema_digest, t.deprecated_at${lists === "" ? "" : ", concat_ws(',', n.endpoints, a.endpoints) AS endpoints"},
        coalesce(n.filters + a.filters, n.filters, a.filters) AS filters,
        concat_ws('/', coalesce(t.schema_digest, '-'), coalesce(t.deprecated_at::text, '-'), n.hash, n.filters, '*', a.hash, a.filters) AS current
      FROM ${wanted} c LEFT JOIN event_types t ON t.tenant_id = c.tenant_id AND t.name = c.type
      LEFT JOIN named n ON n.tenant_id = c.tenant_id AND n.type = c.type
      LEFT JOIN lists a ON a.tenant_id = c.tenant_id AND a.event_types = '{*}')`);
}

/** Returns the columns of tenants and types, for `unnest`. */
function columnsOf(tenantIds: readonly string[], types: readonly { readonly type: string }[]): Statement {
  return sql`${tenantIds}::text[], ${types.map(({ type }) => type)}::text[]`;
}

/** Reads a list of {@link ENDPOINT_LIST}. */
function readEndpoints(list: string): MatchingEndpoint[] {
  return (list === "" ? [] : list.split(",")).map((text) => {
    const active = !text.endsWith("!");
    return { endpoint_id: active ? text : text.slice(0, -1), state: active ? "ACTIVE" : "DISABLED" };
  });
}

/**
 * Returns the endpoints that accept events of these types: active ones, and disabled ones, whose events become dead
 * letters at once. The result contains each requested pair. Each pair may be requested only once.
 */
export async function matchEndpoints(
  db: Queryable,
  wanted: readonly TenantAndType[],
): Promise<MatchedType[]> {
  const tenantIds = wanted.map(({ tenantId }) => tenantId);
  const { rows } = await db.query<Omit<MatchedType, "endpoints"> & { readonly endpoints: string }>({
    name: "match-endpoints",
    ...sql`WITH ${versionsOf("tenant_id, type", sql`unnest(${columnsOf(tenantIds, wanted)})`)},
      ${fingerprints("w", `, ${ENDPOINT_LIST} AS endpoints`, ", string_agg(l.endpoints, ',') AS endpoints")}
      SELECT tenant_id, type, schema_digest, deprecated_at,
        filters::text, version, current AS fingerprint, endpoints FROM f JOIN versions USING (tenant_id)`,
  });
  return rows.map((row) => ({ ...row, endpoints: readEndpoints(row.endpoints) }));
}

export interface EndpointFilter {
  readonly endpoint_id: string;
  /** JSON text. */
  readonly filter: string;
  /** Of both, as a number. */
  readonly hash: string;
}

/** Returns the filters of the endpoints that accept events of a type. */
export async function listFilters(
  db: Queryable,
  { tenantId, type }: TenantAndType,
): Promise<EndpointFilter[]> {
  const { rows } = await db.query<EndpointFilter>({
    name: "list-filters",
    text: `SELECT e.id AS endpoint_id, e.filter, ${FILTER_HASH}::text AS hash FROM endpoints e
      WHERE e.tenant_id = $1 AND e.filter IS NOT NULL AND ${takes("ARRAY[$2::text]")}`,
    values: [tenantId, type],
  });
  return rows;
}

/** What an event's deliveries were made from. */
export type Expected = Pick<MatchedType, "tenant_id" | "type" | "fingerprint" | "version">;

/**
 * Names `outdated`: the tenants and types whose match is no longer the expected one. Where the tenant's version is current,
 * so is the match, and no endpoint is read.
 *
 * @param compares whether to compare the others; without, they are outdated, and PostgreSQL prepares a third of the parts
 */
export function outdatedStatement(expected: readonly Expected[], compares: boolean): Statement {
  const tenantIds = expected.map((pair) => pair.tenant_id);
  const given = sql`unnest(${columnsOf(tenantIds, expected)}, ${expected.map((pair) => pair.fingerprint)}::text[],
    ${expected.map((pair) => pair.version)}::text[])`;
  return sql`${versionsOf("tenant_id, type, fingerprint, version", given)},
    changed AS MATERIALIZED (SELECT w.tenant_id, w.type, w.fingerprint FROM w
      JOIN versions v ON v.tenant_id = w.tenant_id AND v.version <> w.version),
    ${compares ? outdatedByFingerprint() : raw("outdated AS (SELECT tenant_id, type FROM changed)")}`;
}

function outdatedByFingerprint(): Statement {
  return sql`${fingerprints("changed")},
    outdated AS MATERIALIZED (SELECT tenant_id, type FROM f WHERE current <> fingerprint)`;
}

/** SQL for the current versions of the tenants whose expected one is not current, as a JSON object; null if all are. */
export const OTHER_VERSIONS =
  "(SELECT json_object_agg(tenant_id, version) FROM versions WHERE tenant_id IN (SELECT tenant_id FROM changed))";
