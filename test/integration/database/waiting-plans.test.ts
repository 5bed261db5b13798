/**
 * What waits is found by the index that holds nothing else, whatever the statistics say (decision 40). After a backlog
 * these indexes keep their pages without rows, and statistics are taken at any moment.
 */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { planInOrder, roleSettings, type ServiceRole } from "#database/role-settings.ts";
import type { Queryable } from "#database/pool.ts";
import { beginDayDrop } from "#database/repositories/partitions.ts";
import { findOtherDays } from "#database/repositories/webhooks/claims.ts";
import { findMissedEvents } from "#database/repositories/webhooks/missing-deliveries.ts";
import { listItems } from "#database/repositories/webhooks/replay-listing.ts";
import { DAY_MS, newId } from "#domain/ids.ts";
import { findStatements } from "#test/support/statements/find.ts";
import { createTestDatabase } from "#test/support/services.ts";
import type { TestDatabase } from "#test/support/test-database.ts";

/** Roles whose statements must not depend on statistics; of signet_api, only what explains a delivery. */
const ROLES: readonly ServiceRole[] = ["signet_worker", "signet_operator"];
const EXPLAINS = ["countWaitingBefore", "readLagOf"];
/** These read the starts of indexes in transactions that follow their order. */
const IN_ORDER = [
  ...EXPLAINS,
  "findOverdue",
  "readCensus",
  "readLag",
  "readQueues",
  "readTenantLag",
  "reclaimUnstarted",
];
/** It sorts what waits of days that have not begun, or whose retention is over: nearly nothing. */
const SORTS = "findOtherDays";

const OPEN_WORK =
  "deliveries_unclaimed deliveries_unstarted deliveries_carried_due deliveries_uncarried_answered deliveries_uncarried_timed_out deliveries_expiring";
/** The indexes that each function's statements read, besides the primary key. Empty: that key alone. */
const INTENDED: Readonly<Record<string, string>> = {
  adoptClaims: "",
  balanceHour: "",
  cancelFromCarrier: "",
  claimFirst: "deliveries_unclaimed",
  claimForEndpoints: "deliveries_unclaimed",
  claimLetters: "deliveries_dead_of_carrier",
  claimNamed: "",
  claimRetries: "deliveries_uncarried_answered deliveries_uncarried_timed_out",
  countOutcomes: "deliveries_of_tenant",
  countRetries: "deliveries_of_state",
  countUncarriedLetters: "deliveries_dead_of_carrier",
  countWaitingBefore: "deliveries_unclaimed",
  deferDelivery: "",
  deferForReservations: "",
  eraseDeliveries: "deliveries_of_tenant",
  expireFromCarrier: "",
  expireOverdue: "deliveries_expiring",
  findCarriersOfLetters: "deliveries_dead_of_carrier",
  findLettersOf: "deliveries_dead_of_carrier",
  findOtherDays: "deliveries_unclaimed",
  findOverdue: "deliveries_carried_due deliveries_unstarted",
  handBackClaims: "deliveries_unstarted",
  hasWaitingRetries: "deliveries_uncarried_answered deliveries_uncarried_timed_out",
  lettersOfCarriers: "deliveries_dead_of_carrier",
  noteExpiring: "deliveries_expiring",
  parkDelivery: "",
  readCensus: OPEN_WORK,
  readLag:
    "deliveries_unclaimed deliveries_unstarted deliveries_carried_due deliveries_uncarried_answered deliveries_uncarried_timed_out",
  readLagOf: "deliveries_unclaimed deliveries_of_state",
  readQueues: OPEN_WORK,
  readTenantLag:
    "deliveries_unclaimed deliveries_carried_due deliveries_uncarried_answered deliveries_uncarried_timed_out",
  reclaimUnstarted: "deliveries_unstarted",
  recordDelivered: "",
  recordWithRows: "",
  repair: "deliveries_unstarted deliveries_of_state",
  replayFromCarrier: "",
  replayPageOfDeliveries: "deliveries_of_tenant",
  storedIn: "",
  takeFromCarrier: "",
};

