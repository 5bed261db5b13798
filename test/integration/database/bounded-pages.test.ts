/**
 * A page of any list, with any filter or pair of filters, reads no more of the database when the tenant has ten times as
 * many rows. The lists, their filters and their values come from the OpenAPI documents.
 */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { READ_MAX } from "#database/repositories/page.ts";
import { ITEMS_READ_MAX } from "#database/repositories/webhooks/replay-items.ts";
import { DAY_MS, idAt } from "#domain/ids.ts";
import { useTestApi } from "#test/support/api.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { FORCES_PARALLEL_PLANS } from "#test/support/test-database.ts";
import { createEndpoint, createTenant, type Json, type Tenant } from "#test/support/tenant.ts";

allowMinutes(10);

const api = useTestApi();
/** More rows than a page reads at most, and ten times as many. */
const [FEW, MANY] = [2 * READ_MAX, 20 * READ_MAX];
/** Blocks that a page may read more: deeper indexes, and rows of the same instant. */
const MARGIN = 300;
const SCOPES = ["webhooks:read", "webhooks:write", "events:read", "credentials:read", "compliance:read"];
/** Forced parallel plans test that each page comes, whose statements are the same in each state. */
const STATES = FORCES_PARALLEL_PLANS
  ? ["DEAD_LETTERED"]
  : ["DELIVERED", "RETRYING", "DEAD_LETTERED", "QUEUED"];
/** Lists whose rows differ from state to state. */
const OF_STATES = /\/(?:deliveries|dlq|groups|items)$/;
/** The time of the rows: as many milliseconds as there are rows, at most. */
const SPAN_MS = 2_000_000;
/** All rows are of one day. Of a day that has little before `to`, a page may read all of that by a cheaper index. */
const now = Date.now() - (Date.now() % DAY_MS < SPAN_MS ? SPAN_MS : 0);
const ago = (ms: number): string => new Date(now - ms).toISOString();
/** Before, within and after the time of the rows. */
const INSTANTS = [ago(20 * DAY_MS), ago(SPAN_MS / 2), ago(-3_600_000)];

interface Parameter {
  readonly in: string;
  readonly name: string;
  readonly schema: {
    readonly enum?: readonly string[];
    readonly type?: string;
    readonly pattern?: string;
    readonly format?: string;
  };
  readonly example?: unknown;
}
interface List {
  readonly path: string;
  readonly filters: readonly Parameter[];
  readonly isOperators: boolean;
}
interface Place {
  readonly tenant: Tenant;
  readonly endpointId: string;
  readonly deliveryId: string;
  readonly replayId: string;
}

let client: Client;
/** A tenant with few rows and one with many, in each state. */
const places = new Map<string, readonly [Place, Place]>();
let lists: readonly List[] = [];

/** Inserts rows as the service leaves them: in one state, half without an answer of a receiver. */
async function seed(tenant: Tenant, state: string, count: number): Promise<Place> {
  const { id: endpointId } = await createEndpoint(api, tenant, { metadata: { team: "a" } });
  const replayId = idAt("replay", now).replace(/.{6}$/, tenant.tenantId.slice(-6));
  const settled = state === "QUEUED" ? "NULL" : "'status'";
  const salt = tenant.tenantId.slice(-8);
  // Ids of ten digits of time, the tenant's eight, and six of the number.
  const idOf = (prefix: string): string =>
    `'${prefix}_' || substr(time.digits, 1, 10) || '${salt}' || lpad((n % 1000000)::text, 6, '0')`;
  await client.query("CREATE TEMP TABLE IF NOT EXISTS instants (n int, ms bigint, digits text)");
  await client.query("TRUNCATE instants");
  const ms = Array.from({ length: count }, (_, index) => now - ((count - index) * SPAN_MS) / count);
  await client.query("INSERT INTO instants SELECT * FROM unnest($1::int[], $2::bigint[], $3::text[])", [
    ms.map((_, index) => index),
    ms,
    ms.map((each) => idAt("event", each).slice("evt_".length)),
  ]);
  const day = "(to_timestamp(ms / 1000.0) AT TIME ZONE 'UTC')::date";
  await client.query(
    `WITH rows AS MATERIALIZED (
        SELECT n, ${day} AS day, to_timestamp(ms / 1000.0) AS at, ${idOf("evt")} AS event, ${idOf("dlv")} AS delivery FROM instants time
      ), made AS (
        INSERT INTO events (day, id, tenant_id, type, data, source_id, occurred_at, deliveries, created_at)
        SELECT day, event, $1, 'inference.completed', '{}', 'own-' || n, at, 1, at FROM rows
      ), clogged AS (
        INSERT INTO clog (log_id, idx, entry, leaf_hash, at, type, tenant_id)
        SELECT 1, (SELECT greatest(max(idx), 10000000) FROM clog) + 1 + n, convert_to(jsonb_build_object('actor', 'operator:bootstrap', 'at', $5::text, 'details', '{}'::jsonb, 'type', 'tenant.created',
            'target', $1, 'tenant', $1, 'request_id', NULL, 'reason', NULL, 'v', 1, 'idx', 1, 'salt', '')::text, 'UTF8'),
          sha256(''), at, 'tenant.created', $1 FROM rows WHERE $6
      ), job AS (
        INSERT INTO replay_jobs (id, tenant_id, kind, state, rate_per_second, total, position, created_at, touched_at, finished_at)
        VALUES ($3, $1, 'dead_letters', 'COMPLETED', 1, ${count}, ${count}, now(), now(), now())
      ), items AS (
        INSERT INTO replay_items (job_id, position, tenant_id, day, delivery_id, event_id, cycle, result)
        SELECT $3, n + 1, $1, day, delivery, event, 1, 'replayed' FROM rows
      )
      INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, attempt_count, last_status,
        last_error, reason, created_at, expires_at)
      SELECT day, delivery, $1, event, 'inference.completed', $2, $4, 1, ${state === "QUEUED" ? "NULL" : "500"}, ${settled},
        CASE WHEN $4 = 'DEAD_LETTERED' THEN 'attempts_exhausted' END, at,
        CASE WHEN $4 = 'DEAD_LETTERED' THEN now() + interval '1 day' END FROM rows`,
    // Entries of the log are read with the first state alone.
    [tenant.tenantId, endpointId, replayId, state, ago(0), state === STATES[0]],
  );
  const { rows } = await client.query<{ id: string }>(
    "SELECT min(id) AS id FROM deliveries WHERE tenant_id = $1",
    [tenant.tenantId],
  );
  return { tenant, endpointId, deliveryId: rows[0]?.id ?? "", replayId };
}

