/** Documents that everybody may read: made once, packed once, and sent by reference however many ask for them. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";

/** Below this many bytes gzip saves nothing worth a second copy. */
const PACKED_FROM = 1_024;
/** Bytes written at once: TLS copies what it is given, so a client that reads nothing holds one piece. */
const PIECE = 32_768;

/** One document in memory. */
export interface PublicDocument {
  readonly type: string;
  readonly plain: Buffer;
  /** Its gzip; absent where that is not smaller. */
  readonly packed: Buffer | undefined;
  readonly etag: string;
}

/** What a route says of its document. */
export interface DocumentHeaders {
  readonly "cache-control"?: string;
  readonly [name: string]: string | undefined;
}

/** For documents that pages of other origins may read: no credential belongs to them. */
export const ANY_ORIGIN = { "access-control-allow-origin": "*" } as const;

/** @param packed the gzip, where it is there already */
export function makeDocument(type: string, body: string | Buffer, packed?: Buffer): PublicDocument {
  const plain = typeof body === "string" ? Buffer.from(body) : body;
  const gzip = packed ?? (plain.length < PACKED_FROM ? undefined : gzipSync(plain));
  const digest = createHash("sha256").update(plain).digest("base64url").slice(0, 22);
  // Weak: one tag for both codings, which RFC 9110 section 8.8.3.3 asks to be told apart otherwise.
  return { type, plain, packed: gzip, etag: `W/"${digest}"` };
}

/** A JSON document. */
export function makeJsonDocument(value: unknown): PublicDocument {
  return makeDocument("application/json; charset=utf-8", JSON.stringify(value));
}

/** Makes a document at its first use and keeps it. */
export function onceMade<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Whether the client takes gzip (RFC 9110 section 12.5.3). */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  const codings = (acceptEncoding ?? "").toLowerCase().split(",");
  const named = (coding: string) => codings.find((part) => part.split(";", 1)[0]?.trim() === coding);
  const chosen = named("gzip") ?? named("*");
  return chosen !== undefined && !/;\s*q=0(?:\.0*)?\s*$/.test(chosen);
}

function* pieces(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += PIECE) {
    yield body.subarray(at, at + PIECE);
  }
}

function isKnown(ifNoneMatch: string | undefined, etag: string): boolean {
  const opaque = etag.replace(/^W\//, "");
  return (ifNoneMatch ?? "").split(",").some((tag) => ["*", opaque].includes(tag.trim().replace(/^W\//, "")));
}

/** Answers with the document: 304 to whoever has it, and HEAD without it. */
export function sendDocument(
  request: FastifyRequest,
  reply: FastifyReply,
  { type, plain, packed, etag }: PublicDocument,
  headers: DocumentHeaders = {},
): FastifyReply {
  reply.headers({ ...headers, etag, vary: headers["vary"] ?? "accept-encoding" });
  if (isKnown(request.headers["if-none-match"], etag)) {
    // A stream without bytes: the length of nothing would pass for the document's.
    return reply.code(304).send(request.method === "HEAD" ? Readable.from([]) : undefined);
  }
  const asPacked = packed !== undefined && takesGzip(request.headers["accept-encoding"]);
  const body = asPacked ? packed : plain;
  if (asPacked) {
    reply.header("content-encoding", "gzip");
  }
  reply.type(type);
  if (request.method === "HEAD" || body.length <= PIECE) {
    return reply.send(body);
  }
  return reply
    .header("content-length", body.length)
    .send(Readable.from(pieces(body), { objectMode: false, highWaterMark: 1 }));
}
