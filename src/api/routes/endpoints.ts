/** Webhook endpoints (contract 2 and 4). */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import type { FastifyReply } from "fastify";
import { Type } from "typebox";
import type { Endpoint as EndpointRow } from "#database/repositories/endpoints/endpoints.ts";
import type { ReportedActivity } from "#database/repositories/webhooks/delivery-counts.ts";
import type { EndpointService } from "#webhooks/endpoints/endpoint-service.ts";
import { SHOWN_HEALTHS } from "#domain/endpoint-health.ts";
import { ENDPOINT_STATES } from "#domain/endpoint-state.ts";
import { callerOf } from "#http/caller.ts";
import { changesOf, registrationHash, settingsOf } from "../endpoint-settings.ts";
import { readPage, toPage } from "../pagination.ts";
import { rawPage, sendRaw } from "#http/raw-json.ts";
import { Closed, IdempotencyHeaders, IdParams, MetadataQuery, OneOf, Page, PageQuery } from "#http/common.ts";
import {
  Endpoint,
  EndpointPatch,
  METADATA_DEPTH,
  NewEndpoint,
  RegisteredEndpoint,
  TestEvent,
  toEndpointJson,
} from "../schemas/endpoints.ts";
import { Delivery, toDelivery } from "../schemas/deliveries.ts";
import { EVENT_DATA_DEPTH } from "../schemas/events.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";

export function registerEndpointRoutes(server: SignetServer, endpoints: EndpointService): void {
  registerRegistration(server, endpoints);
  registerReads(server, endpoints);
  registerChanges(server, endpoints);
  registerStates(server, endpoints);
  registerTest(server, endpoints);
}

/** Sends an endpoint with its health. */
async function sendEndpoint(
  reply: FastifyReply,
  status: number,
  {
    endpoints,
    endpoint,
    secret,
  }: { readonly endpoints: EndpointService; readonly endpoint: EndpointRow; readonly secret?: string },
): Promise<void> {
  const { id, tenant_id: tenantId } = endpoint;
  const activity = await endpoints.activity(tenantId, [id]);
  return await sendRaw(reply, status, toEndpointJson(endpoint, activity.get(id) as ReportedActivity, secret));
}

