/** Moves schemas that occur in many places to `components.schemas` of the OpenAPI document. */
import type { DocumentedSchema } from "./examples.ts";

/** By name: an operation whose success response is exactly this schema. */
const NAMED: Readonly<Record<string, readonly [method: string, path: string, status: string]>> = {
  Attempt: ["get", "/v1/webhooks/deliveries/{id}/attempts", "200"],
  Checkpoint: ["get", "/v1/compliance/checkpoint", "200"],
  Credential: ["patch", "/v1/credentials/{id}", "200"],
  DeadLetter: ["get", "/v1/webhooks/dlq/{id}", "200"],
  Delivery: ["get", "/v1/webhooks/deliveries/{id}", "200"],
  Endpoint: ["get", "/v1/webhooks/endpoints/{id}", "200"],
  EndpointSecrets: ["get", "/v1/webhooks/endpoints/{id}/secret", "200"],
  Event: ["get", "/v1/events/{id}", "200"],
  EventType: ["get", "/v1/webhooks/event-types/{name}", "200"],
  Grade: ["get", "/v1/webhooks/endpoints/{id}/grades/{grade_id}", "200"],
  Replay: ["get", "/v1/webhooks/replays/{id}", "200"],
  RevocationReceipt: ["post", "/v1/credentials/{id}/revoke", "200"],
};

/** Names that mean the items of the response's list, not the response. */
const ITEMS: ReadonlySet<string> = new Set(["Attempt"]);

interface Answer {
  readonly content?: Readonly<Record<string, { readonly schema?: DocumentedSchema }>>;
}
interface Answered {
  readonly responses: Readonly<Record<string, Answer>>;
}

/** Returns the named schemas that the paths contain. */
export function namedSchemas(
  paths: Readonly<Record<string, Readonly<Record<string, Answered>>>>,
): Record<string, DocumentedSchema> {
  const found: Record<string, DocumentedSchema> = {};
  for (const [name, [method, path, status]] of Object.entries(NAMED)) {
    const schema = paths[path]?.[method]?.responses[status]?.content?.["application/json"]?.schema;
    const named = ITEMS.has(name) ? schema?.properties?.["data"]?.items : schema;
    if (named !== undefined) {
      found[name] = named;
    }
  }
  return found;
}

/** Returns a copy of `value` in which a `$ref` replaces every schema that equals a named one. */
export function withReferences<T>(value: T, names: ReadonlyMap<string, string>): T {
  if (Array.isArray(value)) {
    return value.map((item: unknown) => withReferences(item, names)) as T;
  }
  if (typeof value !== "object" || value === null) {
    return value;
  }
  const name = Object.hasOwn(value, "properties") ? names.get(JSON.stringify(value)) : undefined;
  if (name !== undefined) {
    return { $ref: `#/components/schemas/${name}` } as T;
  }
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [key, withReferences(member as unknown, names)]),
  ) as T;
}