/** Lists by any filter, as tenants do: at most 5,000 rows, by whatever index. */
const BOUNDED = "listItems";
/** The conditions of the indexes of what waits. */
const WAITS = /carrier IS (?:NOT )?NULL|state(?: \|\| '')? (?:=|IN) \(?'(?:QUEUED|RETRYING|DEAD_LETTERED)'/;
/** It has the attempts of a page, of any number, and runs once for a tenant. */
const ERASES = "eraseDeliveries";
/** The day that {@link findStatements} puts into statements. */
const DAY = "2026-01-01";
const PARTITION = "deliveries_20260101";
/** What is found for a delivery, by the columns of its key. */
const FOUND: Readonly<Record<string, RegExp>> = {
  events_20260101: /\bday\b.*\bid\b|\bid\b.*\bday\b/,
  attempts_20260101: /\bdelivery_id\b/,
};
/** What is found for each delivery or event, and the columns of the key. */
const BY_KEY: Readonly<Record<string, RegExp>> = {
  endpoints: /\b(?:id|tenant_id)\b/,
  endpoint_secrets: /\bendpoint_id\b/,
  tenants: /\bid\b/,
};
const FINDS_BY_KEY = ["claimFirst", "claimNamed", "insertEvents", "loadForAttempt", "loadTargets"];
/** A variant of the insert that the program never composes (statements.test.ts). */
const NEVER_COMPOSED = "n.endpoints";
/** It has the tenants that no statement may touch, which are few. */
const HELD = "tenants_held";
const ROWS = 20_000;
const SAMPLES: Readonly<Record<string, string>> = {
  text: "'ten_big'",
  "timestamp with time zone": "now()",
  date: `DATE '${DAY}'`,
  integer: "8",
  boolean: "true",
};

interface Node {
  readonly "Node Type": string;
  readonly "Index Name"?: string;
  readonly "Index Cond"?: string;
  /** Of a bitmap, whose index is below. */
  readonly "Recheck Cond"?: string;
  readonly "Relation Name"?: string;
  readonly Plans?: readonly Node[];
}

interface Looking {
  readonly name: string;
  readonly place: string;
  readonly role: ServiceRole;
  readonly text: string;
}

let database: TestDatabase;
let client: Client;
let all: readonly Looking[];
let looking: readonly Looking[];
/** Of the partition, by their own names. */
let indexes: ReadonlyMap<string, string>;

function allStatements(): Looking[] {
  return findStatements().flatMap(({ place, roles, texts }) => {
    const name = place.split(" ")[1] ?? "";
    // Between yesterday and the days that are looked at one by one.
    const days = (text: string): string =>
      name === "findOtherDays" ? text.replaceAll(`DATE '${DAY}'`, `(DATE '${DAY}' + 2)`) : text;
    return roles.flatMap((role) => texts.map((text) => ({ name, place, role, text: days(text) })));
  });
}

function looksAtWaiting({ name, role, text }: Looking): boolean {
  const matters = ROLES.includes(role) || EXPLAINS.includes(name);
  return matters && name !== BOUNDED && /\bdeliveries\b/.test(text) && WAITS.test(text);
}

beforeAll(async () => {
  all = allStatements();
  looking = all.filter(looksAtWaiting);
  database = await createTestDatabase();
  client = new Client({ connectionString: database.adminUrl });
  await client.connect();
  await client.query(`SET session_replication_role = replica; SELECT ensure_day_partitions('${DAY}', 1);
    INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
      SELECT '${DAY}', 'dlv_' || lpad(n::text, 26, '0'), CASE WHEN n % 2 = 0 THEN 'ten_big' ELSE 'ten_' || md5((n % 5000)::text) END,
        'evt_' || lpad(n::text, 26, '0'), 'order.paid', 'ep_' || (n % 5000), 'QUEUED', now()
      FROM generate_series(1, ${ROWS}) n`);
  const { rows } = await client.query<{ own: string; name: string }>(
    `SELECT i.inhrelid::regclass::text AS own, i.inhparent::regclass::text AS name FROM pg_inherits i
      JOIN pg_index x ON x.indexrelid = i.inhrelid WHERE x.indrelid = '${PARTITION}'::regclass`,
  );
  indexes = new Map(rows.map(({ own, name }) => [own, name]));
}, 300_000);

afterAll(async () => {
  await client.end();
  await database.drop();
});

/** Plans a statement as its role does. */
async function planOf({ role, text, name }: Looking, mode: string): Promise<Node> {
  const begun = roleSettings(role, 8_000, "transaction");
  const inOrder = IN_ORDER.includes(name) ? planInOrder() : "";
  // A run that forces parallel plans takes away the costs by which the planner chooses among small indexes.
  const serial = "SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL debug_parallel_query = off";
  await client.query(`BEGIN; ${begun}; ${inOrder}; ${serial}; SET LOCAL plan_cache_mode = ${mode}`);
  try {
    await client.query(`PREPARE looking AS ${text}`);
    const { rows } = await client.query<{ types: string[] }>(
      "SELECT parameter_types::text[] AS types FROM pg_prepared_statements WHERE name = 'looking'",
    );
    const given = (rows[0]?.types ?? []).map((type) =>
      type.endsWith("[]") && SAMPLES[type.slice(0, -2)] !== undefined
        ? `ARRAY[${SAMPLES[type.slice(0, -2)]}]`
        : (SAMPLES[type] ?? "NULL"),
    );
    const values = given.length === 0 ? "" : `(${given.join(", ")})`;
    const { rows: explained } = await client.query<{ "QUERY PLAN": readonly [{ readonly Plan: Node }] }>(
      `EXPLAIN (FORMAT JSON) EXECUTE looking${values}`,
    );
    return (explained[0] as (typeof explained)[0])["QUERY PLAN"][0].Plan;
  } finally {
    await client.query("ROLLBACK; DEALLOCATE ALL");
  }
}

/** Returns the scans of the day that read more than what was asked for. */
function strayScans(node: Node, name: string): string[] {
  const below = (node.Plans ?? []).flatMap((plan) => strayScans(plan, name));
  return [...below, ...strayScan(node, name), ...(name === ERASES ? [] : strayFound(node))];
}

/** Returns the days' indexes that are read as a whole, to sort what they hold and take its start. */
function sortedScans(node: Node, name: string, sorts = false, limits = false): string[] {
  const kind = node["Node Type"];
  const index = indexes.get(node["Index Name"] ?? "");
  if (index !== undefined) {
    return sorts && name !== SORTS ? [`all of ${index}, sorted`] : [];
  }
  const isCut = kind === "Limit" || kind === "Aggregate";
  return (node.Plans ?? []).flatMap((plan) =>
    sortedScans(plan, name, (sorts && !isCut) || (kind === "Sort" && limits), kind === "Limit"),
  );
}

/** Returns the tables that are read as a whole, though one row is found for each delivery or event. */
function wholeTables(node: Node): string[] {
  const { "Relation Name": relation = "", "Index Name": index } = node;
  const condition = node["Index Cond"] ?? node["Recheck Cond"] ?? "";
  const key = index === HELD ? undefined : BY_KEY[relation];
  const below = (node.Plans ?? []).flatMap((plan) => wholeTables(plan));
  return key === undefined || key.test(condition) ? below : [...below, relation];
}

function strayFound({ "Relation Name": relation = "", "Index Cond": condition = "" }: Node): string[] {
  const key = FOUND[relation];
  return key === undefined || key.test(condition) ? [] : [`all of ${relation}`];
}

function strayScan(node: Node, name: string): string[] {
  const { "Relation Name": relation = "", "Index Cond": condition = "" } = node;
  const index = indexes.get(node["Index Name"] ?? "");
  if (index === undefined) {
    const whole = node["Node Type"].endsWith("Seq Scan") && relation === PARTITION;
    return whole ? ["all rows"] : [];
  }
  const byKey = index === "deliveries_pkey" && /\bday\b/.test(condition) && /\bid\b/.test(condition);
  return byKey || INTENDED[name]?.split(" ").includes(index) === true ? [] : [index];
}

async function strays(): Promise<string[]> {
  const found = new Set<string>();
  for (const statement of looking) {
    for (const mode of ["force_generic_plan", "force_custom_plan"]) {
      const plan = await planOf(statement, mode);
      for (const scan of [...strayScans(plan, statement.name), ...sortedScans(plan, statement.name)]) {
        found.add(`${statement.place} (${mode}): ${scan}`);
      }
    }
  }
  return [...found];
}

/** Makes PostgreSQL believe that so many rows are in each partial index, whose pages stay. */
async function believe(rows: number): Promise<void> {
  await client.query(`UPDATE pg_class SET reltuples = ${rows}, relpages = greatest(1, pg_relation_size(oid) / 8192)
    WHERE oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = '${PARTITION}'::regclass AND indpred IS NOT NULL)`);
}

test("every statement about what waits is listed with its indexes", () => {
  const names = new Set(looking.map(({ name }) => name));
  const others = [...names].filter((name) => !(name in INTENDED));
  expect(others).toEqual([]);
  expect(Object.keys(INTENDED).filter((name) => !names.has(name))).toEqual([]);
});

test.each([
  ["waited", ""],
  ["was a retry without a list", "UPDATE deliveries SET state = 'RETRYING', next_attempt_at = now()"],
  [
    "was a dead letter without a workflow",
    "UPDATE deliveries SET state = 'DEAD_LETTERED', next_attempt_at = NULL, expires_at = now() + interval '1 day'",
  ],
])("it reads no other index if the statistics are from when everything %s", async (_moment, change) => {
  await client.query(change);
  await client.query("VACUUM (ANALYZE) deliveries");
  expect(await strays()).toEqual([]);
  await believe(8);
  expect(await strays()).toEqual([]);
});

test.each([0, 1, 2, 3, 5, 8, 50])(
  "it reads no other index after a backlog has left, when ANALYZE has seen %i rows",
  async (seen) => {
    await client.query("UPDATE deliveries SET state = 'DELIVERED', carrier = 'bat_x', claimed_at = now()");
    await client.query("ANALYZE deliveries");
    await believe(seen);
    expect(await strays()).toEqual([]);
  },
);

test("it finds events and attempts by their keys, though PostgreSQL believes that there are none", async () => {
  const tables = Object.keys(FOUND).join(", ");
  await client.query(`VACUUM (ANALYZE) ${tables}`);
  expect(await strays()).toEqual([]);
});

const MIDNIGHT = new Date(DAY);
const AFTER = { tenantId: "ten_big", now: MIDNIGHT, until: new Date(MIDNIGHT.getTime() + 10 * DAY_MS) };
const MISSED = { ...AFTER, endpointId: "ep_1", eventTypes: ["*"], since: MIDNIGHT, limit: 10 };
const [DELIVERY, EVENT] = [
  newId("delivery", MIDNIGHT.getTime(), randomBytes),
  newId("event", MIDNIGHT.getTime(), randomBytes),
];

test.each<[string, (db: Queryable) => Promise<unknown>, string[]]>([
  [
    "a look for other days",
    async (db) => await findOtherDays(db, ["2025-12-31", DAY], 30),
    ["20251230", "20260102"],
  ],
  [
    "a replay that lists the next items",
    async (db) =>
      await listItems(
        db,
        { filter: {}, after: DELIVERY },
        { ...AFTER, jobId: "rpl_1", position: 0, size: 9 },
      ),
    ["20260102"],
  ],
  [
    "a replay of what an endpoint missed",
    async (db) => await findMissedEvents(db, MISSED, { after: EVENT, withContent: false }),
    ["20260102"],
  ],
])("%s plans no day before those that it goes on with, however large", async (_, ask, days) => {
  const asked: { text: string; values?: unknown[] }[] = [];
  const query = async (statement: (typeof asked)[number]) =>
    await Promise.resolve({ rows: [], at: asked.push(statement) });
  await ask({ query } as unknown as Queryable);
  const { text, values = [] } = asked.findLast((each) => each.text.includes("ORDER BY")) ?? { text: "" };
  await client.query("SELECT ensure_day_partitions('2025-12-30', 4)");
  const { rows } = await client.query<{ "QUERY PLAN": string }>(`EXPLAIN ${text}`, values);
  const plan = rows.map((row) => row["QUERY PLAN"]).join("\n");
  const planned = ["20251230", "20251231", "20260101", "20260102"].filter((day) =>
    new RegExp(`(?:deliveries|events)_${day}`).test(plan),
  );
  expect(planned).toEqual(days);
});

test("it finds endpoints, secrets and tenants by their keys, though PostgreSQL believes that there are none", async () => {
  await client.query(`VACUUM (ANALYZE) ${Object.keys(BY_KEY).join(", ")}`);
  const finding = all.filter(
    ({ name, text }) => FINDS_BY_KEY.includes(name) && !text.includes(NEVER_COMPOSED),
  );
  expect(new Set(finding.map(({ name }) => name)).size).toBe(FINDS_BY_KEY.length);
  const found: string[] = [];
  for (const statement of finding) {
    const tables = wholeTables(await planOf(statement, "force_generic_plan"));
    found.push(...tables.map((table) => `${statement.place}: all of ${table}`));
  }
  expect(found).toEqual([]);
});

test.each([0, 2, 8])("it reads no other index if only VACUUM has seen %i rows", async (seen) => {
  await client.query(`DELETE FROM pg_statistic WHERE starelid = '${PARTITION}'::regclass`);
  await believe(seen);
  expect(await strays()).toEqual([]);
});

test("the drop of a day compares no open row with each other, though its plan is from when there were none", async () => {
  const LINES = 3_000;
  await client.query("SET session_replication_role = DEFAULT");
  await client.query("VACUUM (ANALYZE) day_drop_lines");
  await beginDayDrop(client, DAY);
  const copy = async (): Promise<unknown> => await client.query("SELECT copy_open_rows($1, 100)", [DAY]);
  // From now on, the session keeps its plan.
  for (let call = 0; call < 6; call += 1) {
    await copy();
  }
  await client.query(
    "INSERT INTO day_drop_lines (day, id) SELECT $1, 'dlv_' || n FROM generate_series(1, $2::int) n",
    [DAY, LINES],
  );
  const plans: string[] = [];
  const note = ({ message = "" }: { message?: string | undefined }): void => void plans.push(message);
  client.on("notice", note);
  await client.query(`BEGIN; LOAD 'auto_explain'; SET LOCAL auto_explain.log_min_duration = 0;
    SET LOCAL auto_explain.log_analyze = on; SET LOCAL auto_explain.log_nested_statements = on;
    SET LOCAL client_min_messages = log`);
  await copy();
  await client.query("ROLLBACK");
  client.off("notice", note);
  const plan = plans.find((each) => each.includes("Delete on day_drop_lines")) ?? "";
  const rows = [...plan.matchAll(/rows=(\d+)(?:\.\d+)? loops=(\d+)|Rows Removed by [^:]+: (\d+)/g)];
  const read = rows.reduce(
    (sum, [, each = "0", times = "1", removed = "0"]) => sum + Number(each) * Number(times) + Number(removed),
    0,
  );
  expect(read).toBeGreaterThan(99);
  expect(read).toBeLessThan(10 * LINES);
});
