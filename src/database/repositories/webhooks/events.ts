/** Events and their deliveries, inserted in one statement: the outbox. */
import { CONTENT_HEAD_BYTES } from "#crypto/content.ts";
import { hourStart, idAt, idDay } from "#domain/ids.ts";
import type { Queryable } from "#database/pool.ts";
import { raw, type Statement, sql } from "#database/sql.ts";
import type { KeyPlace } from "../idempotency.ts";
import type { TenantRow } from "../tenants.ts";
import { type HandedDeliveries, handOverParts } from "./handed-deliveries.ts";
import { type Expected, OTHER_VERSIONS, outdatedStatement } from "./matches.ts";
import { atPlace, type BoundedRows, type Onward, READ_MAX, readBounded, withinDays } from "../page.ts";
import type { Row } from "#database/rows.ts";

/** Channel that tells workers how many deliveries were added to the outbox. A hint only. */
export const OUTBOX_CHANNEL = "signet_outbox";

/** A notification names no tenants, or the first delivery alone, if they are more. */
const NAMED_TENANTS_MAX = 4;
const NAMED_DELIVERIES_MAX = 4;

/**
 * SQL that notifies the workers of `count` new deliveries. The second, random number picks the worker that claims. The
 * ids of their tenants and of the deliveries follow, with spaces between them; by default they are unknown.
 */
export function notifyOutbox(count: string, ids = "NULL"): string {
  return `pg_notify('${OUTBOX_CHANNEL}',
    ${count} || ' ' || floor(random() * 1000000)::int || coalesce(' ' || ${ids}, ''))`;
}

/** Returns the ids of the tenants and deliveries of the outbox for a notification, unless they are too many. */
function notifiedIds(events: readonly NewEvent[], handed?: HandedDeliveries): string | null {
  const tenants = new Set(events.map(({ tenantId }) => tenantId));
  const deliveries = events.flatMap((event) =>
    event.deliveries
      .filter(({ id, state }) => state === "QUEUED" && handed?.carriers.has(id) !== true)
      .map(({ id }) => id),
  );
  const ids = [
    ...(tenants.size > NAMED_TENANTS_MAX ? [] : tenants),
    ...(deliveries.length > NAMED_DELIVERIES_MAX ? deliveries.slice(0, 1) : deliveries),
  ];
  return ids.length === 0 ? null : ids.join(" ");
}

export interface NewDelivery {
  readonly id: string;
  readonly endpointId: string;
  readonly state: "QUEUED" | "DEAD_LETTERED";
}

/** A key under which an event is published only once, and the hash of its request's body. */
export interface EventKey extends KeyPlace {
  /** Kind of the key: an Idempotency-Key, the id of a signed request, or the publisher's own event id. */
  readonly kind: "request" | "signed" | "id";
  readonly bodyHash: Buffer;
}

export interface NewEvent {
  readonly id: string;
  readonly tenantId: string;
  readonly type: string;
  /** The sealed `data` (crypto/content.ts). */
  readonly content: Buffer;
  readonly sourceId: string | null;
  /** Whether the service publishes it, not its tenant; false by default. */
  readonly own?: boolean;
  readonly occurredAt: Date;
  readonly keys: readonly EventKey[];
  /** Null if traces are off. */
  readonly traceparent?: string | null;
  readonly deliveries: readonly NewDelivery[];
}

export interface InsertTimes {
  readonly now: Date;
  /** Older keys are free again, except ids of signed events. */
  readonly keysAfter: Date;
  /** Older ids of signed events are free again. */
  readonly signedKeysAfter: Date;
  /** When deliveries that become dead letters at once expire. */
  readonly expiresAt: Date;
}

/** Returns the events' contents, and their positions in one buffer. The first byte has number 1, as in `substr`. */
function placesOf(
  events: readonly NewEvent[],
): Readonly<{ contents: Buffer[]; starts: number[]; lengths: number[] }> {
  const contents = events.map(({ content }) => content);
  let next = 1;
  const starts: number[] = [];
  for (const { length } of contents) {
    starts.push(next);
    next += length;
  }
  return { contents, starts, lengths: contents.map(({ length }) => length) };
}