async function listsOf(document: Json, isOperators: boolean): Promise<List[]> {
  const paths = Object.entries(document["paths"] as Record<string, { get?: { parameters?: Parameter[] } }>);
  return await Promise.resolve(
    paths.flatMap(([path, { get }]) => {
      const parameters = (get?.parameters ?? []).filter((parameter) => parameter.in === "query");
      return parameters.some(({ name }) => name === "cursor")
        ? [
            {
              path,
              isOperators,
              filters: parameters.filter(({ name }) => !["cursor", "limit", "format"].includes(name)),
            },
          ]
        : [];
    }),
  );
}

beforeAll(async () => {
  client = new Client({ connectionString: api.database.adminUrl });
  await client.connect();
  await client.query("SET session_replication_role = replica");
  await client.query("SELECT ensure_day_partitions((now() - interval '7 days')::date, 8)");
  lists = [
    ...(await listsOf((await api.request("/openapi.json")).body, false)),
    ...(await listsOf((await api.admin("GET", "/openapi.json")).body, true)),
  ];
  for (const state of STATES) {
    const [few, many] = [await createTenant(api, SCOPES), await createTenant(api, SCOPES)];
    places.set(state, [
      await seed(few, state, FEW),
      await seed(many, state, FORCES_PARALLEL_PLANS ? 1 : MANY),
    ]);
  }
  await client.query("VACUUM (ANALYZE)");
});
afterAll(async () => {
  await client.end();
});

/** Returns texts of a filter: each choice, or what some rows have and what none has. */
function valuesOf({ name, schema, example }: Parameter, place: Place): readonly string[] {
  const isDay = schema.format === undefined && schema.pattern?.startsWith("^20") === true;
  // Tomorrow, which an hour from now may be, is no day of usage.
  const instants = isDay ? [...INSTANTS.slice(0, 2), ago(0)].map((each) => each.slice(0, 10)) : INSTANTS;
  const known: Readonly<Record<string, readonly string[]>> = {
    from: instants,
    to: instants,
    metadata: ["[team]=a", "[team]=none"],
    last_status: ["500", "599"],
    event_id: [idAt("event", now - 60_000)],
    endpoint_id: [place.endpointId, idAt("endpoint", now)],
    tenant_id: [place.tenant.tenantId, idAt("tenant", now)],
    event_type: ["inference.completed", "no.such"],
    actor: ["operator:bootstrap", "operator:none"],
    id: ["own-1", "none"],
    name: ["none"],
    // All types are read by one statement.
    type: ["tenant.created", "tenant.suspended"],
  };
  const values = known[name] ?? schema.enum;
  if (values === undefined) {
    throw new Error(
      `say here which values of the filter ${name} some rows have and none has (${String(example)})`,
    );
  }
  return values;
}

function queriesOf({ filters }: List, place: Place): string[] {
  const single = filters.map((filter) =>
    valuesOf(filter, place).map((value) =>
      filter.name === "metadata"
        ? encodeURI(`metadata${value}`)
        : `${filter.name}=${encodeURIComponent(value)}`,
    ),
  );
  // Every state with others. Of other choices, the last, which the fewest rows have.
  const ends = single.map((texts) =>
    texts.filter((text, index) => text.startsWith("state=") || index === texts.length - 1),
  );
  const pairs = ends.flatMap((left, index) =>
    ends.slice(index + 1).flatMap((right) => left.flatMap((one) => right.map((other) => `${one}&${other}`))),
  );
  const isReversed = (query: string): boolean => {
    const parameters = new URLSearchParams(query);
    return (parameters.get("from") ?? "") > (parameters.get("to") ?? "~");
  };
  return ["", ...single.flat(), ...pairs].filter((query) => !isReversed(query));
}

