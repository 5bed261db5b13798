/** The catalogue of event types (docs/event-types.md). */
import { type Static, Type } from "typebox";
import type { EventTypeChange, EventTypeService } from "#webhooks/event-types/event-type-service.ts";
import { isReservedType, RESERVED_TYPE_PROBLEM } from "#domain/own-event-types.ts";
import { SCHEMA_DEPTH } from "#webhooks/event-types/schema-gate.ts";
import { validationFailed } from "#domain/errors.ts";
import { readPage, toPage } from "../pagination.ts";
import { rawPage, sendRaw } from "#http/raw-json.ts";
import { Closed, Page, PageQuery } from "#http/common.ts";
import { EVENT_TYPE } from "../schemas/endpoints.ts";
import {
  CataloguedType,
  EventTypeParams,
  EventTypePatch,
  NewEventType,
  SchemaVersion,
  toEventTypeJson,
  toSchemaJson,
} from "../schemas/event-types.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

const PATH = "/v1/webhooks/event-types";
/** Maximum body size, in bytes: a schema of 64 KiB and examples. */
const BODY_MAX = 262_144;
const OPAQUE = { "/schema": SCHEMA_DEPTH, "/examples/*": SCHEMA_DEPTH };

function changeOf(body: Static<typeof EventTypePatch>): EventTypeChange {
  const { description, schema, schema_version: schemaVersion, examples, deprecated, archived } = body;
  const { replaced_by: replacedBy } = body;
  return {
    ...(description === undefined ? {} : { description }),
    // Responses show both as null: without a schema there is no version.
    ...(schema?.kind === "null" ? { schemaVersion: null } : {}),
    ...(schema === undefined || schema.kind === "null" ? {} : { schema: schema.text }),
    ...(schemaVersion === undefined ? {} : { schemaVersion }),
    ...(examples === undefined ? {} : { examples: examples.map(({ text }) => text) }),
    ...(deprecated === undefined ? {} : { deprecated }),
    ...(replacedBy === undefined ? {} : { replacedBy }),
    ...(archived === undefined ? {} : { archived }),
  };
}

export function registerEventTypeRoutes(server: SignetServer, eventTypes: EventTypeService): void {
  registerCreation(server, eventTypes);
  registerChanges(server, eventTypes);
  registerReads(server, eventTypes);
  registerVersions(server, eventTypes);
}

function registerCreation(server: SignetServer, eventTypes: EventTypeService): void {
  server.post(
    PATH,
    operation({
      id: "createEventType",
      sdk: "eventTypes.create",
      tag: "event types",
      scopes: ["webhooks:write"],
      opaque: OPAQUE,
      summary: "Add an event type to the catalogue",
      description:
        "With a JSON Schema, events of the type are validated when published. Types outside the catalogue can be published too.",
      errors: ["LIMIT_EXCEEDED"],
      requestExamples: {
        "with a schema": {
          name: "inference.completed",
          description: "A run has ended",
          schema: { type: "object", required: ["run"], properties: { run: { type: "integer" } } },
          examples: [{ run: 7 }],
        },
      },
      body: NewEventType,
      response: { 201: CataloguedType },
      bodyLimit: BODY_MAX,
    }),
    async ({ identity: { tenantId }, body }, reply) => {
      const { name, ...content } = body;
      if (isReservedType(name)) {
        throw validationFailed([{ pointer: "/name", ...RESERVED_TYPE_PROBLEM }]);
      }
      const row = await eventTypes.create({ tenantId, type: name }, changeOf(content));
      return await sendRaw(reply, 201, toEventTypeJson(row));
    },
  );
}

function registerChanges(server: SignetServer, eventTypes: EventTypeService): void {
  server.patch(
    `${PATH}/:name`,
    operation({
      id: "updateEventType",
      sdk: "eventTypes.update",
      tag: "event types",
      scopes: ["webhooks:write"],
      opaque: OPAQUE,
      summary: "Change an event type",
      description: "A different schema becomes the next version; existing versions never change.",
      errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
      requestExamples: { deprecate: { deprecated: true, replaced_by: "inference.finished" } },
      params: EventTypeParams,
      body: EventTypePatch,
      response: { 200: CataloguedType },
      bodyLimit: BODY_MAX,
    }),
    async ({ identity: { tenantId }, params: { name: type }, body }, reply) => {
      const row = await eventTypes.update({ tenantId, type }, changeOf(body));
      return await sendRaw(reply, 200, toEventTypeJson(row));
    },
  );

  server.delete(
    `${PATH}/:name`,
    operation({
      id: "deleteEventType",
      sdk: "eventTypes.delete",
      tag: "event types",
      scopes: ["webhooks:write"],
      summary: "Remove an event type from the catalogue",
      description: "Removes all versions of its schema. Published events stay.",
      params: EventTypeParams,
      response: { 204: Type.Null() },
    }),
    async ({ identity: { tenantId }, params: { name: type } }, reply) => {
      await eventTypes.remove({ tenantId, type });
      return await reply.code(204).send(null);
    },
  );
}

const NAME = new RegExp(EVENT_TYPE);
const VERSION = /^[1-9]\d{0,5}$/;

function registerReads(server: SignetServer, eventTypes: EventTypeService): void {
  server.get(
    PATH,
    operation({
      id: "listEventTypes",
      sdk: "eventTypes.list",
      tag: "event types",
      scopes: ["webhooks:read"],
      summary: "List the catalogue of event types",
      description: "Ordered by name.",
      querystring: Closed({
        archived: Type.Optional(
          Type.Unsafe<"true" | "false">({
            type: "string",
            enum: ["true", "false"],
            description: "Also lists archived types",
          }),
        ),
        ...PageQuery,
      }),
      response: { 200: Page(CataloguedType) },
    }),
    async (request, reply) => {
      const page = readPage(request, (key) => NAME.test(key));
      const archived = request.query.archived === "true";
      const rows = await eventTypes.list(request.identity.tenantId, {
        after: page.before,
        archived,
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page, ({ name }) => name);
      return await sendRaw(reply, 200, rawPage(data.map(toEventTypeJson), next));
    },
  );

  server.get(
    `${PATH}/:name`,
    operation({
      id: "getEventType",
      sdk: "eventTypes.get",
      tag: "event types",
      scopes: ["webhooks:read"],
      summary: "Read an event type",
      description: "Includes its schema and examples as they were submitted.",
      params: EventTypeParams,
      response: { 200: CataloguedType },
    }),
    async ({ identity: { tenantId }, params: { name: type } }, reply) =>
      await sendRaw(reply, 200, toEventTypeJson(await eventTypes.find({ tenantId, type }))),
  );
}

function registerVersions(server: SignetServer, eventTypes: EventTypeService): void {
  server.get(
    `${PATH}/:name/versions`,
    operation({
      id: "listEventTypeVersions",
      sdk: "eventTypes.versions",
      tag: "event types",
      scopes: ["webhooks:read"],
      summary: "List the versions of an event type's schema",
      description: "Newest first.",
      params: EventTypeParams,
      querystring: Closed(PageQuery),
      response: { 200: Page(SchemaVersion) },
    }),
    async (request, reply) => {
      const page = readPage(request, (key) => VERSION.test(key));
      const pair = { tenantId: request.identity.tenantId, type: request.params.name };
      const before = page.before === null ? null : Number(page.before);
      const rows = await eventTypes.versions(pair, { before, limit: page.limit + 1 });
      const { data, next_cursor: next } = toPage(rows, page, ({ version }) => String(version));
      return await sendRaw(reply, 200, rawPage(data.map(toSchemaJson), next));
    },
  );
}