function registerRegistration(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints",
    operation({
      id: "createEndpoint",
      sdk: "endpoints.create",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      opaque: { "/metadata": METADATA_DEPTH },
      summary: "Register an endpoint",
      description:
        "The secret is shown only in this response. The service sends a signed ping to the URL at once. The endpoint is `PENDING` and gets no events until it answers a ping with 200 within 5 seconds.",
      errors: ["TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
      requestExamples: {
        "some types": {
          url: "https://example.com/hooks",
          events: ["inference.completed", "pipeline.failed"],
          metadata: { team: "payments" },
        },
        "everything, filtered": {
          url: "https://example.com/large",
          events: ["*"],
          filter: { "data.amount": { $gte: 100 } },
        },
      },
      headers: IdempotencyHeaders,
      body: NewEndpoint,
      response: { 201: RegisteredEndpoint },
    }),
    async (request, reply) => {
      const { identity, body, headers } = request;
      const key = headers["idempotency-key"];
      const registration = {
        ...settingsOf(body),
        idempotency:
          key === undefined
            ? null
            : { principalId: identity.principalId, key, bodyHash: registrationHash(body) },
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
      reply.header("cache-control", "no-store");
      return await sendEndpoint(reply, 201, { endpoints, endpoint, secret });
    },
  );
}

function registerReads(server: SignetServer, endpoints: EndpointService): void {
  server.get(
    "/v1/webhooks/endpoints",
    operation({
      id: "listEndpoints",
      sdk: "endpoints.list",
      tag: "endpoints",
      scopes: ["webhooks:read"],
      summary: "List the tenant's endpoints",
      description: "Newest first, without secrets.",
      querystring: Closed({
        state: Type.Optional(OneOf(ENDPOINT_STATES)),
        health: Type.Optional(OneOf(SHOWN_HEALTHS)),
        ...MetadataQuery,
        ...PageQuery,
      }),
      response: { 200: Page(Endpoint) },
    }),
    async (request, reply) => {
      const page = readPage(request);
      const rows = await endpoints.list(request.identity.tenantId, {
        state: request.query.state,
        health: request.query.health,
        metadata: request.query.metadata,
        before: page.before ?? undefined,
        limit: page.limit + 1,
      });
      const { data, next_cursor: next } = toPage(rows, page);
      const activity = await endpoints.activity(
        request.identity.tenantId,
        data.map(({ id }) => id),
      );
      const items = data.map((endpoint) =>
        toEndpointJson(endpoint, activity.get(endpoint.id) as ReportedActivity),
      );
      return await sendRaw(reply, 200, rawPage(items, next));
    },
  );

  server.get(
    "/v1/webhooks/endpoints/:id",
    operation({
      id: "getEndpoint",
      sdk: "endpoints.get",
      tag: "endpoints",
      scopes: ["webhooks:read"],
      summary: "Read an endpoint",
      description:
        "`verification` shows the progress of the challenge. `disabled_reason` says why nothing is sent.",
      params: IdParams("endpoint"),
      response: { 200: Endpoint },
    }),
    async ({ identity, params }, reply) => {
      const endpoint = await endpoints.find(identity.tenantId, params.id);
      return await sendEndpoint(reply, 200, { endpoints, endpoint });
    },
  );
}

function registerChanges(server: SignetServer, endpoints: EndpointService): void {
  server.patch(
    "/v1/webhooks/endpoints/:id",
    operation({
      id: "updateEndpoint",
      sdk: "endpoints.update",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      opaque: { "/metadata": METADATA_DEPTH },
      summary: "Change an endpoint",
      description:
        "Absent members stay unchanged; `null` removes an optional member. A new URL must answer the challenge again: the endpoint is `PENDING` until then. With another scheme, host or port, the secret of an `authentication` must be sent again, or `authentication` be `null`.",
      errors: ["INVALID_STATE", "TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
      requestExamples: { "other types": { events: ["pipeline.failed"] } },
      params: IdParams("endpoint"),
      body: EndpointPatch,
      response: { 200: Endpoint },
    }),
    async (request, reply) => {
      const { identity, params, body } = request;
      const endpoint = await endpoints.update(
        identity.tenantId,
        params.id,
        changesOf(body),
        callerOf(request),
      );
      return await sendEndpoint(reply, 200, { endpoints, endpoint });
    },
  );

  server.delete(
    "/v1/webhooks/endpoints/:id",
    operation({
      id: "deleteEndpoint",
      sdk: "endpoints.delete",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Delete an endpoint",
      description: "Its secrets are erased at once; waiting deliveries end as `CANCELLED`.",
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await endpoints.remove(request.identity.tenantId, request.params.id, callerOf(request));
      return await reply.code(204).send(null);
    },
  );
}

function registerStates(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/verify",
    operation({
      id: "verifyEndpoint",
      sdk: { name: "endpoints.verify", repeat: "never" },
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Send the verification ping again",
      description: "Only for an endpoint that is `PENDING`; starts a new series of pings.",
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 202: Endpoint },
    }),
    async ({ identity, params }, reply) => {
      const endpoint = await endpoints.verify(identity.tenantId, params.id);
      return await sendEndpoint(reply, 202, { endpoints, endpoint });
    },
  );

  server.post(
    "/v1/webhooks/endpoints/:id/enable",
    operation({
      id: "enableEndpoint",
      sdk: "endpoints.enable",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Enable a disabled endpoint",
      description:
        "The endpoint becomes `PENDING` and must answer the challenge before it gets events again.",
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 202: Endpoint },
    }),
    async (request, reply) => {
      const { identity, params } = request;
      const endpoint = await endpoints.enable(identity.tenantId, params.id, callerOf(request));
      return await sendEndpoint(reply, 202, { endpoints, endpoint });
    },
  );

  server.post(
    "/v1/webhooks/endpoints/:id/disable",
    operation({
      id: "disableEndpoint",
      sdk: "endpoints.disable",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      summary: "Disable an endpoint",
      description: `Nothing is sent to it. Events for it become dead letters, which can be replayed for ${DEAD_LETTER_DAYS} days.`,
      errors: ["INVALID_STATE"],
      params: IdParams("endpoint"),
      response: { 200: Endpoint },
    }),
    async (request, reply) => {
      const { identity, params } = request;
      const endpoint = await endpoints.disable(identity.tenantId, params.id, callerOf(request));
      return await sendEndpoint(reply, 200, { endpoints, endpoint });
    },
  );
}

function registerTest(server: SignetServer, endpoints: EndpointService): void {
  server.post(
    "/v1/webhooks/endpoints/:id/test",
    operation({
      id: "testEndpoint",
      sdk: "endpoints.test",
      tag: "endpoints",
      scopes: ["webhooks:write"],
      optionalBody: true,
      opaque: { "/data": EVENT_DATA_DEPTH },
      summary: "Send a test event",
      description:
        "The event is delivered like any other, but only to this endpoint. Its type is `endpoint.test` by default.",
      errors: ["INVALID_STATE"],
      requestExamples: { "of a type": { type: "inference.completed", data: { run: 7, result: "ok" } } },
      params: IdParams("endpoint"),
      body: TestEvent,
      response: { 202: Delivery },
    }),
    async ({ identity, params, body }, reply) => {
      const event = { type: body.type, data: body.data?.text };
      const delivery = await endpoints.sendTest(identity.tenantId, params.id, event);
      return await reply.code(202).send(toDelivery(delivery));
    },
  );
}
