/** Look-ups of operators across tenants, by id or by a part of a name (role signet_operator). */
import { idDay, type IdNoun, isId } from "#domain/ids.ts";
import type { Pool, Queryable } from "../pool.ts";
import { transaction } from "../transaction.ts";

/** What operators can find, in the order of the results. */
export const FOUND_KINDS = [
  "tenant",
  "principal",
  "credential",
  "endpoint",
  "event",
  "delivery",
  "replay",
] as const;
export type FoundKind = (typeof FOUND_KINDS)[number];

/** A row of a result. */
export interface Found {
  readonly kind: FoundKind;
  readonly id: string;
  readonly tenant_id: string;
  readonly tenant_name: string;
  /** Name, client id, URL without its query, event type, or the id of a replay job. */
  readonly label: string;
  /** Null for an event, which has none. */
  readonly state: string | null;
}

/** A URL's query may hold a secret, so it is neither shown nor searched. */
const URL_SHOWN = "split_part(x.url, '?', 1)";

const SOURCES: Readonly<Record<FoundKind, { readonly label: string; readonly from: string }>> = {
  tenant: { label: "x.name", from: "x.id AS tenant_id, x.state FROM tenants x" },
  principal: { label: "x.name", from: "x.tenant_id, x.state FROM principals x" },
  credential: { label: "x.client_id", from: "x.tenant_id, x.state FROM credentials x" },
  endpoint: { label: URL_SHOWN, from: "x.tenant_id, x.state FROM endpoints x" },
  event: { label: "x.type", from: "x.tenant_id, NULL AS state FROM events x" },
  delivery: { label: "x.event_type", from: "x.tenant_id, x.state FROM deliveries x" },
  replay: { label: "x.id", from: "x.tenant_id, x.state FROM replay_jobs x" },
};
/** Kinds that are also found by a part of their label. */
const SEARCHED = ["tenant", "principal", "credential", "endpoint"] as const satisfies readonly FoundKind[];
/** Limit of a search, which reads every name, in milliseconds. */
const SEARCH_MS = 3_000;

function select(kind: FoundKind): string {
  const { label, from } = SOURCES[kind];
  return `SELECT '${kind}' AS kind, x.id, ${label} AS label, ${from}`;
}

function withTenant(rows: string, rest = ""): string {
  return `SELECT f.kind, f.id, f.tenant_id, t.name AS tenant_name, f.label, f.state
    FROM (${rows}) f JOIN tenants t ON t.id = f.tenant_id ${rest}`;
}

/** Returns the kind of an id; undefined for text that is no id of a kind that operators find. */
export function kindOfId(text: string): FoundKind | undefined {
  return FOUND_KINDS.find((kind: IdNoun) => isId(text, kind));
}

/** Finds an object by its id. */
export async function findById(db: Queryable, id: string): Promise<Found | undefined> {
  const kind = kindOfId(id);
  if (kind === undefined) {
    return undefined;
  }
  const byDay = kind === "event" || kind === "delivery";
  const { rows } = await db.query<Found>({
    name: `operator-find-${kind}`,
    text: withTenant(`${select(kind)} WHERE x.id = $1 ${byDay ? "AND x.day = $2" : ""}`),
    values: byDay ? [id, idDay(id)] : [id],
  });
  return rows[0];
}

const SEARCH = withTenant(
  SEARCHED.map(
    (kind) => `(${select(kind)} WHERE position($1 IN lower(${SOURCES[kind].label})) > 0
      ${kind === "endpoint" ? "AND x.state <> 'DELETED'" : ""} ORDER BY x.id DESC LIMIT $2)`,
  ).join(" UNION ALL "),
  `ORDER BY array_position('{${SEARCHED.join(",")}}'::text[], f.kind), f.id DESC LIMIT $2`,
);

/**
 * Finds tenants, principals, credentials and endpoints by a part of their name, client id or URL, ignoring case. It
 * reads every name, in at most three seconds.
 */
export async function searchText(pool: Pool, text: string, limit: number): Promise<Found[]> {
  return await transaction(pool, async (db) => {
    await db.query(`SET LOCAL statement_timeout = ${SEARCH_MS}`);
    const { rows } = await db.query<Found>({
      name: "operator-search",
      text: SEARCH,
      values: [text.toLowerCase(), limit],
    });
    return rows;
  });
}
