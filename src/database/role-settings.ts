/** The service roles, and what their sessions or transactions begin with. */

/** The roles that the service's login may take. None bypasses row-level security (migration 0001). */
export const SERVICE_ROLES = [
  "signet_api",
  "signet_ingest",
  "signet_worker",
  "signet_issuer",
  "signet_rotator",
  "signet_operator",
  "signet_audit",
  "signet_edge",
  "signet_cell",
] as const;

export type ServiceRole = (typeof SERVICE_ROLES)[number];

/**
 * Roles whose frequent statements find rows by their keys. Their plans do not depend on the values, and planning them for
 * each new connection and each set of values costs more than executing them.
 */
const GENERIC_PLANS: ReadonlySet<ServiceRole> = new Set(["signet_ingest", "signet_worker"]);

/**
 * Roles whose plans must not depend on how large tables and indexes were when they were made: those that look for what
 * waits, and the one that finds keys and endpoints for each event.
 */
const PLANS_BY_ROWS: ReadonlySet<ServiceRole> = new Set([
  "signet_ingest",
  "signet_worker",
  "signet_operator",
]);

const IDLE_IN_TRANSACTION_MS = 15_000;
/** A pool closes a connection that nobody has used for so long, in milliseconds. */
export const POOL_IDLE_MS = 10_000;
/**
 * The server ends a session without a statement after this time, in milliseconds. No living client leaves one unused for
 * so long. It may be gone without a word: a firewall has forgotten the connection, or a host has died. Until the kernel
 * noticed, hours later, its sessions would keep the places of new ones.
 */
export const SESSION_IDLE_MS = 3 * POOL_IDLE_MS;

/**
 * Values that statements and the parsing of their answers rely on. The database or the login may have others, set by
 * ALTER DATABASE or ALTER ROLE.
 */
const RELIED_ON = {
  TimeZone: "UTC",
  DateStyle: "ISO",
  IntervalStyle: "postgres",
  extra_float_digits: 1,
  array_nulls: "on",
  standard_conforming_strings: "on",
  transform_null_equals: "off",
  row_security: "on",
  search_path: "public",
  // The timeout of statements ends waits for locks, too.
  lock_timeout: 0,
} as const;

/** How long the settings of a role apply. */
export type SettingsScope = "session" | "transaction";

/**
 * Makes the planner compare plans by the number of rows they read, whatever an index's pages look like. An index of what
 * waits keeps its pages after its rows have left. By default the planner counts these pages, and may read all rows of a
 * day instead (decision 40). Without page costs, an index with fewer of the rows is never the dearer one.
 */
const BY_ROWS = { random_page_cost: "0", seq_page_cost: "0", enable_seqscan: "off" } as const;

function settingBatch(scope: SettingsScope, settings: Readonly<Record<string, string | number>>): string {
  const set = scope === "session" ? "SET" : "SET LOCAL";
  return Object.entries(settings)
    .map(([name, value]) => `${set} ${name} = '${value}'`)
    .join("; ");
}

/**
 * Returns the statements that let those of a transaction, of any role, read the starts of the indexes of what waits. Right
 * after a backlog began, the planner expects one row in each day. It would rather read and sort all of them than follow
 * an index.
 */
export function planInOrder(): string {
  return settingBatch("transaction", { ...BY_ROWS, enable_sort: "off" });
}

/**
 * Returns the statements, one batch without an answer to read, that make a session or a transaction act as a role. They
 * take no snapshot, so `SET TRANSACTION` may follow them.
 */
export function roleSettings(role: ServiceRole, statementMs: number, scope: SettingsScope): string {
  const settings = {
    role,
    ...RELIED_ON,
    [scope === "session" ? "default_transaction_isolation" : "transaction_isolation"]: "read committed",
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
    ...(scope === "session" ? { idle_session_timeout: SESSION_IDLE_MS } : {}),
    // A pooler may pass on a session that another role has used.
    plan_cache_mode: GENERIC_PLANS.has(role) ? "force_generic_plan" : "auto",
  };
  if (PLANS_BY_ROWS.has(role)) {
    return settingBatch(scope, { ...settings, ...BY_ROWS });
  }
  // A pooler may pass on a session that another role has used. The database may have values of its own.
  const set = scope === "session" ? "SET" : "SET LOCAL";
  const others = Object.keys(BY_ROWS).map((name) => `${set} ${name} TO DEFAULT`);
  return `${settingBatch(scope, settings)}; ${others.join("; ")}`;
}
