/** The `webhooks` section of the OpenAPI document: the requests that receivers get (contract 6.3). */
import { TOKEN_LIFETIME_MINUTES } from "#domain/identity.ts";
import { ATTEMPT_MAX, RETRY_WINDOW_HOURS } from "#domain/retry-schedule.ts";
import { DEFAULT_TOLERANCE_SECONDS } from "#lib/receiver/verify.ts";
import { DISABLED_REASONS } from "#domain/endpoint-state.ts";
import { inPascalCase } from "./components.ts";
import { exampleOf, type DocumentedSchema } from "./examples.ts";

const timestamp = {
  type: "string",
  format: "date-time",
  examples: ["2025-11-20T14:46:40.000Z"],
} as const satisfies DocumentedSchema;
/** Not by `anyOf`: OpenAPI Generator's Python does not read one in a webhook. */
const nullable = (schema: DocumentedSchema & { readonly type: string }): DocumentedSchema => ({
  ...schema,
  type: [schema.type, "null"],
});
const id = (prefix: string): DocumentedSchema => ({
  type: "string",
  pattern: `^${prefix}_[0-9a-hjkmnp-tv-z]{24}$`,
});

function object(
  properties: Readonly<Record<string, DocumentedSchema>>,
  description?: string,
): DocumentedSchema {
  return {
    type: "object",
    ...(description === undefined ? {} : { description }),
    required: Object.keys(properties),
    properties,
  };
}

const CAEP = "https://schemas.openid.net/secevent/caep/event-type";

const CaepEvent = object({
  event_timestamp: { type: "integer", examples: [1_763_650_000] },
  initiating_entity: { type: "string", enum: ["admin", "system"] },
});

/** A header of all requests, or of some if `optional`. */
interface Header {
  readonly name: string;
  readonly description: string;
  readonly example: string;
  readonly optional?: true;
}

const HEADERS: readonly Header[] = [
  {
    name: "X-Service-Signature-256",
    description: "HMAC-SHA-256 of the body, keyed with the text of the endpoint's secret",
    example: `sha256=${"5dc9da79a70659a9".repeat(4)}`,
  },
  {
    name: "X-Service-Signature-256-Alt",
    description: "The same with the other secret, during the overlap of a rotation",
    example: `sha256=${"ad559cb701ded9a2".repeat(4)}`,
    optional: true,
  },
  {
    name: "X-Service-Timestamp",
    description: `Time of this attempt in Unix seconds, as \`sent_at\` in the body. Reject requests older than ${DEFAULT_TOLERANCE_SECONDS} seconds`,
    example: "1763650000",
  },
  {
    name: "X-Service-Event-Id",
    description: "The event's id, the same in every attempt and replay: use it to detect duplicates",
    example: "evt_01jd3c5xq8m2v7k9r4t6w0zy",
  },
  { name: "X-Service-Event-Type", description: "The event's type", example: "inference.completed" },
  {
    name: "X-Service-Delivery-Id",
    description: "The delivery's id",
    example: "dlv_01jd3c5xq8m2v7k9r4t6w0zy",
  },
  { name: "X-Service-Attempt", description: "Number of the attempt in this cycle, 1 to 17", example: "1" },
  {
    name: "webhook-id",
    description: "Standard Webhooks: the event's id",
    example: "evt_01jd3c5xq8m2v7k9r4t6w0zy",
  },
  { name: "webhook-timestamp", description: "Standard Webhooks: Unix seconds", example: "1763650000" },
  {
    name: "webhook-signature",
    description:
      "Standard Webhooks: `v1,` and the base64 HMAC-SHA-256 over id, timestamp and body. During the overlap of a rotation there are several, separated by spaces. An endpoint that signs with Ed25519 adds `v1a` signatures",
    example: "v1,Xcnagei3WGamtVZy3Ad7Zoqudgjqi9Elgz+Nw7/RgQyg=",
  },
];

const data = { type: "object", additionalProperties: true } as const;

/** The body of every request. `data` is byte for byte the publisher's. */
const ENVELOPE = {
  id: id("evt"),
  type: { type: "string", description: "The event's type", examples: ["inference.completed"] },
  timestamp: { ...timestamp, description: "When the event occurred; by default, when it was accepted" },
  sent_at: {
    type: "integer",
    description: "Time of this attempt, in Unix seconds",
    examples: [1_763_650_000],
  },
  attempt: { type: "integer", minimum: 1, maximum: 17, examples: [1] },
  endpoint_id: id("ep"),
  delivery_id: { ...id("dlv"), description: "In a ping: an id that no delivery has" },
  metadata: { ...nullable(data), description: "The endpoint's metadata", examples: [{ team: "payments" }] },
  data: { ...data, examples: [{ run: 7, result: "ok" }] },
} as const satisfies Readonly<Record<string, DocumentedSchema>>;

const SOURCE_ID = {
  type: "string",
  description: "The publisher's own `id` of the event; absent if there is none",
  examples: ["order-7"],
} as const satisfies DocumentedSchema;

/** Distinguishes an event of the service from a tenant's event of the same type. */
const SOURCE = {
  type: "string",
  enum: ["service"],
  description: "Marks an event of the service itself. Events of tenants never have this member",
} as const satisfies DocumentedSchema;