function traceparentsOf(events: readonly NewEvent[]): readonly (string | null)[] {
  return events.some(({ traceparent }) => typeof traceparent === "string")
    ? events.map(({ traceparent }) => traceparent ?? null)
    : [];
}

/** Like {@link traceparentsOf}: few commits contain an event of the service. */
function ownOf(events: readonly NewEvent[]): readonly (true | null)[] {
  return events.some(({ own }) => own === true) ? events.map(({ own }) => (own === true ? true : null)) : [];
}

const ROWS_PER_PAUSE = 100;

export const EVENTS_ROUTE = "POST /v1/events";

/**
 * Returns SQL that takes the events' keys, and names `refused`: the events of which one was taken. PostgreSQL prepares each
 * part of a statement for every run, also for no rows, so nothing else is named if no event has a key.
 */
function keysStatement(
  events: readonly NewEvent[],
  { now, keysAfter, signedKeysAfter }: InsertTimes,
): Statement {
  const keys = events.flatMap((event) => event.keys.map((key) => ({ event, key })));
  if (keys.length === 0) {
    return raw("refused AS (SELECT NULL::text AS event_id WHERE false)");
  }
  return sql`wanted AS (
    SELECT *, CASE WHEN signed THEN ${signedKeysAfter}::timestamptz ELSE ${keysAfter}::timestamptz END AS forget_before
    FROM unnest(
      ${keys.map(({ event }) => event.id)}::text[],
      ${keys.map(({ key }) => key.tenantId)}::text[],
      ${keys.map(({ key }) => key.route)}::text[], ${keys.map(({ key }) => key.key)}::text[],
      ${keys.map(({ key }) => key.bodyHash)}::bytea[],
      ${keys.map(({ key }) => key.kind === "signed")}::boolean[],
      ${keys.map(({ key }) => key.former?.route ?? null)}::text[], ${keys.map(({ key }) => key.former?.key ?? null)}::text[])
    AS w(event_id, tenant_id, route, key, body_hash, signed, former_route, former_key)
    WHERE event_id NOT IN (SELECT id FROM put_off)
  ), taken AS (
    SELECT w.event_id FROM wanted w
    WHERE EXISTS (SELECT FROM idempotency_keys k
        WHERE k.tenant_id = w.tenant_id AND k.route = w.route AND k.key = w.key AND k.created_at > w.forget_before)
      OR EXISTS (SELECT FROM idempotency_keys k
        WHERE k.tenant_id = w.tenant_id AND k.route = w.former_route AND k.key = w.former_key AND k.created_at > w.forget_before)
  ), keyed AS (
    -- Excludes the keys of events that are skipped anyway. If a concurrent statement takes one of an event's keys, the
    -- other keys refer to an event that does not exist. Readers of such keys detect that.
    INSERT INTO idempotency_keys AS k (tenant_id, route, key, body_hash, resource_id, created_at)
    SELECT tenant_id, route, key, body_hash, event_id, ${now} FROM wanted WHERE event_id NOT IN (SELECT event_id FROM taken)
    ORDER BY tenant_id, route, key
    ON CONFLICT (tenant_id, route, key) DO UPDATE
      SET body_hash = excluded.body_hash, resource_id = excluded.resource_id, created_at = excluded.created_at
      WHERE k.created_at <= CASE WHEN k.route LIKE '% signed by %' THEN ${signedKeysAfter}::timestamptz ELSE ${keysAfter}::timestamptz END
    RETURNING tenant_id, route, key
  ), refused AS (
    SELECT event_id FROM wanted WHERE (tenant_id, route, key) NOT IN (SELECT tenant_id, route, key FROM keyed)
  )`;
}

/** Returns SQL that appends the counts of `accepted` events and their deliveries in `outbox`. */
function countedStatement(now: Date): Statement {
  // All ids have the instant of the commit.
  const hour = new Date(hourStart(now.getTime()));
  return sql`INSERT INTO delivery_changes (tenant_id, endpoint_id, event_type, hour, events, bytes, accepted)
    SELECT tenant_id, endpoint_id, event_type, ${hour}::timestamptz, 0, 0, count(*) FROM outbox GROUP BY 1, 2, 3
    UNION ALL
    SELECT i.tenant_id, '', i.type, ${hour}::timestamptz, count(*), sum(i.length), 0
    FROM accepted a JOIN input i ON i.id = a.id WHERE i.own IS NOT TRUE GROUP BY 1, 3`;
}

