/** The tables of docs/reference/limits.md: every limit, from the schemas and constants that enforce it. */
import { URI_MAX } from "#http/uri-length.ts";
import { BODY_DEPTH, BODY_LIMIT } from "#http/plugins/body-parsing.ts";
import { PAGE_LIMIT } from "#http/common.ts";
import { METADATA_MAX } from "#api/endpoint-settings.ts";
import { METADATA_DEPTH } from "#api/schemas/endpoints.ts";
import { BATCH_MAX, EVENT_DATA_DEPTH, EVENT_MAX } from "#api/schemas/events.ts";
import { SETTINGS } from "#config/config.ts";
import { DEAD_LETTER_MS } from "#domain/retry-schedule.ts";
import { DELIVERY_DEADLINE_MS } from "#webhooks/sending/delivery-sender.ts";
import { KEPT_BODY_BYTES } from "#webhooks/sending/http-response.ts";
import { ATTEMPT_MAX, RETRY_AFTER_MAX_MS, RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";
import { HEADERS_MAX, HEADERS_MAX_BYTES } from "#webhooks/sending/authentication.ts";
import { PING_DEADLINE_MS } from "#webhooks/endpoints/challenge.ts";
import { SCHEMA_DEPTH, SCHEMA_MAX } from "#webhooks/event-types/schema-gate.ts";
import { POLL_SETS_MAX } from "#webhooks/ssf/poll.ts";
import { POLLED_SETS_MAX } from "#webhooks/ssf/publish.ts";
import { REMOVED_SUBJECTS_MAX, STREAMS_MAX, VERIFICATION_INTERVAL_S } from "#webhooks/ssf/stream-service.ts";
import { LIMIT_SETTINGS } from "#config/limit-settings.ts";
import { TENANT_LIMIT_NAMES, TENANT_LIMITS } from "#config/tenant-limits.ts";
import type { Operation, Schema } from "./openapi-schema.ts";
import { table } from "./text.ts";

const KIB = 1_024;
const SECOND_MS = 1_000;
const HOUR_MS = 3_600_000;

const bytes = (count: number): string =>
  count % (KIB * KIB) === 0 ? `${count / KIB / KIB} MiB` : `${count / KIB} KiB`;
const seconds = (ms: number): string => `${ms / SECOND_MS} s`;
const hours = (ms: number): string => `${ms / HOUR_MS} hours`;

/** Limits that no JSON Schema can state. */
const FIXED: readonly (readonly [what: string, limit: string])[] = [
  ["`data` of an event", `${bytes(EVENT_MAX)}, ${EVENT_DATA_DEPTH} levels`],
  ["body of a batch of events", bytes(BATCH_MAX)],
  ["body of any other request", `${bytes(BODY_LIMIT)}, ${BODY_DEPTH} levels`],
  ["path and query of a request", `${URI_MAX} characters`],
  ["`metadata` of an endpoint", `${bytes(METADATA_MAX)}, ${METADATA_DEPTH} levels`],
  ["`headers` of an endpoint", `${HEADERS_MAX}, ${bytes(HEADERS_MAX_BYTES)} together`],
  ["schema of an event type", `${bytes(SCHEMA_MAX)}, ${SCHEMA_DEPTH} levels`],
  ["page of a list", `${PAGE_LIMIT} by default; the table below has the most`],
  ["attempts of a delivery", `${ATTEMPT_MAX} within ${hours(RETRY_WINDOW_MS)}`],
  ["`Retry-After` of a receiver", hours(RETRY_AFTER_MAX_MS)],
  ["answer to a delivery", `${seconds(DELIVERY_DEADLINE_MS)}; ${bytes(KEPT_BODY_BYTES)} of it are kept`],
  ["answer to a ping", seconds(PING_DEADLINE_MS)],
  ["life of a dead letter", hours(DEAD_LETTER_MS)],
  ["streams of security events", `${STREAMS_MAX}, with ${REMOVED_SUBJECTS_MAX} removed subjects each`],
  ["tokens in the answer to a poll", `${POLL_SETS_MAX}`],
  ["unacknowledged tokens of a stream", `${POLLED_SETS_MAX}, each for ${hours(DEAD_LETTER_MS)}`],
  ["verification events of a stream", `one in ${VERIFICATION_INTERVAL_S} s`],
];

export function fixedLimits(): string {
  return table(["What", "At most"], FIXED);
}

/** What operators can set, for all tenants or for one. */
export function settableLimits(): string {
  const own = new Map(
    TENANT_LIMIT_NAMES.map((name) => [SETTINGS[TENANT_LIMITS[name].setting].variable, name] as const),
  );
  return table(
    ["Setting", "Default", "For one tenant", "Meaning"],
    Object.values(LIMIT_SETTINGS).map(({ variable, fallback, doc }) => {
      const name = own.get(variable);
      return [
        `\`${variable}\``,
        fallback === undefined ? "" : `\`${fallback}\``,
        name === undefined ? "" : `\`${name}\``,
        doc,
      ];
    }),
  );
}

const KEYWORDS: readonly (readonly [keyword: keyof Schema, words: (limit: unknown) => string])[] = [
  ["maxLength", (limit) => `${String(limit)} characters`],
  ["maxItems", (limit) => `${String(limit)} items`],
  ["maxProperties", (limit) => `${String(limit)} members`],
  ["minimum", (limit) => `${String(limit)} or more`],
  ["maximum", (limit) => `${String(limit)} or less`],
];

type Found = (path: string, limit: string) => void;

function collect(schema: Schema, path: string, found: Found): void {
  const limits = KEYWORDS.flatMap(([keyword, words]) =>
    schema[keyword] === undefined ? [] : [words(schema[keyword])],
  );
  if (limits.length > 0) {
    found(path, limits.join(", "));
  }
  for (const [name, member] of Object.entries(schema.properties ?? {})) {
    collect(member, path === "" ? name : `${path}.${name}`, found);
  }
  if (schema.items !== undefined) {
    collect(schema.items, `${path}[]`, found);
  }
  for (const choice of schema.anyOf ?? []) {
    collect(choice, path, found);
  }
}

/** Every limit of a member or parameter that the schemas of requests state. */
export function requestLimits(
  paths: Readonly<Record<string, Readonly<Record<string, Pick<Operation, "parameters" | "requestBody">>>>>,
): string {
  const rows = new Map<string, Set<string>>();
  for (const [path, operations] of Object.entries(paths)) {
    for (const [method, { parameters = [], requestBody }] of Object.entries(operations)) {
      const found: Found = (member, limit) => {
        const row = `\`${member}\` | ${limit}`;
        rows.set(row, (rows.get(row) ?? new Set()).add(`\`${method.toUpperCase()} ${path}\``));
      };
      for (const { name, in: place, schema } of parameters) {
        collect(schema, place === "query" ? `?${name}` : name, found);
      }
      for (const { schema } of Object.values(requestBody?.content ?? {})) {
        collect(schema, "", found);
      }
    }
  }
  const cells = [...rows].map(([row, requests]) => [row, [...requests].join(", ")] as const);
  return table(
    ["Member", "Limit", "Requests"],
    cells.toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );
}
