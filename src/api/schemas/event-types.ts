import { Type } from "typebox";
import type { EventTypeRow, SchemaRow } from "../../database/repositories/endpoints/event-types.ts";
import { withRawMember } from "../../http/raw-json.ts";
import {
  Body,
  Closed,
  Nullable,
  OpaqueObject,
  OpaqueObjectOrNull,
  Resource,
  Timestamp,
} from "../../http/common.ts";
import { Description, EventType } from "./endpoints.ts";

const EXAMPLES_MAX = 10;

const Content = {
  description: Type.Optional(Description),
  schema: Type.Optional(OpaqueObjectOrNull),
  examples: Type.Optional(Type.Array(OpaqueObject, { maxItems: EXAMPLES_MAX })),
  replaced_by: Type.Optional(Nullable(EventType)),
  deprecated: Type.Optional(Type.Boolean()),
};

export const NewEventType = Body("EventTypeInput", { name: EventType, ...Content });

/** Absent members stay unchanged. A different schema becomes the next version; existing versions never change. */
export const EventTypePatch = Body("EventTypeChange", {
  ...Content,
  schema_version: Type.Optional(Nullable(Type.Integer({ minimum: 1, maximum: 1_000 }))),
  archived: Type.Optional(Type.Boolean()),
});

const CataloguedName = { ...EventType, "x-noun": "event type" };

export const EventTypeParams = Closed({ name: CataloguedName });

const AnyObject = Type.Unsafe<unknown>({ type: "object", additionalProperties: true });

export const CataloguedType = Resource("EventType", {
  name: CataloguedName,
  description: Nullable(Type.String()),
  schema_version: Nullable(
    Type.Integer({ description: "The version that events are validated against; null for no validation" }),
  ),
  schema: Nullable(AnyObject),
  examples: Type.Array(AnyObject),
  deprecated_at: Nullable(Timestamp),
  replaced_by: Nullable(Type.String()),
  archived_at: Nullable(Timestamp),
  created_at: Timestamp,
  updated_at: Timestamp,
});

export const SchemaVersion = Resource("EventTypeSchema", {
  version: Type.Integer(),
  created_at: Timestamp,
  schema: AnyObject,
});

/** Returns the wire form of a catalogued type, with schema and examples as submitted. */
export function wireEventType(row: EventTypeRow): string {
  const plain = {
    name: row.name,
    description: row.description,
    schema_version: row.schema_version,
    deprecated_at: row.deprecated_at?.toISOString() ?? null,
    replaced_by: row.replaced_by,
    archived_at: row.archived_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
  const withSchema = withRawMember(plain, "schema", row.schema ?? "null");
  return `${withSchema.slice(0, -1)},"examples":${row.examples}}`;
}

/** Returns the wire form of one version. */
export function wireSchema({ version, schema, created_at: createdAt }: SchemaRow): string {
  return withRawMember({ version, created_at: createdAt.toISOString() }, "schema", schema);
}
