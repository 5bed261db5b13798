/**
 * The codec server of Temporal's UI and CLI (docs.temporal.io/codec-server): decrypts payloads of histories for operators,
 * and tells the compliance log that it has. It decrypts only; nothing is ever encrypted for somebody outside.
 */
import type { PayloadCodec } from "@temporalio/common";
import { type Static, Type } from "typebox";
import { EnvelopeError } from "../../crypto/envelope.ts";
import { SignetError } from "../../errors.ts";
import { rateLimited } from "../../rate-limits/rate-limited.ts";
import { createRateLimiter } from "../../rate-limits/rate-limiter.ts";
import { Closed } from "../schemas/common.ts";
import type { SignetServer } from "../types.ts";
import type { CommitChange } from "./audited.ts";

const PATH = "/admin/v1/codec/decode";
/** A page of the UI shows at most so many. */
const PAYLOADS_MAX = 500;
/** Base64 of one payload's data; our own are some kilobytes. */
const DATA_MAX = 262_144;
const BODY_MAX = 2_097_152;
/** Requests of one operator. */
const RATE = { count: 120, perSeconds: 60 } as const;
/** What a browser may remember of the preflight. */
const PREFLIGHT_SECONDS = 600;

const Base64 = Type.String({ maxLength: DATA_MAX, pattern: "^[A-Za-z0-9+/_-]*={0,2}$" });
const WirePayload = Closed({
  metadata: Type.Optional(Type.Record(Type.String({ maxLength: 64 }), Base64, { maxProperties: 16 })),
  data: Type.Optional(Base64),
});
const Payloads = Closed({ payloads: Type.Array(WirePayload, { maxItems: PAYLOADS_MAX }) });

export interface CodecRoutes {
  readonly codec: PayloadCodec;
  /** Origin of Temporal's UI; without one no page of another origin may ask. */
  readonly uiOrigin: string | undefined;
  readonly commit: CommitChange;
}

type Wire = Static<typeof WirePayload>;

function readPayload({ metadata = {}, data = "" }: Wire) {
  const entries = Object.entries(metadata).map(([name, value]) => [name, Buffer.from(value, "base64")]);
  return {
    metadata: Object.fromEntries(entries) as Record<string, Buffer>,
    data: Buffer.from(data, "base64"),
  };
}

/** @throws SignetError VALIDATION_FAILED for a payload that no key of ours opens */
async function decode(codec: PayloadCodec, payloads: readonly Wire[]): Promise<Wire[]> {
  try {
    const decoded = await codec.decode(payloads.map(readPayload));
    return decoded.map(({ metadata, data }) => ({
      metadata: Object.fromEntries(
        Object.entries(metadata ?? {}).map(([name, value]) => [name, Buffer.from(value).toString("base64")]),
      ),
      data: Buffer.from(data ?? "").toString("base64"),
    }));
  } catch (error) {
    if (!(error instanceof EnvelopeError) && !(error instanceof RangeError)) {
      throw error;
    }
    throw new SignetError("VALIDATION_FAILED", {
      detail: "A payload was encrypted with a key that is not known here, or was changed.",
      extensions: {
        errors: [{ pointer: "/payloads", code: "not_decodable", detail: "cannot be decrypted" }],
      },
      cause: error,
    });
  }
}

/** Registers the route, and the preflight that browsers send before it. */
export function registerCodecRoutes(server: SignetServer, { codec, uiOrigin, commit }: CodecRoutes): void {
  const limiter = createRateLimiter(RATE);
  const cors =
    uiOrigin === undefined ? { vary: "origin" } : { vary: "origin", "access-control-allow-origin": uiOrigin };

  server.options(
    PATH,
    { config: { public: true }, schema: { hide: true } },
    async ({ headers: { origin } }, reply) => {
      const allowed = uiOrigin !== undefined && origin === uiOrigin;
      return await reply
        .code(204)
        .headers(
          allowed
            ? {
                ...cors,
                "access-control-allow-methods": "POST",
                "access-control-allow-headers": "authorization, content-type, x-namespace",
                "access-control-max-age": String(PREFLIGHT_SECONDS),
              }
            : { vary: "origin" },
        )
        .send(null);
    },
  );

  server.post(
    PATH,
    {
      config: { operator: "security", audits: "history.decoded" },
      bodyLimit: BODY_MAX,
      schema: { tags: ["temporal"], body: Payloads, response: { 200: Payloads } },
    },
    async (request, reply) => {
      const waitMs = await limiter.take(request.operator.id);
      if (waitMs > 0) {
        throw rateLimited("codec", waitMs, "Too many histories were decrypted; come back later.");
      }
      if (request.headers.origin === uiOrigin) {
        reply.headers(cors);
      }
      const payloads = await decode(codec, request.body.payloads);
      return await commit(request, reply, async () => ({
        answer: { payloads },
        entry: { tenant: null, target: "temporal", details: { payloads: payloads.length } },
      }));
    },
  );
}
