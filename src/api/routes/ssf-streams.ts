/** The configuration of streams of security events (Shared Signals Framework 1.0 section 8.1.1). */
import { type Static, Type } from "typebox";
import type { Stream as StreamRow } from "#database/repositories/webhooks/ssf-streams.ts";
import { SignetError, validationFailed } from "#domain/errors.ts";
import { callerOf } from "#http/caller.ts";
import type { SignetServer } from "#http/types.ts";
import type { PushTarget, StreamService, StreamSettings } from "#webhooks/ssf/stream-service.ts";
import { operation } from "../openapi/operation.ts";
import {
  EXAMPLE_STREAM,
  NewStream,
  NO_STORE,
  OptionalStreamQuery,
  POLL,
  toStream,
  PUSH,
  SameStreamQuery,
  SSF_BODY_MAX,
  Stream,
  StreamChange,
  streamOf,
  StreamOrStreams,
  StreamQuery,
} from "../schemas/ssf.ts";

interface StreamRouteServices {
  readonly streams: StreamService;
  /** Public URL: base of the addresses. */
  readonly publicUrl: string;
}

type Given = Static<typeof NewStream>;

/** Returns where to push; null for polling, which is the default (SSF 1.0 section 8.1.1.1). */
function pushOf(delivery: Given["delivery"]): PushTarget | null {
  if (delivery === undefined || delivery.method === POLL) {
    return null;
  }
  const { endpoint_url: url, authorization_header: authorization } = delivery;
  if (url === undefined) {
    throw validationFailed([
      { pointer: "/delivery/endpoint_url", code: "required", detail: "is required for push delivery" },
    ]);
  }
  return { url, authorization };
}

function settingsOf({ delivery, events_requested: events, description }: Given): StreamSettings {
  return {
    push: pushOf(delivery),
    events_requested: events ?? null,
    description: description ?? null,
  };
}

function changesOf({ delivery, events_requested: events, description }: Given): Partial<StreamSettings> {
  return {
    ...(delivery === undefined ? {} : { push: pushOf(delivery) }),
    ...(events === undefined ? {} : { events_requested: events }),
    ...(description === undefined ? {} : { description }),
  };
}

/** Rejects members that the transmitter supplies and that differ (SSF 1.0 section 8.1.1.3). */
function requireSame(given: Static<typeof StreamChange>, current: StreamRow, publicUrl: string): void {
  const shown = toStream(current, publicUrl);
  const names = [
    "iss",
    "aud",
    "events_supported",
    "events_delivered",
    "min_verification_interval",
    "endpoint_id",
  ] as const;
  const different: string[] = names.filter(
    (name) => given[name] !== undefined && JSON.stringify(given[name]) !== JSON.stringify(shown[name]),
  );
  const { method, endpoint_url: url } = given.delivery ?? {};
  if (
    method === POLL &&
    url !== undefined &&
    shown.delivery.method === POLL &&
    url !== shown.delivery.endpoint_url
  ) {
    different.push("delivery.endpoint_url");
  }
  if (different.length > 0) {
    throw new SignetError("INVALID_REQUEST", {
      detail: `The service sets ${different.join(", ")}. The request has another value.`,
    });
  }
}

export function registerStreamRoutes(server: SignetServer, services: StreamRouteServices): void {
  registerStreams(server, services);
  registerChanges(server, services);
  registerRemoval(server, services);
}

