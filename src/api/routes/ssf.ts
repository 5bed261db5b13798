/** The transmitter of security events: OpenID Shared Signals Framework 1.0, with RFC 8935 and RFC 8936 (docs/ssf.md). */
import type { Static } from "typebox";
import { Type } from "typebox";
import { validationFailed, SignetError } from "../../domain/errors.ts";
import { callerOf } from "../../http/caller.ts";
import { ANY_ORIGIN, makeJsonDocument, onceMade, sendDocument } from "../../http/public-document.ts";
import type { SignetServer } from "../../http/types.ts";
import type { Stream as StreamRow } from "../../database/repositories/webhooks/ssf-streams.ts";
import { POLL_SETS_MAX, type PollService } from "../../webhooks/ssf/poll.ts";
import type { PushTarget, StreamService, StreamSettings } from "../../webhooks/ssf/stream-service.ts";
import { operation } from "../openapi/operation.ts";
import {
  AddedSubject,
  NewStream,
  OptionalStreamQuery,
  POLL,
  PollAnswer,
  PollParams,
  PollRequest,
  presentStatus,
  presentStream,
  PUSH,
  RemovedSubject,
  Stream,
  StreamChange,
  StreamQuery,
  StreamStatus,
  StreamStatusChange,
  VerificationRequest,
} from "../schemas/ssf.ts";

export interface SsfServices {
  readonly streams: StreamService;
  readonly polls: PollService;
  /** Public URL: base of the addresses, and issuer of the tokens. */
  readonly publicUrl: string;
}

const READ = ["ssf:read"];
const MANAGE = ["ssf:manage"];
/** Maximum body size, in bytes. */
const BODY_MAX = 65_536;
const NO_STORE = { "cache-control": "no-store" } as const;
const EXAMPLE_STREAM = "ssf_01jd3c5xq8m2v7k9r4t6w0zy";

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
    eventsRequested: events ?? null,
    description: description ?? null,
  };
}

function changesOf({ delivery, events_requested: events, description }: Given): Partial<StreamSettings> {
  return {
    ...(delivery === undefined ? {} : { push: pushOf(delivery) }),
    ...(events === undefined ? {} : { eventsRequested: events }),
    ...(description === undefined ? {} : { description }),
  };
}

/** Rejects members that the transmitter supplies and that differ (SSF 1.0 section 8.1.1.3). */
function requireSame(given: Static<typeof StreamChange>, current: StreamRow, publicUrl: string): void {
  const shown = presentStream(current, publicUrl);
  const names = ["iss", "aud", "events_supported", "events_delivered", "min_verification_interval"] as const;
  const different = names.filter(
    (name) => given[name] !== undefined && JSON.stringify(given[name]) !== JSON.stringify(shown[name]),
  );
  if (different.length > 0) {
    throw new SignetError("INVALID_REQUEST", {
      detail: `The service sets ${different.join(", ")}. The request has another value.`,
    });
  }
}

export function registerSsfRoutes(server: SignetServer, services: SsfServices): void {
  registerConfiguration(server, services.publicUrl);
  registerStreams(server, services);
  registerChanges(server, services);
  registerStatus(server, services.streams);
  registerSubjects(server, services.streams);
  registerPolling(server, services.polls);
}

function registerConfiguration(server: SignetServer, issuer: string): void {
  const document = onceMade(() =>
    makeJsonDocument({
      spec_version: "1_0",
      issuer,
      jwks_uri: `${issuer}/.well-known/jwks.json`,
      delivery_methods_supported: [PUSH, POLL],
      configuration_endpoint: `${issuer}/v1/ssf/streams`,
      status_endpoint: `${issuer}/v1/ssf/status`,
      add_subject_endpoint: `${issuer}/v1/ssf/subjects/add`,
      remove_subject_endpoint: `${issuer}/v1/ssf/subjects/remove`,
      verification_endpoint: `${issuer}/v1/ssf/verify`,
      authorization_schemes: [{ spec_urn: "urn:ietf:rfc:6749" }],
      default_subjects: "ALL",
    }),
  );
  server.get(
    "/.well-known/ssf-configuration",
    operation({
      id: "ssfConfiguration",
      tag: "security events",
      public: true,
      summary: "Read the transmitter's configuration",
      description:
        "OpenID Shared Signals Framework 1.0, section 7: the URLs and capabilities of the transmitter. May be cached for an hour.",
      documentedResponse: {
        "x-name": "SsfConfiguration",
        type: "object",
        required: ["issuer", "jwks_uri", "configuration_endpoint"],
        additionalProperties: true,
      },
      responseExample: {
        issuer: "https://signet.example",
        jwks_uri: "https://signet.example/.well-known/jwks.json",
        configuration_endpoint: "https://signet.example/v1/ssf/streams",
      },
    }),
    (request, reply) =>
      void sendDocument(request, reply, document(), {
        ...ANY_ORIGIN,
        "cache-control": "public, max-age=3600",
      }),
  );
}

