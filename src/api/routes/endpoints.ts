/** Webhook endpoints (specification 2 and 4). */
import { createHash } from "node:crypto";
import { type Static, Type } from "typebox";
import type { EndpointSettings } from "../../database/repositories/endpoints/endpoints.ts";
import { compileFilter, FILTER_MAX } from "../../webhooks/ingest/event-filter.ts";
import type { EndpointService } from "../../webhooks/endpoints/endpoint-service.ts";
import type { SettingsInput } from "../../webhooks/endpoints/settings.ts";
import { SignetError, validationFailed } from "../../domain/errors.ts";
import { ENDPOINT_STATES } from "../../domain/endpoint-state.ts";
import { callerOf } from "../../http/caller.ts";
import { readPage, toPage } from "../pagination.ts";
import { JSON_TYPE, rawPage } from "../../http/raw-json.ts";
import {
  Closed,
  IdempotencyHeaders,
  IdParams,
  MetadataQuery,
  OneOf,
  Page,
  PageQuery,
} from "../../http/common.ts";
import {
  Endpoint,
  EndpointPatch,
  METADATA_DEPTH,
  METADATA_MAX,
  NewEndpoint,
  RegisteredEndpoint,
  TestEvent,
  wireEndpoint,
} from "../schemas/endpoints.ts";
import { Delivery, presentDelivery } from "../schemas/deliveries.ts";
import { EVENT_DATA_DEPTH } from "../schemas/events.ts";
import type { RawJson } from "../../http/strict-json.ts";
import type { SignetServer } from "../../http/types.ts";

const TAGS = ["endpoints"];

/** Members excluded from the hash: a hash would confirm a guessed secret. */
const SECRET_MEMBERS = new Set(["value", "client_secret", "private_key"]);

function withoutSecrets(authentication: Static<typeof NewEndpoint>["authentication"]): unknown {
  return Object.entries(authentication ?? {})
    .filter(([name]) => !SECRET_MEMBERS.has(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
}

/** Returns the text of the metadata, or null without metadata. */
function metadataOf(metadata: RawJson | undefined): string | null {
  return metadata === undefined || metadata.kind === "null" ? null : metadata.text;
}

function bodyHash(body: Static<typeof NewEndpoint>): Buffer {
  const canonical: unknown[] = [
    body.url,
    body.events,
    metadataOf(body.metadata),
    body.description ?? null,
    // Omit absent members, so that keys from before these members existed still match the same request.
    ...(body.filter === undefined ? [] : [body.filter]),
    ...(body.require_echo === undefined ? [] : [["require_echo", body.require_echo]]),
    ...(body.rate_limit === undefined ? [] : [["rate_limit", body.rate_limit]]),
  ];
  // Requests without headers and authentication keep the hashes from before these members existed.
  if (body.headers || body.authentication) {
    canonical.push(Object.entries(body.headers ?? {}), withoutSecrets(body.authentication));
  }
  return createHash("sha256").update(JSON.stringify(canonical)).digest();
}

/** Returns the text of the metadata, or null to store none. @throws SignetError LIMIT_EXCEEDED */
function metadataText(metadata: RawJson | undefined): string | null {
  const text = metadataOf(metadata);
  if (text !== null && Buffer.byteLength(text) > METADATA_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `metadata may have at most ${METADATA_MAX} bytes.` });
  }
  return text;
}

/** Returns the text of the filter, or null to store none. @throws SignetError LIMIT_EXCEEDED, VALIDATION_FAILED */
function filterText(filter: Readonly<Record<string, unknown>> | null | undefined): string | null {
  if (filter === undefined || filter === null) {
    return null;
  }
  const text = JSON.stringify(filter);
  if (Buffer.byteLength(text) > FILTER_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `filter may have at most ${FILTER_MAX} bytes.` });
  }
  const compiled = compileFilter(filter);
  if (typeof compiled !== "function") {
    throw validationFailed([{ ...compiled, pointer: `/filter${compiled.pointer}` }]);
  }
  return text;
}

/** Returns the settings that a change contains. */
function changesOf({
  url,
  events,
  metadata,
  description,
  filter,
  headers,
  authentication,
  require_echo: requireEcho,
  rate_limit: rateLimit,
}: Static<typeof EndpointPatch>): SettingsInput<Partial<EndpointSettings>> {
  return {
    ...(headers === undefined ? {} : { headers }),
    ...(authentication === undefined ? {} : { authentication }),
    ...(url === undefined ? {} : { url }),
    ...(events === undefined ? {} : { eventTypes: events }),
    ...(metadata === undefined ? {} : { metadata: metadataText(metadata) }),
    ...(description === undefined ? {} : { description }),
    ...(filter === undefined ? {} : { filter: filterText(filter) }),
    ...(requireEcho === undefined ? {} : { requireEcho }),
    ...(rateLimit === undefined ? {} : { rateLimit }),
  };
}

