/** Webhook endpoints (specification 2 and 4). */
import { createHash } from "node:crypto";
import { type Static, Type } from "typebox";
import type { EndpointService } from "../../endpoints/endpoint-service.ts";
import { SignetError } from "../../errors.ts";
import { readPage, toPage } from "../pagination.ts";
import { Closed, IdempotencyHeaders, IdParams, Page, PageQuery } from "../schemas/common.ts";
import {
  Endpoint,
  METADATA_DEPTH,
  METADATA_MAX,
  NewEndpoint,
  presentEndpoint,
  RegisteredEndpoint,
} from "../schemas/endpoints.ts";
import type { SignetServer } from "../types.ts";

const TAGS = ["endpoints"];

/** The same request, however it is spaced. */
function bodyHash(body: Static<typeof NewEndpoint>): Buffer {
  const canonical = [body.url, body.events, body.metadata?.text ?? null, body.description ?? null];
  return createHash("sha256").update(JSON.stringify(canonical)).digest();
}

function metadataText(body: Static<typeof NewEndpoint>): string | null {
  const text = body.metadata?.text ?? null;
  if (text !== null && Buffer.byteLength(text) > METADATA_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `metadata has at most ${METADATA_MAX} bytes.` });
  }
  return text;
}

export function registerEndpointRoutes(server: SignetServer, endpoints: EndpointService): void {
  registerRegistration(server, endpoints);
  registerReads(server, endpoints);
  registerChanges(server, endpoints);
}

function registerRegistration(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints",
    {
      config: { scopes: ["webhooks:write"], opaque: { "/metadata": METADATA_DEPTH } },
      schema: {
        tags: TAGS,
        headers: IdempotencyHeaders,
        body: NewEndpoint,
        response: { 201: RegisteredEndpoint },
      },
    },
    async ({ identity, body, headers }, reply) => {
      const key = headers["idempotency-key"];
      const { endpoint, secret, replayed } = await endpoints.register(identity.tenantId, {
        url: body.url,
        eventTypes: body.events,
        metadata: metadataText(body),
        description: body.description ?? null,
        idempotency: key === undefined ? null : { key, bodyHash: bodyHash(body) },
      });
      if (replayed) {
        reply.header("idempotent-replayed", "true");
      }
      // It holds a secret.
      reply.header("cache-control", "no-store").code(201);
      return { ...presentEndpoint(endpoint), secret };
    },
  );
}

function registerReads(server: SignetServer, endpoints: EndpointService): void {
  server.get(
    "/v1/webhooks/endpoints",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, querystring: Closed(PageQuery), response: { 200: Page(Endpoint) } },
    },
    async (request) => {
      const page = readPage(request);
      const rows = await endpoints.list(request.identity.tenantId, {
        before: page.before ?? undefined,
        limit: page.limit + 1,
      });
      return toPage(rows.map(presentEndpoint), page);
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 200: Endpoint } },
    },
    async ({ identity, params }) => presentEndpoint(await endpoints.find(identity.tenantId, params.id)),
  );
}

function registerChanges(server: SignetServer, endpoints: EndpointService): void {
  server.delete(
    "/v1/webhooks/endpoints/:id",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 204: Type.Null() } },
    },
    async ({ identity, params }, reply) => {
      await endpoints.remove(identity.tenantId, params.id);
      return await reply.code(204).send(null);
    },
  );

  server.post(
    "/v1/webhooks/endpoints/:id/verify",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 202: Endpoint } },
    },
    async ({ identity, params }, reply) => {
      reply.code(202);
      return presentEndpoint(await endpoints.verify(identity.tenantId, params.id));
    },
  );
}