function registerStreams(server: SignetServer, { streams, publicUrl }: SsfServices): void {
  server.post(
    "/v1/ssf/streams",
    operation({
      id: "createStream",
      tag: "security events",
      scopes: MANAGE,
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
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const stream = await streams.create(identity.tenantId, settingsOf(body), callerOf(request));
      reply.code(201).headers(NO_STORE);
      return presentStream(stream, publicUrl);
    },
  );

  server.get(
    "/v1/ssf/streams",
    operation({
      id: "readStreams",
      tag: "security events",
      scopes: READ,
      summary: "Read a stream, or list all",
      description:
        "With `stream_id` the answer is that stream, without it a list of all streams of the tenant.",
      errors: ["NOT_FOUND"],
      querystring: OptionalStreamQuery,
      documentedResponse: {
        description: "A stream, or a list of streams",
        type: ["object", "array"],
      },
      responseExample: [],
    }),
    async ({ identity, query }, reply) => {
      const { stream_id: id } = query;
      const found =
        id === undefined
          ? (await streams.list(identity.tenantId)).map((stream) => presentStream(stream, publicUrl))
          : presentStream(await streams.find(identity.tenantId, id), publicUrl);
      return await reply
        .headers({ ...NO_STORE, "content-type": "application/json; charset=utf-8" })
        .send(JSON.stringify(found));
    },
  );
}

function registerChanges(server: SignetServer, { streams, publicUrl }: SsfServices): void {
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
      tag: "security events",
      scopes: MANAGE,
      summary: "Change a stream",
      description:
        "Absent members stay unchanged. The delivery method cannot change. A new URL is verified before tokens are sent to it.",
      errors: ["NOT_FOUND", "INVALID_STATE", "TARGET_URL_FORBIDDEN"],
      requestExamples: {
        "fewer events": {
          stream_id: EXAMPLE_STREAM,
          events_requested: ["https://schemas.openid.net/secevent/caep/event-type/session-revoked"],
        },
      },
      body: StreamChange,
      response: { 200: Stream },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const changes = change(body, changesOf(body));
      const stream = await streams.update(identity.tenantId, body.stream_id, changes, callerOf(request));
      reply.headers(NO_STORE);
      return presentStream(stream, publicUrl);
    },
  );

  server.put(
    "/v1/ssf/streams",
    operation({
      id: "replaceStream",
      tag: "security events",
      scopes: MANAGE,
      summary: "Replace a stream's configuration",
      description:
        "Absent members get their defaults: no description, every supported event, and polling, which a push stream rejects. An absent `authorization_header` stays.",
      errors: ["NOT_FOUND", "INVALID_STATE", "TARGET_URL_FORBIDDEN"],
      requestExamples: { poll: { stream_id: EXAMPLE_STREAM, delivery: { method: POLL } } },
      body: StreamChange,
      response: { 200: Stream },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const changes = change(body, settingsOf(body));
      const stream = await streams.update(identity.tenantId, body.stream_id, changes, callerOf(request));
      reply.headers(NO_STORE);
      return presentStream(stream, publicUrl);
    },
  );

  server.delete(
    "/v1/ssf/streams",
    operation({
      id: "deleteStream",
      tag: "security events",
      scopes: MANAGE,
      summary: "Delete a stream",
      description: "Nothing more is sent. Waiting deliveries end as `CANCELLED`.",
      errors: ["NOT_FOUND"],
      querystring: StreamQuery,
      response: { 204: Type.Null() },
    }),
    async (request, reply) => {
      await streams.remove(request.identity.tenantId, request.query.stream_id, callerOf(request));
      return await reply.code(204).send(null);
    },
  );
}