function pathOf({ path, isOperators }: List, place: Place): string {
  const ids: Readonly<Record<string, string>> = {
    tenants: place.tenant.tenantId,
    principals: place.tenant.principalId,
    operators: "opr_000000000000000000000000",
    deliveries: place.deliveryId,
    endpoints: place.endpointId,
    replays: place.replayId,
    "event-types": "inference.completed",
  };
  const full = path.replace(
    /([a-z-]+)\/\{[a-z]+\}/,
    (_, noun: string) => `${noun}/${ids[noun] ?? "unknown"}`,
  );
  return isOperators ? full.replace("/admin/v1", "") : full;
}

/** Blocks that the statements of the api have read, by their plans; undefined while they do not count. */
let blocks: number | undefined;
const pending: Promise<void>[] = [];
const original = Reflect.get(Client.prototype, "query") as (...args: readonly unknown[]) => Promise<unknown>;

interface Explained {
  readonly rows: readonly { readonly "QUERY PLAN": readonly [{ readonly Plan: Record<string, number> }] }[];
}

/** Explains a statement that reads before it runs: in the same transaction, with the same role. */
async function explain(db: Client, statement: unknown, values: unknown): Promise<void> {
  const { text = "", values: own } =
    typeof statement === "string" ? { text: statement } : (statement as { text?: string; values?: unknown });
  // Reads of operators end with an entry in the compliance log.
  if (!/^\s*(?:WITH|SELECT)\b/.test(text) || /set_config|COMMIT$/.test(text)) {
    return;
  }
  const explaining = `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`;
  const { rows } = (await original.call(db, explaining, own ?? values ?? [])) as Explained;
  for (const { "QUERY PLAN": plan } of rows) {
    blocks =
      (blocks ?? 0) + (plan[0].Plan["Shared Hit Blocks"] ?? 0) + (plan[0].Plan["Shared Read Blocks"] ?? 0);
  }
}

async function blocksOf(list: List, query: string, place: Place): Promise<number> {
  const path = `${pathOf(list, place)}?limit=50${query === "" ? "" : `&${query}`}`;
  blocks = 0;
  const { status, text } = list.isOperators ? await api.admin("GET", path) : await place.tenant.get(path);
  await Promise.all(pending.splice(0));
  const read = blocks;
  blocks = undefined;
  expect([200, 404], `${path}: ${text}`).toContain(status);
  return read;
}

function placesOf(state: string): readonly [Place, Place] {
  const stored = places.get(state);
  if (stored === undefined) {
    throw new Error("nothing is stored");
  }
  return stored;
}

/** Forced parallel plans read other blocks: each page comes. */
async function expectPages(state: string): Promise<void> {
  const [few] = placesOf(state);
  for (const list of lists) {
    for (const query of queriesOf(list, few)) {
      await blocksOf(list, query, few);
    }
  }
}

async function expectNoMoreRead(state: string): Promise<void> {
  const [few, many] = placesOf(state);
  const explained = function (this: Client, ...args: unknown[]): unknown {
    // A client that ends reads nothing: its statement fails. It may end while it explains.
    const isOpen = (): boolean =>
      Reflect.get(this, "_queryable") !== false && Reflect.get(this, "_ending") !== true;
    if (blocks !== undefined && isOpen() && this.constructor !== Client) {
      pending.push(
        explain(this, args[0], args[1]).catch((error: unknown) => {
          if (isOpen()) {
            throw error;
          }
        }),
      );
    }
    return original.apply(this, args);
  };
  const spy = vi.spyOn(Client.prototype, "query").mockImplementation(explained);
  const grown: string[] = [];
  try {
    for (const list of lists.filter(({ path }) => state === STATES[0] || OF_STATES.test(path))) {
      const queries = queriesOf(list, few);
      for (const [index, query] of queriesOf(list, many).entries()) {
        const less = await blocksOf(list, queries[index] ?? "", few);
        const more = await blocksOf(list, query, many);
        // Items are joined with their deliveries, each by some blocks.
        const margin = list.path.endsWith("/items") ? ITEMS_READ_MAX * 5 : MARGIN;
        if (more > less + margin) {
          grown.push(`${list.path}?${query} reads ${less} blocks of ${FEW} rows, ${more} of ${MANY}`);
        }
      }
    }
  } finally {
    spy.mockRestore();
  }
  expect(grown).toEqual([]);
}

const [reads, check] = FORCES_PARALLEL_PLANS
  ? ["comes", expectPages]
  : ["reads no more of ten times as many rows", expectNoMoreRead];

describe.each(STATES)("with deliveries that are %s", (state) => {
  test(`a page of any list, with any filter or two, ${reads}`, async () => {
    await check(state);
    expect(lists.length).toBeGreaterThan(20);
  });
});