function insertStatement(
  events: readonly NewEvent[],
  times: InsertTimes,
  { expected = [], comparesMatches = false, handed, pauseMs = 0 }: InsertOptions,
): Statement {
  const { now, expiresAt } = times;
  const deliveries = events.flatMap((event) => event.deliveries.map((delivery) => ({ event, delivery })));
  const { contents, starts, lengths } = placesOf(events);
  const ids = deliveries.map(({ delivery }) => delivery.id);
  const hand = handOverParts(handed, ids, now);
  return sql`WITH input AS (
    SELECT * FROM unnest(
      ${events.map((event) => idDay(event.id))}::date[],
      ${events.map((event) => event.id)}::text[],
      ${events.map((event) => event.tenantId)}::text[],
      ${events.map((event) => event.type)}::text[],
      ${events.map((event) => event.sourceId)}::text[],
      ${events.map((event) => event.occurredAt)}::timestamptz[],
      ${events.map((event) => event.deliveries.length)}::int[],
      ${starts}::int[], ${lengths}::int[],
      -- Empty without traces, or without events of the service. The statement then fills in nulls.
      ${traceparentsOf(events)}::text[], ${ownOf(events)}::boolean[])
    AS i(day, id, tenant_id, type, source_id, occurred_at, deliveries, start, length, traceparent, own)
  ), ${outdatedStatement(expected, comparesMatches)}, put_off AS MATERIALIZED (
    SELECT i.id FROM input i JOIN outdated o ON o.tenant_id = i.tenant_id AND o.type = i.type
  ), ${keysStatement(events, times)}, accepted AS (
    INSERT INTO events (day, id, tenant_id, type, content, source_id, occurred_at, deliveries, created_at, traceparent, own)
    -- All contents are one value, because an array would be sent in hexadecimal.
    SELECT i.day, i.id, i.tenant_id, i.type, substr(${Buffer.concat(contents)}::bytea, i.start, i.length), i.source_id, i.occurred_at, i.deliveries, ${now}, i.traceparent, i.own
    FROM input i WHERE i.id NOT IN (SELECT event_id FROM refused) AND i.id NOT IN (SELECT id FROM put_off)
    RETURNING day, id, tenant_id, type
  ), ${hand.current}outbox AS (
    INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, reason, dead_lettered_at, expires_at, created_at${hand.columns})
    SELECT a.day, d.id, a.tenant_id, a.id, a.type, d.endpoint_id, d.state,
      CASE WHEN d.state = 'DEAD_LETTERED' THEN 'endpoint_disabled'
        WHEN d.n % ${raw(String(ROWS_PER_PAUSE))} = 0 AND pg_sleep(${pauseMs / 1_000}::float8) IS NULL THEN '' END,
      CASE WHEN d.state = 'DEAD_LETTERED' THEN ${now}::timestamptz END,
      CASE WHEN d.state = 'DEAD_LETTERED' THEN ${expiresAt}::timestamptz END, ${now}${hand.values}
    FROM unnest(
      ${ids}::text[], ${deliveries.map(({ event }) => event.id)}::text[],
      ${deliveries.map(({ delivery }) => delivery.endpointId)}::text[],
      ${deliveries.map(({ delivery }) => delivery.state)}::text[]${hand.given}) WITH ORDINALITY AS d(id, event_id, endpoint_id, state${hand.name}, n)
    JOIN accepted a ON a.id = d.event_id
    RETURNING state, tenant_id, endpoint_id, event_type, day, id, carrier
  ), counted AS (
    ${countedStatement(now)}
  ), ${hand.noted}queued AS (SELECT count(*) AS n FROM outbox WHERE state = 'QUEUED' AND carrier IS NULL)
  SELECT (SELECT array_agg(id) FROM accepted) AS inserted, (SELECT array_agg(id) FROM put_off) AS outdated, ${comparesMatches ? raw(OTHER_VERSIONS) : raw("NULL::json")} AS versions,
    (SELECT ${raw(notifyOutbox("n", "ids"))} FROM queued, (SELECT ${notifiedIds(events, handed)}::text AS ids) t WHERE n > 0)${hand.result}`;
}

