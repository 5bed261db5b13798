/** The transmitter of security events: OpenID Shared Signals Framework 1.0, with RFC 8935 and RFC 8936 (docs/ssf.md). */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { Type } from "typebox";
import { callerOf } from "#http/caller.ts";
import { ANY_ORIGIN, makeJsonDocument, onceMade, sendDocument } from "#http/public-document.ts";
import type { SignetServer } from "#http/types.ts";
import { POLL_SETS_MAX, type PollService } from "#webhooks/ssf/poll.ts";
import type { StreamService } from "#webhooks/ssf/stream-service.ts";
import { operation } from "../openapi/operation.ts";
import { registerStreamRoutes } from "./ssf-streams.ts";
import {
  AddedSubject,
  EXAMPLE_STREAM,
  NO_STORE,
  POLL,
  PollAnswer,
  PollParams,
  PollRequest,
  toStreamStatus,
  PUSH,
  RemovedSubject,
  SameStreamQuery,
  SSF_BODY_MAX,
  streamOf,
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

export function registerSsfRoutes(server: SignetServer, services: SsfServices): void {
  registerConfiguration(server, services.publicUrl);
  registerStreamRoutes(server, services);
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
      sdk: { none: "Receivers of security events read it, without a token." },
      tag: "security events",
      home: true,
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

function registerStatus(server: SignetServer, streams: StreamService): void {
  server.get(
    "/v1/ssf/status",
    operation({
      id: "readStreamStatus",
      sdk: { name: "streams.status", object: "stream_id" },
      tag: "security events",
      home: true,
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
      return toStreamStatus(await streams.find(identity.tenantId, query.stream_id));
    },
  );

  server.post(
    "/v1/ssf/status",
    operation({
      id: "updateStreamStatus",
      sdk: { name: "streams.setStatus", object: "stream_id", body: "members", typescript: { body: "whole" } },
      tag: "security events",
      home: true,
      scopes: MANAGE,
      summary: "Set the status of a stream",
      description: `\`enabled\`, \`paused\` or \`disabled\`. A paused stream holds its tokens for ${DEAD_LETTER_DAYS} days, and a disabled one gets none. Enabling sends what was held.`,
      errors: ["NOT_FOUND", "INVALID_STATE", "LIMIT_EXCEEDED"],
      requestExamples: { pause: { stream_id: EXAMPLE_STREAM, status: "paused", reason: "maintenance" } },
      querystring: SameStreamQuery,
      body: StreamStatusChange,
      response: { 200: StreamStatus },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const wanted = { status: body.status, reason: body.reason ?? null };
      const stream = await streams.setStatus(identity.tenantId, streamOf(request), wanted, callerOf(request));
      reply.headers(NO_STORE);
      return toStreamStatus(stream);
    },
  );
}

function registerSubjects(server: SignetServer, streams: StreamService): void {
  server.post(
    "/v1/ssf/subjects/add",
    operation({
      id: "addStreamSubject",
      sdk: { name: "streams.addSubject", object: "stream_id", body: "members", without: ["verified"] },
      tag: "security events",
      home: true,
      scopes: MANAGE,
      summary: "Add a removed subject to a stream again",
      description: "Every subject of the tenant is in a new stream, so adding others changes nothing.",
      errors: ["NOT_FOUND"],
      querystring: SameStreamQuery,
      body: AddedSubject,
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const change = { subject: body.subject, included: true };
      await streams.setSubject(identity.tenantId, streamOf(request), change, callerOf(request));
      return await reply.code(200).headers(NO_STORE).send();
    },
  );

  server.post(
    "/v1/ssf/subjects/remove",
    operation({
      id: "removeStreamSubject",
      sdk: { name: "streams.removeSubject", object: "stream_id", body: "members" },
      tag: "security events",
      home: true,
      scopes: MANAGE,
      summary: "Remove a subject from a stream",
      description:
        "Its events are not sent. Removing a principal removes its credentials. Subjects match if they are identical.",
      errors: ["NOT_FOUND", "LIMIT_EXCEEDED"],
      querystring: SameStreamQuery,
      body: RemovedSubject,
      response: { 204: Type.Null() },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      const { identity, body } = request;
      const change = { subject: body.subject, included: false };
      await streams.setSubject(identity.tenantId, streamOf(request), change, callerOf(request));
      return await reply.code(204).headers(NO_STORE).send(null);
    },
  );

  server.post(
    "/v1/ssf/verify",
    operation({
      id: "verifyStream",
      sdk: { name: "streams.verify", object: "stream_id", body: "members" },
      tag: "security events",
      home: true,
      scopes: MANAGE,
      summary: "Send a verification event over a stream",
      description: "The event contains `state`. Once in `min_verification_interval` seconds.",
      errors: ["NOT_FOUND", "RATE_LIMITED"],
      querystring: SameStreamQuery,
      body: VerificationRequest,
      response: { 204: Type.Null() },
      bodyLimit: SSF_BODY_MAX,
    }),
    async (request, reply) => {
      await streams.verify(request.identity.tenantId, streamOf(request), request.body.state);
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
      sdk: { name: "streams.poll", object: "stream_id", optional: true, repeat: "read" },
      tag: "security events",
      home: true,
      scopes: READ,
      summary: "Poll for security events",
      description: `RFC 8936: acknowledges tokens, and returns the oldest of the others; without any, after up to 20 seconds, unless the body has \`returnImmediately\`. A token comes again until it is acknowledged, for ${DEAD_LETTER_DAYS} days. Beyond 10,000 unacknowledged tokens the stream is disabled.`,
      errors: ["NOT_FOUND", "RATE_LIMITED"],
      requestExamples: { "at once": { returnImmediately: true } },
      params: PollParams,
      body: PollRequest,
      response: { 200: PollAnswer },
      bodyLimit: SSF_BODY_MAX,
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
      return await polls.poll(
        identity.tenantId,
        params.stream_id,
        wanted,
        () => request.raw.socket.destroyed,
      );
    },
  );
}