function registerStreams(server: SignetServer, { streams, publicUrl }: StreamRouteServices): void {
  server.post(
    "/v1/ssf/streams",
    operation({
      id: "createStream",
      sdk: { name: "streams.create", optional: true },
      tag: "security events",
      home: true,
      scopes: ["ssf:manage"],
      summary: "Create a stream of security events",
      description:
        "Tells a receiver of revocations and changes of credentials. A push stream has an endpoint of its own: the service sends it a verification event at once, and its tokens wait until it answers 202. Without `delivery`, the receiver polls.",
      errors: ["TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
      requestExamples: {
        push: {
          delivery: {
            method: PUSH,
            endpoint_url: "https://gateway.example/events",
            authorization_header: "Bearer secret",
          },
        },
        poll: { delivery: { method: POLL } },
      },
      body: NewStream,
      response: { 201: Stream },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const stream = await streams.create(identity.tenantId, settingsOf(body), callerOf(request));
      reply.code(201).headers(NO_STORE);
      return toStream(stream, publicUrl);
    },
  );

  server.get(
    "/v1/ssf/streams",
    operation({
      id: "readStreams",
      sdk: [
        { name: "streams.get", object: "stream_id", returns: "Stream", text: "Read a stream" },
        {
          name: "streams.list",
          without: ["stream_id"],
          returns: "Stream[]",
          text: "List all streams of the tenant, oldest first. There are at most 10",
        },
      ],
      tag: "security events",
      home: true,
      scopes: ["ssf:read"],
      summary: "Read a stream, or list all",
      description:
        "With `stream_id` the answer is that stream, without it a list of all streams of the tenant.",
      errors: ["NOT_FOUND"],
      querystring: OptionalStreamQuery,
      response: { 200: StreamOrStreams },
    }),
    async ({ identity, query }, reply) => {
      const { stream_id: id } = query;
      reply.headers(NO_STORE);
      return id === undefined
        ? (await streams.list(identity.tenantId)).map((stream) => toStream(stream, publicUrl))
        : toStream(await streams.find(identity.tenantId, id), publicUrl);
    },
  );
}

function registerChanges(server: SignetServer, { streams, publicUrl }: StreamRouteServices): void {
  const change =
    (given: Static<typeof StreamChange>, changes: Partial<StreamSettings>) =>
    (current: StreamRow): Partial<StreamSettings> => {
      requireSame(given, current, publicUrl);
      return changes;
    };

  server.patch(
    "/v1/ssf/streams",
    operation({
      id: "updateStream",
      sdk: { name: "streams.update", object: "stream_id", types: { python: "NewStream" } },
      tag: "security events",
      home: true,
      scopes: ["ssf:manage"],
      summary: "Change a stream",
      description:
        "Absent members stay unchanged. The delivery method cannot change. A new URL is verified before tokens are sent to it. With another scheme, host or port, `authorization_header` must be sent again, or be `null`.",
      errors: ["NOT_FOUND", "INVALID_STATE", "TARGET_URL_FORBIDDEN"],
      requestExamples: {
        "fewer events": {
          stream_id: EXAMPLE_STREAM,
          events_requested: ["https://schemas.openid.net/secevent/caep/event-type/session-revoked"],
        },
      },
      querystring: SameStreamQuery,
      body: StreamChange,
      response: { 200: Stream },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const changes = change(body, changesOf(body));
      const stream = await streams.update(identity.tenantId, streamOf(request), changes, callerOf(request));
      reply.headers(NO_STORE);
      return toStream(stream, publicUrl);
    },
  );

  server.put(
    "/v1/ssf/streams",
    operation({
      id: "replaceStream",
      sdk: { none: "Clients change a stream instead, which keeps absent members." },
      tag: "security events",
      home: true,
      scopes: ["ssf:manage"],
      summary: "Replace a stream's configuration",
      description:
        "Absent members get their defaults: no description, every supported event, and polling, which a push stream rejects. An absent `authorization_header` stays.",
      errors: ["NOT_FOUND", "INVALID_STATE", "TARGET_URL_FORBIDDEN"],
      requestExamples: { poll: { stream_id: EXAMPLE_STREAM, delivery: { method: POLL } } },
      querystring: SameStreamQuery,
      body: StreamChange,
      response: { 200: Stream },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const changes = change(body, settingsOf(body));
      const stream = await streams.update(identity.tenantId, streamOf(request), changes, callerOf(request));
      reply.headers(NO_STORE);
      return toStream(stream, publicUrl);
    },
  );
}

function registerRemoval(server: SignetServer, { streams }: StreamRouteServices): void {
  server.delete(
    "/v1/ssf/streams",
    operation({
      id: "deleteStream",
      sdk: { name: "streams.delete", object: "stream_id" },
      tag: "security events",
      home: true,
      scopes: ["ssf:manage"],
      summary: "Delete a stream",
      description: "Nothing more is sent. Waiting deliveries end as `CANCELLED`.",
      errors: ["NOT_FOUND"],
      querystring: StreamQuery,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await streams.remove(request.identity.tenantId, request.query.stream_id, callerOf(request));
      return await reply.code(204).headers(NO_STORE).send(null);
    },
  );
}