export interface InsertOptions {
  /** The matches from which the deliveries were made. The events of one that is outdated are skipped. */
  readonly expected?: readonly Expected[];
  /** Whether to compare a match if its tenant's version is another one. By default it counts as outdated. */
  readonly comparesMatches?: boolean;
  /** Deliveries to claim at once. */
  readonly handed?: HandedDeliveries | undefined;
  /** How long to pause after every {@link ROWS_PER_PAUSE} deliveries, so that others get the cores; none by default. */
  readonly pauseMs?: number;
}

export interface InsertResult {
  /** Ids of the events that were inserted. */
  readonly inserted: ReadonlySet<string>;
  /** Ids of events that were skipped because their match is outdated. */
  readonly outdated: ReadonlySet<string>;
  /** Ids of deliveries that were inserted with a carrier. */
  readonly handed: ReadonlySet<string>;
  /** The current versions of tenants by id, where the expected ones were not. Matches that are not outdated have these. */
  readonly versions: ReadonlyMap<string, string>;
}

/** Returns the name of the statement, which has fewer parts if there is less to do. */
function nameOf(events: readonly NewEvent[], { comparesMatches = false, handed }: InsertOptions): string {
  const keyed = events.some(({ keys }) => keys.length > 0);
  return `insert-events${handed === undefined ? "" : "-handed"}${keyed ? "-keyed" : ""}${comparesMatches ? "-compared" : ""}`;
}

/**
 * Inserts events with their deliveries in one statement and thus one commit. Skips an event if one of its keys is
 * taken. Two events of one call must not share a key.
 */
export async function insertEvents(
  db: Queryable,
  events: readonly NewEvent[],
  times: InsertTimes,
  options: InsertOptions = {},
): Promise<InsertResult> {
  const { rows } = await db.query<
    Record<"inserted" | "outdated" | "handed", string[] | null | undefined> & {
      readonly versions: Readonly<Record<string, string>> | null;
    }
  >({
    name: nameOf(events, options),
    ...insertStatement(events, times, options),
  });
  const [row] = rows;
  return {
    inserted: new Set(row?.inserted),
    outdated: new Set(row?.outdated),
    handed: new Set(row?.handed),
    versions: new Map(Object.entries(row?.versions ?? {})),
  };
}

/** The stored `data` of an event. Both members are null once it is erased. */
export interface StoredContent {
  /** Unsealed, for events from before contents were sealed. */
  readonly data: string | null;
  /** Sealed (crypto/content.ts). */
  readonly content: Buffer | null;
}

/** A stored event. Its contents are unsealed (`data`) for events from before contents were sealed. */
export interface StoredEvent
  extends
    StoredContent,
    Row<
      "events",
      "id" | "type" | "content_erased_at" | "source_id" | "occurred_at" | "deliveries" | "created_at"
    > {}

const EVENT_COLUMNS = `e.id, e.type, e.data, e.content, e.content_erased_at, e.source_id, e.occurred_at, e.deliveries,
  e.created_at`;