const TEST_TYPE = "endpoint.test";

interface Webhook {
  readonly type: string;
  readonly summary: string;
  readonly description: string;
  readonly data: DocumentedSchema;
}

/** The events that the service itself sends. */
const OWN: readonly Webhook[] = [
  {
    type: "ping",
    summary: "Verification challenge",
    description:
      "Sent when an endpoint is registered, gets another URL or is enabled. Answer 200 within 5 seconds; with `require_echo` the response must contain the challenge.",
    data: object({
      endpoint_id: id("ep"),
      challenge: { type: "string", examples: ["pvZt0lqgXk2a9wJm"] },
    }),
  },
  {
    type: TEST_TYPE,
    summary: "Test event",
    description:
      "The default event of `POST /v1/webhooks/endpoints/{id}/test`. With `data` from the caller it has no `source`.",
    data: object({ message: { type: "string", examples: ["This is a test event."] } }),
  },
  {
    type: "endpoint.disabled",
    summary: "Another endpoint was disabled",
    description:
      "Its tenant disabled it, it failed for 120 hours, or it answered 410 Gone. The disabled endpoint itself gets no event.",
    data: object({
      endpoint_id: id("ep"),
      reason: { type: "string", enum: [...DISABLED_REASONS] },
      disabled_at: timestamp,
    }),
  },
  {
    type: "endpoint.secret_rotated",
    summary: "An endpoint's secret was rotated on schedule",
    description:
      "Contains the public key of an Ed25519 endpoint, or the new secret encrypted to its recipient's key.",
    data: object({
      endpoint_id: id("ep"),
      version: { type: "integer", examples: [2] },
      fingerprint: { type: "string", examples: ["9c1185a5"] },
      current_at: nullable(timestamp),
      public_key: nullable({ type: "string", examples: [`whpk_${"A".repeat(43)}=`] }),
      encrypted_secret: nullable({ type: "string", description: "A JWE" }),
    }),
  },
  {
    type: "verification.exhausted",
    summary: "Another endpoint did not answer its challenge",
    description: "All pings of a series failed; the endpoint stays `PENDING`.",
    data: object({
      endpoint_id: id("ep"),
      generation: { type: "integer", examples: [1] },
      last_error: nullable({ type: "string", examples: ["timeout"] }),
    }),
  },
  {
    type: "credential.ended",
    summary: "A credential has ended by plan",
    description: `It was replaced, and its overlap has ended. It gets no new tokens. Its last ones are valid until they expire, at most ${TOKEN_LIFETIME_MINUTES} minutes later.`,
    data: object({
      credential_id: id("crd"),
      ended_at: timestamp,
      reason: { type: "string", enum: ["replaced"] },
    }),
  },
  {
    type: "credential.revoked",
    summary: "A credential was revoked",
    description:
      "The tenant or an operator revoked it. `events` repeats this for receivers of OpenID CAEP events.",
    data: object({
      credential_id: id("crd"),
      revoked_at: timestamp,
      reason: nullable({ type: "string", examples: ["found in a public repository"] }),
      sub_id: object({ format: { type: "string", enum: ["opaque"] }, id: id("crd") }),
      events: object({ [`${CAEP}/credential-change`]: CaepEvent, [`${CAEP}/session-revoked`]: CaepEvent }),
    }),
  },
];

const EVENT: Webhook = {
  type: "event",
  summary: "A published event",
  description: `Delivered at least once, in no particular order. Answer any 2xx within 10 seconds; any other response is a failure. Failures are retried, up to ${ATTEMPT_MAX} attempts within ${RETRY_WINDOW_HOURS} hours. Verify the signature over the raw body first.`,
  data: ENVELOPE.data,
};

function operation({ type, summary, description, data: eventData }: Webhook): object {
  const own = type !== EVENT.type;
  const properties = own
    ? { ...ENVELOPE, type: { type: "string", enum: [type] }, source: SOURCE, data: eventData }
    : { ...ENVELOPE, source_id: SOURCE_ID };
  const { required = [], ...described } = object(properties);
  const schema = {
    // The name of the type in clients of OpenAPI Generator.
    title: own ? `${inPascalCase(type)}Event` : "PublishedEvent",
    ...described,
    // A test event has `source` only with its default content.
    required: required.filter((name) => name !== "source_id" && (name !== "source" || type !== TEST_TYPE)),
  };
  return {
    post: {
      operationId: `on${inPascalCase(type)}`,
      tags: ["webhook requests"],
      summary,
      description,
      security: [],
      parameters: HEADERS.map(({ name, optional, example, ...header }) => ({
        in: "header",
        name,
        ...header,
        required: optional !== true,
        schema: { type: "string" },
        example: name === "X-Service-Event-Type" && own ? type : example,
      })),
      requestBody: {
        required: true,
        content: {
          "application/json": { schema, example: exampleOf(schema) },
        },
      },
      responses: {
        "2XX": { description: own && type === "ping" ? "200: the endpoint is verified" : "Delivered" },
        default: { description: "A failure, including redirects; it is retried" },
      },
    },
  };
}

/** Returns the `webhooks` section. */
export function describeWebhooks(): Record<string, object> {
  return Object.fromEntries([EVENT, ...OWN].map((webhook) => [webhook.type, operation(webhook)]));
}
