/** The catalogue of event types (docs/event-types.md). */
import { type Static, Type } from "typebox";
import type { EventTypeChange, EventTypeService } from "../../webhooks/event-types/event-type-service.ts";
import { isReservedType, RESERVED_TYPE_PROBLEM } from "../../domain/own-event-types.ts";
import { SCHEMA_DEPTH } from "../../webhooks/event-types/schema-gate.ts";
import { validationFailed } from "../../domain/errors.ts";
import { readPage, toPage } from "../pagination.ts";
import { JSON_TYPE, rawPage } from "../../http/raw-json.ts";
import { Closed, Page, PageQuery } from "../../http/common.ts";
import { EVENT_TYPE } from "../schemas/endpoints.ts";
import {
  CataloguedType,
  EventTypeParams,
  EventTypePatch,
  NewEventType,
  SchemaVersion,
  wireEventType,
  wireSchema,
} from "../schemas/event-types.ts";
import type { SignetServer } from "../../http/types.ts";

const TAGS = ["event types"];
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
  registerChanges(server, eventTypes);
  registerReads(server, eventTypes);
}

function registerChanges(server: SignetServer, eventTypes: EventTypeService): void {
  server.post(
    PATH,
    {
      config: { scopes: ["webhooks:write"], opaque: OPAQUE },
      bodyLimit: BODY_MAX,
      schema: { tags: TAGS, body: NewEventType, response: { 201: CataloguedType } },
    },
    async ({ identity: { tenantId }, body }, reply) => {
      const { name, ...content } = body;
      if (isReservedType(name)) {
        throw validationFailed([{ pointer: "/name", ...RESERVED_TYPE_PROBLEM }]);
      }
      const row = await eventTypes.create({ tenantId, type: name }, changeOf(content));
      return await reply
        .code(201)
        .type(JSON_TYPE)
        .send(wireEventType(row) as never);
    },
  );

  server.patch(
    `${PATH}/:name`,
    {
      config: { scopes: ["webhooks:write"], opaque: OPAQUE },
      bodyLimit: BODY_MAX,
      schema: {
        tags: TAGS,
        params: EventTypeParams,
        body: EventTypePatch,
        response: { 200: CataloguedType },
      },
    },
    async ({ identity: { tenantId }, params: { name: type }, body }, reply) => {
      const row = await eventTypes.update({ tenantId, type }, changeOf(body));
      return await reply.type(JSON_TYPE).send(wireEventType(row) as never);
    },
  );

  server.delete(
    `${PATH}/:name`,
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: EventTypeParams, response: { 204: Type.Null() } },
    },
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
    {
      config: { scopes: ["webhooks:read"] },
      schema: {
        tags: TAGS,
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
      },
    },
    async (request, reply) => {
      const page = readPage(request, (key) => NAME.test(key));
      const archived = request.query.archived === "true";
      const rows = await eventTypes.list(request.identity.tenantId, {
        after: page.before,
        archived,
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page, ({ name }) => name);
      return await reply.type(JSON_TYPE).send(rawPage(data.map(wireEventType), next) as never);
    },
  );

  server.get(
    `${PATH}/:name`,
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, params: EventTypeParams, response: { 200: CataloguedType } },
    },
    async ({ identity: { tenantId }, params: { name: type } }, reply) =>
      await reply.type(JSON_TYPE).send(wireEventType(await eventTypes.find({ tenantId, type })) as never),
  );

  server.get(
    `${PATH}/:name/versions`,
    {
      config: { scopes: ["webhooks:read"] },
      schema: {
        tags: TAGS,
        params: EventTypeParams,
        querystring: Closed(PageQuery),
        response: { 200: Page(SchemaVersion) },
      },
    },
    async (request, reply) => {
      const page = readPage(request, (key) => VERSION.test(key));
      const pair = { tenantId: request.identity.tenantId, type: request.params.name };
      const before = page.before === null ? null : Number(page.before);
      const rows = await eventTypes.versions(pair, { before, limit: page.limit + 1 });
      const { data, next_cursor: next } = toPage(rows, page, ({ version }) => String(version));
      return await reply.type(JSON_TYPE).send(rawPage(data.map(wireSchema), next) as never);
    },
  );
}