export async function findEvent(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<StoredEvent | undefined> {
  const { rows } = await db.query<StoredEvent>({
    name: "find-event",
    text: `SELECT ${EVENT_COLUMNS} FROM events e WHERE e.day = $1 AND e.id = $2 AND e.tenant_id = $3`,
    values: [idDay(id), id, tenantId],
  });
  return rows[0];
}

/** Returns the head of an event's content, which opens values sealed beside it; undefined once it is erased or gone. */
export async function findContentHead(
  db: Queryable,
  tenantId: string,
  id: string,
): Promise<Buffer | undefined> {
  const { rows } = await db.query<{ head: Buffer }>({
    name: "find-content-head",
    text: `SELECT substr(content, 1, $4) AS head FROM events
      WHERE day = $1 AND id = $2 AND tenant_id = $3 AND content IS NOT NULL`,
    values: [idDay(id), id, tenantId, CONTENT_HEAD_BYTES],
  });
  return rows[0]?.head;
}

/** Returns the existing events among these ids, in any order. */
export async function findEvents(
  db: Queryable,
  tenantId: string,
  ids: readonly string[],
): Promise<StoredEvent[]> {
  const { rows } = await db.query<StoredEvent>({
    name: "find-events",
    text: `SELECT ${EVENT_COLUMNS}
      FROM unnest($1::date[], $2::text[]) AS w(day, id) JOIN events e ON e.day = w.day AND e.id = w.id
      WHERE e.tenant_id = $3`,
    values: [ids.map(idDay), ids, tenantId],
  });
  return rows;
}

export interface EventFilter {
  readonly type?: string;
  /** The publisher's own id. */
  readonly sourceId?: string;
  /** Earliest acceptance, inclusive. */
  readonly from?: Date;
  /** Latest acceptance, exclusive. */
  readonly to?: Date;
}

/** An event of a list. Its content is read once the page is known. */
export interface ListedEvent {
  readonly id: string;
  /** Stored size of its content, in bytes. */
  readonly bytes: number;
}

/** SQL for the stored size of an event `e`. Reads no content. */
const CONTENT_BYTES = "coalesce(octet_length(e.content), octet_length(e.data::text), 0)";

/** Returns the stored sizes of these events' contents, in bytes, by id. */
export async function findContentSizes(
  db: Queryable,
  tenantId: string,
  ids: readonly string[],
): Promise<Map<string, number>> {
  const { rows } = await db.query<ListedEvent>({
    name: "find-content-sizes",
    text: `SELECT e.id, ${CONTENT_BYTES} AS bytes
      FROM unnest($1::date[], $2::text[]) AS w(day, id) JOIN events e ON e.day = w.day AND e.id = w.id
      WHERE e.tenant_id = $3`,
    values: [ids.map(idDay), ids, tenantId],
  });
  return new Map(rows.map(({ id, bytes }) => [id, bytes]));
}

/** Returns a page of events, newest first, after `before` if given. */
export async function listEvents(
  db: Queryable,
  tenantId: string,
  { filter, before, limit }: { filter: EventFilter; before: string | undefined; limit: number },
): Promise<BoundedRows<ListedEvent>> {
  const { type, sourceId, from, to } = filter;
  const within = withinDays("e", tenantId, filter);
  const ofType = type === undefined ? sql`true` : sql`e.type = ${type}`;
  const ofSource = sourceId === undefined ? ofType : sql`e.source_id = ${sourceId}`;
  const span = sql`(${from ?? null}::timestamptz IS NULL OR e.created_at >= ${from ?? null})
    AND (${to ?? null}::timestamptz IS NULL OR e.created_at < ${to ?? null})`;
  const isExact = from === undefined && to === undefined && (type === undefined || sourceId === undefined);
  const reader = {
    hasParts: false,
    rows: async (place: Onward | undefined, most: number) => {
      const { rows } = await db.query<ListedEvent>(
        sql`SELECT e.id, ${raw(CONTENT_BYTES)} AS bytes FROM (
            SELECT e.* FROM events e WHERE ${atPlace(place)} AND ${within} AND ${ofSource}
            ORDER BY day DESC, id DESC LIMIT ${isExact ? most : READ_MAX}
          ) e WHERE ${ofType} AND ${span} ORDER BY day DESC, id DESC LIMIT ${most}`,
      );
      return rows;
    },
    readTo: async (place: Onward | undefined) => {
      if (isExact) {
        return null;
      }
      const { rows } = await db.query<{ id: string }>(
        sql`SELECT id FROM events e WHERE ${atPlace(place)} AND ${within} AND ${ofSource}
          ORDER BY day DESC, id DESC OFFSET ${READ_MAX - 1} LIMIT 1`,
      );
      return rows[0]?.id ?? null;
    },
  };
  // No event is created before the instant in its id.
  const after = before ?? (to === undefined ? undefined : idAt("event", to.getTime() + 1));
  return await readBounded(reader, { after, limit });
}

/** Returns the state of a tenant; `undefined` if it does not exist. Only an `ACTIVE` tenant can publish. */
export async function findTenantState(
  db: Queryable,
  tenantId: string,
): Promise<TenantRow["state"] | undefined> {
  const { rows } = await db.query<Pick<TenantRow, "state">>({
    name: "tenant-state",
    text: "SELECT state FROM tenants WHERE id = $1",
    values: [tenantId],
  });
  return rows[0]?.state;
}
