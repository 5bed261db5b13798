import { Type } from "typebox";
import type { EventTypeRow, SchemaRow } from "#database/repositories/endpoints/event-types.ts";
import {
  Body,
  Closed,
  Nullable,
  OpaqueObject,
  OpaqueObjectOrNull,
  Resource,
  Timestamp,
} from "#http/common.ts";
import { Description, EventType } from "./endpoints.ts";
import { jsonPresenter } from "#http/present.ts";

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

const eventTypeJson = jsonPresenter(CataloguedType, "schema", "examples");

/** Returns the wire form of a catalogued type, with schema and examples as submitted. */
export function toEventTypeJson(row: EventTypeRow): string {
  return eventTypeJson(row, { schema: row.schema ?? "null", examples: row.examples });
}

const schemaJson = jsonPresenter(SchemaVersion, "schema");

/** Returns the wire form of one version. */
export function toSchemaJson(row: SchemaRow): string {
  return schemaJson(row, { schema: row.schema });
}
