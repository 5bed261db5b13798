/** Publishing events and looking at them (wire.md, Events). */
import { Type } from "typebox";
import type { Pool } from "../../database/pool.ts";
import { findEvent, listEvents, type StoredEvent } from "../../database/repositories/events.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import { SignetError } from "../../errors.ts";
import { Instant, queryInstant } from "../instants.ts";
import { readPage, toPage } from "../pagination.ts";
import { JSON_TYPE, rawPage, withRawMember } from "../raw-json.ts";
import { Closed, IdParams, Page, PageQuery } from "../schemas/common.ts";
import { EventType } from "../schemas/endpoints.ts";
import { StoredEvent as StoredEventSchema } from "../schemas/events.ts";
import type { SignetServer } from "../types.ts";
import { type PublishingServices, registerPublishing } from "./publishing.ts";

const TAGS = ["events"];

/** The wire form of an event. */
export function wireEvent(event: StoredEvent): string {
  const { id, type, sourceId, occurredAt, createdAt, deliveries } = event;
  return withRawMember(
    { id, type, source_id: sourceId, occurred_at: occurredAt, created_at: createdAt, deliveries },
    "data",
    event.data,
  );
}

export function registerEventRoutes(
  server: SignetServer,
  services: PublishingServices & { readonly api: Pool },
): void {
  registerPublishing(server, services);
  registerReads(server, services.api);
}

function registerReads(server: SignetServer, api: Pool): void {
  server.get(
    "/v1/events",
    {
      config: { scopes: ["events:read"] },
      schema: {
        tags: TAGS,
        querystring: Closed({
          event_type: Type.Optional(EventType),
          from: Type.Optional(Instant),
          to: Type.Optional(Instant),
          ...PageQuery,
        }),
        response: { 200: Page(StoredEventSchema) },
      },
    },
    async (request, reply) => {
      const { tenantId } = request.identity;
      const page = readPage(request);
      const { event_type: type } = request.query;
      const from = queryInstant(request.query.from, "from");
      const to = queryInstant(request.query.to, "to");
      const rows = await tenantTransaction(
        api,
        tenantId,
        async (client) =>
          await listEvents(client, tenantId, {
            filter: {
              ...(type === undefined ? {} : { type }),
              ...(from === undefined ? {} : { from }),
              ...(to === undefined ? {} : { to }),
            },
            before: page.before ?? undefined,
            limit: page.limit + 1,
          }),
      );
      const { data, next_cursor: next } = toPage(rows, page);
      return await reply.type(JSON_TYPE).send(rawPage(data.map(wireEvent), next) as never);
    },
  );

  server.get(
    "/v1/events/:id",
    {
      config: { scopes: ["events:read"] },
      schema: { tags: TAGS, params: IdParams("event"), response: { 200: StoredEventSchema } },
    },
    async ({ identity: { tenantId }, params: { id } }, reply) => {
      const event = await tenantTransaction(
        api,
        tenantId,
        async (client) => await findEvent(client, tenantId, id),
      );
      if (event === undefined) {
        throw new SignetError("NOT_FOUND", { detail: "There is no such event." });
      }
      return await reply.type(JSON_TYPE).send(wireEvent(event) as never);
    },
  );
}
