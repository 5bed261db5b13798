/**
 * The codec server of Temporal's UI and CLI (docs.temporal.io/codec-server). It decrypts payloads of histories for
 * operators and records that in the compliance log. If payloads are encrypted, operators' inputs are too: the CLI sends
 * all its inputs through the codec, even the empty input of a query.
 */
import type { Payload, PayloadCodec } from "@temporalio/common";
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { EnvelopeError } from "../../crypto/envelope.ts";
import { SignetError } from "../../domain/errors.ts";
import { rateLimited } from "../../http/rate-limits/rate-limited.ts";
import { FixedWindows } from "../../domain/fixed-windows.ts";
import type { ReadAudit } from "../../tokens/operators/read-audit.ts";
import { Body, Closed, Formed, IdempotencyHeaders } from "../../http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "../../http/types.ts";
import type { CommitChange } from "./audited.ts";
import type { Timers } from "../../domain/clock.ts";

const DECODE = "/admin/v1/codec/decode";
const ENCODE = "/admin/v1/codec/encode";
/** Maximum payloads per request, as a page of the UI shows. */
const PAYLOADS_MAX = 500;
/** Maximum length of a payload's data, in characters of base64; Signet's own payloads have some kilobytes. */
const DATA_MAX = 262_144;
const BODY_MAX = 2_097_152;
/** Rate limit per operator. The UI sends one request per payload, about 60 for a long history. */
const RATE = { count: 600, perMs: 60_000 } as const;
/** Syntax of Temporal's namespaces; other header values are not recorded. */
const NAMESPACE = /^[\w.-]{1,64}$/;
/** Time for which a browser may cache the preflight response, in seconds. */
const PREFLIGHT_SECONDS = 600;

const Base64 = Formed({ pattern: "^[A-Za-z0-9+/_-]*={0,2}$", wanted: "base64" }, { maxLength: DATA_MAX });
const WirePayload = Body("Payload", {
  metadata: Type.Optional(Type.Record(Type.String({ maxLength: 64 }), Base64, { maxProperties: 16 })),
  data: Type.Optional(Base64),
});
/** The CLI omits an empty list. */
const Payloads = Body("Payloads", {
  payloads: Type.Optional(Type.Array(WirePayload, { maxItems: PAYLOADS_MAX })),
});

export interface CodecRoutes {
  readonly codec: PayloadCodec;
  /** Whether the workers have the codec; otherwise they could not read encrypted payloads. */
  readonly encrypts: boolean;
  /** Origin of Temporal's UI; if undefined, no cross-origin request is allowed. */
  readonly uiOrigin: string | undefined;
  readonly readAudit: ReadAudit;
  readonly commit: CommitChange;
  readonly timers: Timers;
}

type Wire = Static<typeof WirePayload>;

function readPayload({ metadata = {}, data = "" }: Wire) {
  const entries = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, "base64")]);
  return {
    metadata: Object.fromEntries(entries) as Record<string, Buffer>,
    data: Buffer.from(data, "base64"),
  };
}

function wirePayload({ metadata, data }: Payload): Wire {
  const entries = Object.entries(metadata ?? {});
  return {
    metadata: Object.fromEntries(
      entries.map(([name, value]) => [name, Buffer.from(value).toString("base64")]),
    ),
    data: Buffer.from(data ?? "").toString("base64"),
  };
}

/** @throws SignetError VALIDATION_FAILED for a payload that no known key decrypts */
async function decode(codec: PayloadCodec, payloads: readonly Wire[]): Promise<Wire[]> {
  try {
    return (await codec.decode(payloads.map(readPayload))).map(wirePayload);
  } catch (error) {
    if (!(error instanceof EnvelopeError) && !(error instanceof RangeError)) {
      throw error;
    }
    throw new SignetError("VALIDATION_FAILED", {
      detail: "A payload was encrypted with an unknown key, or was altered.",
      extensions: {
        errors: [{ pointer: "/payloads", code: "not_decodable", detail: "cannot be decrypted" }],
      },
      cause: error,
    });
  }
}

/** Returns the history's namespace from the header that Temporal's UI and CLI send. */
function namespaceOf({ headers: { "x-namespace": named } }: FastifyRequest): string | null {
  return typeof named === "string" && NAMESPACE.test(named) ? named : null;
}