export function registerEndpointRoutes(server: SignetServer, endpoints: EndpointService): void {
  registerRegistration(server, endpoints);
  registerReads(server, endpoints);
  registerChanges(server, endpoints);
  registerStates(server, endpoints);
  registerTest(server, endpoints);
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
    async (request, reply) => {
      const { identity, body, headers } = request;
      const key = headers["idempotency-key"];
      const registration = {
        url: body.url,
        eventTypes: body.events,
        metadata: metadataText(body.metadata),
        description: body.description ?? null,
        filter: filterText(body.filter),
        headers: body.headers ?? null,
        authentication: body.authentication ?? null,
        requireEcho: body.require_echo ?? false,
        rateLimit: body.rate_limit ?? null,
        idempotency:
          key === undefined ? null : { principalId: identity.principalId, key, bodyHash: bodyHash(body) },
      };
      const { endpoint, secret, replayed } = await endpoints.register(
        identity.tenantId,
        registration,
        callerOf(request),
      );
      if (replayed) {
        reply.header("idempotent-replayed", "true");
      }
      // The response contains a secret.
      reply.header("cache-control", "no-store").code(201);
      return await reply.type(JSON_TYPE).send(wireEndpoint(endpoint, secret) as never);
    },
  );
}

function registerReads(server: SignetServer, endpoints: EndpointService): void {
  server.get(
    "/v1/webhooks/endpoints",
    {
      config: { scopes: ["webhooks:read"] },
      schema: {
        tags: TAGS,
        querystring: Closed({ state: Type.Optional(OneOf(ENDPOINT_STATES)), ...MetadataQuery, ...PageQuery }),
        response: { 200: Page(Endpoint) },
      },
    },
    async (request, reply) => {
      const page = readPage(request);
      const rows = await endpoints.list(request.identity.tenantId, {
        state: request.query.state,
        metadata: request.query.metadata,
        before: page.before ?? undefined,
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page);
      const items = data.map((endpoint) => wireEndpoint(endpoint));
      return await reply.type(JSON_TYPE).send(rawPage(items, next) as never);
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id",
    {
      config: { scopes: ["webhooks:read"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 200: Endpoint } },
    },
    async ({ identity, params }, reply) => {
      const endpoint = await endpoints.find(identity.tenantId, params.id);
      return await reply.type(JSON_TYPE).send(wireEndpoint(endpoint) as never);
    },
  );
}

function registerChanges(server: SignetServer, endpoints: EndpointService): void {
  server.patch(
    "/v1/webhooks/endpoints/:id",
    {
      config: { scopes: ["webhooks:write"], opaque: { "/metadata": METADATA_DEPTH } },
      schema: { tags: TAGS, params: IdParams("endpoint"), body: EndpointPatch, response: { 200: Endpoint } },
    },
    async (request, reply) => {
      const { identity, params, body } = request;
      const endpoint = await endpoints.update(
        identity.tenantId,
        params.id,
        changesOf(body),
        callerOf(request),
      );
      return await reply.type(JSON_TYPE).send(wireEndpoint(endpoint) as never);
    },
  );

  server.delete(
    "/v1/webhooks/endpoints/:id",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 204: Type.Null() } },
    },
    async (request, reply) => {
      await endpoints.remove(request.identity.tenantId, request.params.id, callerOf(request));
      return await reply.code(204).send(null);
    },
  );
}

function registerStates(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/verify",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 202: Endpoint } },
    },
    async ({ identity, params }, reply) => {
      const endpoint = await endpoints.verify(identity.tenantId, params.id);
      return await reply
        .code(202)
        .type(JSON_TYPE)
        .send(wireEndpoint(endpoint) as never);
    },
  );

  server.post(
    "/v1/webhooks/endpoints/:id/enable",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 202: Endpoint } },
    },
    async (request, reply) => {
      const { identity, params } = request;
      const endpoint = await endpoints.enable(identity.tenantId, params.id, callerOf(request));
      return await reply
        .code(202)
        .type(JSON_TYPE)
        .send(wireEndpoint(endpoint) as never);
    },
  );

  server.post(
    "/v1/webhooks/endpoints/:id/disable",
    {
      config: { scopes: ["webhooks:write"] },
      schema: { tags: TAGS, params: IdParams("endpoint"), response: { 200: Endpoint } },
    },
    async (request, reply) => {
      const { identity, params } = request;
      const endpoint = await endpoints.disable(identity.tenantId, params.id, callerOf(request));
      return await reply.type(JSON_TYPE).send(wireEndpoint(endpoint) as never);
    },
  );
}

function registerTest(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/test",
    {
      config: { scopes: ["webhooks:write"], optionalBody: true, opaque: { "/data": EVENT_DATA_DEPTH } },
      schema: { tags: TAGS, params: IdParams("endpoint"), body: TestEvent, response: { 202: Delivery } },
    },
    async ({ identity, params, body }, reply) => {
      const event = { type: body.type, data: body.data?.text };
      const delivery = await endpoints.sendTest(identity.tenantId, params.id, event);
      return await reply.code(202).send(presentDelivery(delivery));
    },
  );
}
