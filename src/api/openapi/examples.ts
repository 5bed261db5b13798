/**
 * Generates the examples of the OpenAPI document from its schemas, so that a new member gets an example too. A test
 * validates every example against its schema.
 */

/** The subset of JSON Schema that the routes' schemas use. */
export interface DocumentedSchema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, DocumentedSchema>>;
  readonly required?: readonly string[];
  readonly items?: DocumentedSchema;
  readonly anyOf?: readonly DocumentedSchema[];
  readonly oneOf?: readonly DocumentedSchema[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly examples?: readonly unknown[];
  readonly default?: unknown;
  readonly pattern?: string;
  readonly maxLength?: number;
  readonly minimum?: number;
  readonly $ref?: string;
  readonly [keyword: string]: unknown;
}

/** An id without its prefix: 24 characters of Crockford's base32. */
const ID_TAIL = "01jd3c5xq8m2v7k9r4t6w0zy";
const AT = "2025-11-20T14:46:40.000Z";
const LATER = "2025-11-20T14:47:12.314Z";
export const EXAMPLE_HASH = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
/** A reason that an operator gives. */
export const EXAMPLE_REASON = "Reported by the customer";
/** A shortened JWT: header, payload and signature. */
const TOKEN = "eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJleHAiOjE3NjM2NTA5MDB9.c2lnbmF0dXJl";

/** Examples by member name, for schemas without one. `null` where that is the usual value. */
const BY_NAME: Readonly<Record<string, unknown>> = {
  access_token: TOKEN,
  activated_at: AT,
  token: TOKEN,
  actor: `operator:opr_${ID_TAIL}`,
  archived: "true",
  archived_at: null,
  attempt: 3,
  attempt_count: 3,
  attempts: 1,
  authentication: null,
  certificate_thumbprints: [EXAMPLE_HASH],
  client_id: "cl_7Hq2mVx9KcT4bYw8Rz3Nf6Pd",
  client_secret: `sgn_live_sk_${"k".repeat(43)}0Zx81Q`,
  content_erased_at: null,
  created_by: "bootstrap",
  credential_id: `crd_${ID_TAIL}`,
  cursor: "eyJrIjoiZHZsXzAxIn0",
  dead_lettered_at: null,
  delivered_at: null,
  deprecated_at: null,
  description: "Orders of the shop",
  disabled_reason: null,
  done: 120,
  duration_ms: 84,
  encrypted_secret: null,
  ends_at: null,
  erased_at: null,
  erasure_completed_at: null,
  error: "status",
  event_type: "inference.completed",
  events: ["inference.completed", "pipeline.failed"],
  examples: [{ run: 7 }],
  expires_at: null,
  expires_in: 900,
  failed: 0,
  failure: null,
  fingerprint: "9c1185a5",
  finished_at: null,
  granted_scopes: ["inference:read"],
  held_at: null,
  kek_id: "kek-2026",
  kid: "G6s2z2ajjxLpSAWh1lKiDty0dhO9ArvBI3Zt1pB5Svk",
  last_error: "status",
  last_status: 503,
  last_used_at: LATER,
  leaf_hash: EXAMPLE_HASH,
  metadata: { team: "payments" },
  name: "inference.completed",
  next_attempt_at: LATER,
  next_cursor: null,
  overdue: false,
  overlap_seconds: 86_400,
  platform: false,
  prefix: "sgn_op_7Hq2",
  predecessor_retires_by: "2025-11-27T14:46:40.000Z",
  public_key: null,
  rate_per_second: 100,
  reason: null,
  recipient: null,
  region: "eu",
  replaced_by: null,
  request_id: `req_${ID_TAIL}`,
  response_body: '{"error":"maintenance"}',
  retire_by: null,
  retired_at: null,
  revoked_at: null,
  revocation_reason: null,
  rotation_days: 30,
  san_uri: "spiffe://acme.example/billing",
  schema: { type: "object", required: ["run"], properties: { run: { type: "integer" } } },
  schema_version: 1,
  scope: "webhooks:read webhooks:write",
  scopes: ["webhooks:read", "webhooks:write"],
  score: 92,
  secret: `whsec_${"c2lnbmV0".repeat(5)}c2k=`,
  signature_required: false,
  signs_until: null,
  skipped: 0,
  source_id: "run-7",
  state: "ACTIVE",
  status: 503,
  superseded_at: null,
  target: `crd_${ID_TAIL}`,
  tenant_id: `ten_${ID_TAIL}`,
  token_url: "https://id.example.com/oauth2/token",
  total: 120,
  type: "inference.completed",
  unreadable: [],
  url: "https://example.com/hooks",
  verified_by: "status",
  workflow_id: `dlv_${ID_TAIL}`,
};

/** Checks a value against the type, enum and pattern of a schema, but not against nested schemas. */
function fits({ type, pattern, enum: choices, anyOf }: DocumentedSchema, value: unknown): boolean {
  if (anyOf !== undefined) {
    return anyOf.some((choice) => fits(choice, value));
  }
  if (choices !== undefined) {
    return choices.includes(value);
  }
  const kinds: readonly unknown[] = type === undefined ? [] : [type].flat();
  const kind =
    value === null
      ? "null"
      : Array.isArray(value)
        ? "array"
        : Number.isInteger(value)
          ? "integer"
          : typeof value;
  if (type !== undefined && !kinds.includes(kind)) {
    return false;
  }
  return typeof value !== "string" || pattern === undefined || new RegExp(pattern, "u").test(value);
}

/** Matches the pattern of an id's schema and captures the id's prefix. */
const ID_PATTERN = /^\^([a-z]{2,3})_\[0-9a-hjkmnp-tv-z\]\{24\}\$$/;

function textExample({ pattern, format }: DocumentedSchema): string {
  const [, prefix] = ID_PATTERN.exec(pattern ?? "") ?? [];
  if (prefix !== undefined) {
    return `${prefix}_${ID_TAIL}`;
  }
  return format === "date-time" ? AT : "text";
}

function objectExample(schema: DocumentedSchema, members: Members): unknown {
  const { properties = {}, required = [] } = schema;
  const wanted = Object.entries(properties).filter(([name]) => members === "all" || required.includes(name));
  return Object.fromEntries(wanted.map(([name, member]) => [name, exampleOf(member, members, name)]));
}

/** The members that an example object has: all in responses, the required ones in requests. */
export type Members = "all" | "required";

/** Returns an example for the schema's type alone. */
function plainExample(schema: DocumentedSchema, members: Members, name: string): unknown {
  switch (Array.isArray(schema.type) ? schema.type[0] : schema.type) {
    case "object":
      return objectExample(schema, members);
    case "array":
      return schema.items === undefined ? [] : [exampleOf(schema.items, members, name)];
    case "integer":
      return Math.max(1, schema.minimum ?? 1);
    case "boolean":
      return true;
    case "string":
      return textExample(schema);
    default:
      return {};
  }
}

/** Returns an example that matches the schema; `name` is the name of the member that has the schema. */
export function exampleOf(schema: DocumentedSchema, members: Members = "all", name = ""): unknown {
  const given = schema.examples?.[0] ?? schema.const ?? schema.default;
  if (given !== undefined) {
    return given;
  }
  const named = BY_NAME[name];
  if (named !== undefined && fits(schema, named)) {
    return named;
  }
  if (schema.enum !== undefined) {
    return schema.enum[0];
  }
  return schema.anyOf === undefined
    ? plainExample(schema, members, name)
    : exampleOf(schema.anyOf[0] ?? {}, members, name);
}