/** Returns the CORS headers that let the UI's pages read the response. */
function corsOf(uiOrigin: string | undefined): Record<string, string> {
  return uiOrigin === undefined
    ? { vary: "origin" }
    : { vary: "origin", "access-control-allow-origin": uiOrigin };
}

const Query = Closed({
  preserveStorageRefs: Type.Optional(
    Type.String({
      description: "Sent by Temporal's UI from 2.54 on; has no effect: payloads are stored nowhere else",
    }),
  ),
});

/** Registers the CORS preflight route. */
function registerPreflight(server: SignetServer, path: string, uiOrigin: string | undefined): void {
  server.options(
    path,
    { config: { public: true }, schema: { hide: true, querystring: Query } },
    async ({ headers: { origin } }, reply) => {
      const allowed = uiOrigin !== undefined && origin === uiOrigin;
      return await reply
        .code(204)
        .headers(
          allowed
            ? {
                ...corsOf(uiOrigin),
                "access-control-allow-methods": "POST",
                "access-control-allow-headers": "authorization, content-type, x-namespace",
                "access-control-max-age": String(PREFLIGHT_SECONDS),
              }
            : { vary: "origin" },
        )
        .send(null);
    },
  );
}

const OPERATION = {
  tag: "temporal",
  operator: "security",
  headers: IdempotencyHeaders,
  querystring: Query,
  body: Payloads,
  response: { 200: Payloads },
  bodyLimit: BODY_MAX,
} as const;

const EXAMPLE = { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] };

/** Registers the routes of the codec server. */
export function registerCodecRoutes(
  server: SignetServer,
  { codec, encrypts, uiOrigin, readAudit, commit, timers }: CodecRoutes,
): void {
  const windows = new FixedWindows(RATE);

  /** Applies the operator's rate limit, and adds the CORS headers for the UI. */
  function admit(request: FastifyRequest, reply: Pick<FastifyReply, "headers">): void {
    if (request.headers.origin === uiOrigin) {
      reply.headers(corsOf(uiOrigin));
    }
    const waitMs = windows.take(request.operator.id, timers.monotonic());
    if (waitMs > 0) {
      throw rateLimited("codec", waitMs, "Too many histories were decrypted; retry later.");
    }
  }

  registerPreflight(server, DECODE, uiOrigin);
  registerPreflight(server, ENCODE, uiOrigin);

  server.post(
    DECODE,
    operation({
      // An Idempotency-Key has no effect: payloads are decrypted again, because no plaintext is stored.
      ...OPERATION,
      id: "decodePayloads",
      audits: "history.decoded",
      summary: "Decrypt payloads of Temporal histories",
      description:
        "The remote codec of the Temporal UI and CLI. Payloads that this service did not encrypt are returned unchanged. The compliance log gets two entries per operator, namespace and minute: one before the first response, and one with the count of the others when the minute ends.",
      requestExamples: { "of a history": EXAMPLE },
    }),
    async (request, reply) => {
      admit(request, reply);
      const payloads = await decode(codec, request.body.payloads ?? []);
      if (payloads.length > 0) {
        await readAudit.noteHistory({
          operatorId: request.operator.id,
          namespace: namespaceOf(request),
          payloads: payloads.length,
          requestId: request.id,
        });
      }
      return { payloads };
    },
  );

  server.post(
    ENCODE,
    operation({
      ...OPERATION,
      id: "encodePayloads",
      audits: "history.encoded",
      summary: "Encrypt payloads for Temporal",
      description:
        "For the Temporal CLI, when an operator starts or signals a workflow. Uses the service's keys. Each request is recorded in the compliance log.",
      requestExamples: { "of a signal": EXAMPLE },
      responseExample: EXAMPLE,
    }),
    async (request, reply) => {
      admit(request, reply);
      const { payloads = [] } = request.body;
      const encoded = encrypts ? await codec.encode(payloads.map(readPayload)) : undefined;
      return await commit(request, reply, async () => ({
        answer: { payloads: encoded?.map(wirePayload) ?? payloads },
        // A query has no input, so there is nothing to record.
        ...(payloads.length === 0
          ? {}
          : { entry: { tenant: null, target: "temporal", details: { payloads: payloads.length } } }),
      }));
    },
  );
}