function registerStatus(server: SignetServer, streams: StreamService): void {
  server.get(
    "/v1/ssf/status",
    operation({
      id: "readStreamStatus",
      tag: "security events",
      scopes: READ,
      summary: "Read a stream's status",
      description:
        "A push stream is `paused` while its endpoint is disabled, for instance after days of failures.",
      errors: ["NOT_FOUND"],
      querystring: StreamQuery,
      response: { 200: StreamStatus },
    }),
    async ({ identity, query }, reply) => {
      reply.headers(NO_STORE);
      return presentStatus(await streams.find(identity.tenantId, query.stream_id));
    },
  );

  server.post(
    "/v1/ssf/status",
    operation({
      id: "updateStreamStatus",
      tag: "security events",
      scopes: MANAGE,
      summary: "Enable, pause or disable a stream",
      description:
        "A paused stream holds its tokens for 7 days, and a disabled one gets none. Enabling sends what was held.",
      errors: ["NOT_FOUND", "INVALID_STATE", "LIMIT_EXCEEDED"],
      requestExamples: { pause: { stream_id: EXAMPLE_STREAM, status: "paused", reason: "maintenance" } },
      body: StreamStatusChange,
      response: { 200: StreamStatus },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const wanted = { status: body.status, reason: body.reason ?? null };
      const stream = await streams.setStatus(identity.tenantId, body.stream_id, wanted, callerOf(request));
      reply.headers(NO_STORE);
      return presentStatus(stream);
    },
  );
}

function registerSubjects(server: SignetServer, streams: StreamService): void {
  server.post(
    "/v1/ssf/subjects/add",
    operation({
      id: "addStreamSubject",
      tag: "security events",
      scopes: MANAGE,
      summary: "Add a removed subject to a stream again",
      description: "Every subject of the tenant is in a new stream, so adding others changes nothing.",
      errors: ["NOT_FOUND"],
      body: AddedSubject,
      response: { 200: Type.Null() },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const change = { subject: body.subject, included: true };
      await streams.setSubject(identity.tenantId, body.stream_id, change, callerOf(request));
      return await reply.code(200).headers(NO_STORE).send(null);
    },
  );

  server.post(
    "/v1/ssf/subjects/remove",
    operation({
      id: "removeStreamSubject",
      tag: "security events",
      scopes: MANAGE,
      summary: "Remove a subject from a stream",
      description:
        "Its events are not sent. Removing a principal removes its credentials. Subjects match if they are identical.",
      errors: ["NOT_FOUND", "LIMIT_EXCEEDED"],
      body: RemovedSubject,
      response: { 204: Type.Null() },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const change = { subject: body.subject, included: false };
      await streams.setSubject(identity.tenantId, body.stream_id, change, callerOf(request));
      return await reply.code(204).headers(NO_STORE).send(null);
    },
  );

  server.post(
    "/v1/ssf/verify",
    operation({
      id: "verifyStream",
      tag: "security events",
      scopes: MANAGE,
      summary: "Send a verification event over a stream",
      description: "The event contains `state`. Once in `min_verification_interval` seconds.",
      errors: ["NOT_FOUND", "RATE_LIMITED"],
      body: VerificationRequest,
      response: { 204: Type.Null() },
      bodyLimit: BODY_MAX,
    }),
    async ({ identity, body }, reply) => {
      await streams.verify(identity.tenantId, body.stream_id, body.state);
      return await reply.code(204).headers(NO_STORE).send(null);
    },
  );
}

function registerPolling(server: SignetServer, polls: PollService): void {
  server.addHook("preClose", async () => {
    polls.close();
    return await Promise.resolve();
  });
  server.post(
    "/v1/ssf/poll/:stream_id",
    operation({
      id: "pollStream",
      tag: "security events",
      scopes: READ,
      summary: "Poll for security events",
      description:
        "RFC 8936: acknowledges tokens, and returns the oldest of the others. A token comes again until it is acknowledged, for 7 days. Beyond 10,000 unacknowledged tokens the stream is disabled.",
      errors: ["NOT_FOUND", "RATE_LIMITED"],
      requestExamples: { "at once": { returnImmediately: true } },
      params: PollParams,
      body: PollRequest,
      response: { 200: PollAnswer },
      bodyLimit: BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, params, body } = request;
      const wanted = {
        maxEvents: Math.min(body.maxEvents ?? POLL_SETS_MAX, POLL_SETS_MAX),
        returnImmediately: body.returnImmediately ?? false,
        ack: body.ack ?? [],
        setErrs: body.setErrs ?? {},
      };
      reply.headers(NO_STORE);
      return await polls.poll(identity.tenantId, params.stream_id, wanted, () => request.raw.destroyed);
    },
  );
}
