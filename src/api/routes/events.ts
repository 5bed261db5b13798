/** Publishes and reads events, and erases their content (contract 6.1). */
import { Type } from "typebox";
import type { EventService, OpenEvent } from "#webhooks/ingest/event-service.ts";
import { callerOf } from "#http/caller.ts";
import { Instant, querySpan } from "#http/instants.ts";
import { nextCursor, readPage } from "../pagination.ts";
import { rawPage, sendRaw } from "#http/raw-json.ts";
import { Closed, IdParams, Page, PageQuery } from "#http/common.ts";
import { EventType } from "../schemas/endpoints.ts";
import { SourceId, StoredEvent as StoredEventSchema } from "../schemas/events.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { type PublishingServices, registerPublishing } from "./publishing.ts";
import { jsonPresenter } from "#http/present.ts";

const storedEventJson = jsonPresenter(StoredEventSchema, "data");

/** Returns the wire form of an event. */
export function toStoredEventJson(event: OpenEvent): string {
  return storedEventJson(event, { data: event.data ?? "null" });
}

export function registerEventRoutes(
  server: SignetServer,
  services: PublishingServices & { readonly events: EventService },
): void {
  registerPublishing(server, services);
  registerReads(server, services.events);
  registerErasure(server, services.events);
}

function registerErasure(server: SignetServer, events: EventService): void {
  server.delete(
    "/v1/events/:id/content",
    operation({
      id: "eraseEventContent",
      sdk: "events.eraseContent",
      tag: "events",
      scopes: ["events:publish"],
      summary: "Erase an event's content",
      description:
        "Destroys the event's data and the receivers' responses to it. Waiting deliveries end as `CANCELLED`.",
      params: IdParams("event"),
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await events.erase(request.identity.tenantId, request.params.id, callerOf(request));
      return await reply.code(204).send(null);
    },
  );
}

function registerReads(server: SignetServer, events: EventService): void {
  server.get(
    "/v1/events",
    operation({
      id: "listEvents",
      sdk: "events.list",
      tag: "events",
      scopes: ["events:read"],
      summary: "List events",
      description: "Newest first; can be filtered by type and time.",
      querystring: Closed({
        id: Type.Optional(SourceId),
        event_type: Type.Optional(EventType),
        from: Type.Optional(Instant),
        to: Type.Optional(Instant),
        ...PageQuery,
      }),
      response: { 200: Page(StoredEventSchema) },
    }),
    async (request, reply) => {
      const { tenantId } = request.identity;
      const page = readPage(request);
      const { event_type: type, id: sourceId } = request.query;
      const { from, to } = querySpan(request.query);
      const found = await events.list(tenantId, {
        filter: {
          ...(sourceId === undefined ? {} : { sourceId }),
          ...(type === undefined ? {} : { type }),
          ...(from === undefined ? {} : { from }),
          ...(to === undefined ? {} : { to }),
        },
        before: page.before ?? undefined,
        limit: page.limit,
      });
      const text = rawPage(found.rows.map(toStoredEventJson), nextCursor(found, page));
      return await sendRaw(reply, 200, text);
    },
  );

  server.get(
    "/v1/events/:id",
    operation({
      id: "getEvent",
      sdk: "events.get",
      tag: "events",
      scopes: ["events:read"],
      summary: "Read an event",
      description: "Returns `data` byte for byte as published; null once it is erased.",
      params: IdParams("event"),
      response: { 200: StoredEventSchema },
    }),
    async ({ identity: { tenantId }, params: { id } }, reply) =>
      await sendRaw(reply, 200, toStoredEventJson(await events.find(tenantId, id))),
  );
}
