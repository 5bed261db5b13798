/** Publishing events and looking at them (wire.md, Events). */
import { createHash } from "node:crypto";
import { type Static, Type } from "typebox";
import type { Pool } from "../../database/pool.ts";
import { findEvent, listEvents, type StoredEvent, tenantExists } from "../../database/repositories/events.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import type { Ingest } from "../../delivery/ingest.ts";
import { SignetError, validationFailed } from "../../errors.ts";
import { bodyInstant, Instant, queryInstant } from "../instants.ts";
import { readPage, toPage } from "../pagination.ts";
import { rawPage, withRawMember } from "../raw-json.ts";
import { Closed, IdempotencyHeaders, IdParams, Page, PageQuery } from "../schemas/common.ts";
import { EventType } from "../schemas/endpoints.ts";
import {
  AcceptedEvent,
  EVENT_DATA_DEPTH,
  EVENT_MAX,
  NewEvent,
  StoredEvent as StoredEventSchema,
} from "../schemas/events.ts";
import type { Identity } from "../../oauth/verify-access-token.ts";
import type { SignetServer } from "../types.ts";

const TAGS = ["events"];
const PUBLISH_ANY = "events:publish_any";
/** Nobody can publish what only we send (specification 6). */
const RESERVED = "ping";

export interface EventRouteServices {
  /** signet_api */
  readonly api: Pool;
  /** signet_ingest */
  readonly ingestPool: Pool;
  readonly ingest: Ingest;
}

/** The same event, however its request is spaced. */
function bodyHash(event: Static<typeof NewEvent>): Buffer {
  const canonical = [
    event.type,
    event.data.text,
    event.id ?? null,
    event.occurred_at ?? null,
    event.tenant_id ?? null,
  ];
  return createHash("sha256").update(JSON.stringify(canonical)).digest();
}

/** The wire form of an event. */
export function wireEvent(event: StoredEvent): string {
  const { id, type, sourceId, occurredAt, createdAt, deliveries } = event;
  return withRawMember(
    { id, type, source_id: sourceId, occurred_at: occurredAt, created_at: createdAt, deliveries },
    "data",
    event.data,
  );
}

/** The tenant that an event is published for: the caller's own, or any with the scope for it. */
async function publishingTenant(
  pool: Pool,
  identity: Identity,
  tenantId: string | undefined,
): Promise<string> {
  if (tenantId === undefined || tenantId === identity.tenantId) {
    return identity.tenantId;
  }
  if (!identity.scopes.has(PUBLISH_ANY)) {
    throw new SignetError("SCOPE_VIOLATION", {
      detail: `Publishing for another tenant requires scope ${PUBLISH_ANY}.`,
      extensions: {
        missing_permission: PUBLISH_ANY,
        missing_scopes: [PUBLISH_ANY],
        required_scopes: [PUBLISH_ANY],
        granted_scopes: [...identity.scopes],
      },
      headers: {
        "www-authenticate": `Bearer realm="service", error="insufficient_scope", scope="${PUBLISH_ANY}"`,
      },
    });
  }
  if (!(await tenantExists(pool, tenantId))) {
    throw validationFailed([{ pointer: "/tenant_id", code: "unknown", detail: "is not a tenant" }]);
  }
  return tenantId;
}

export function registerEventRoutes(server: SignetServer, services: EventRouteServices): void {
  registerPublishing(server, services);
  registerReads(server, services.api);
}

function registerPublishing(server: SignetServer, services: EventRouteServices): void {
  const { ingest } = services;

  server.post(
    "/v1/events",
    {
      config: { scopes: ["events:publish"], opaque: { "/data": EVENT_DATA_DEPTH } },
      bodyLimit: EVENT_MAX,
      schema: { tags: TAGS, headers: IdempotencyHeaders, body: NewEvent, response: { 202: AcceptedEvent } },
    },
    async ({ identity, body, headers }, reply) => {
      if (body.type === RESERVED) {
        throw validationFailed([{ pointer: "/type", code: "reserved", detail: "is reserved" }]);
      }
      const key = headers["idempotency-key"];
      const accepted = await ingest.accept({
        tenantId: await publishingTenant(services.ingestPool, identity, body.tenant_id),
        type: body.type,
        data: body.data.text,
        sourceId: body.id ?? null,
        occurredAt: body.occurred_at === undefined ? null : bodyInstant(body.occurred_at, "/occurred_at"),
        idempotency: key === undefined ? null : { key, bodyHash: bodyHash(body) },
      });
      if (accepted.replayed) {
        reply.header("idempotent-replayed", "true");
      }
      reply.code(202);
      return {
        id: accepted.id,
        type: accepted.type,
        created_at: accepted.createdAt.toISOString(),
        deliveries: accepted.deliveries,
      };
    },
  );
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
      return await reply
        .type("application/json; charset=utf-8")
        .send(rawPage(data.map(wireEvent), next) as never);
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
      return await reply.type("application/json; charset=utf-8").send(wireEvent(event) as never);
    },
  );
}
