/** Public documents: built once, compressed once, and shared by all responses. */
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import type { FastifyReply, FastifyRequest } from "fastify";
import { elementsOf } from "./list-header.ts";

/** Minimum size for compression, in bytes: below it gzip saves too little to justify a second copy. */
const PACKED_FROM = 1_024;
/** Size of a written chunk, in bytes. TLS copies its input, so a client that reads nothing occupies one chunk. */
const PIECE = 32_768;

/** One document in memory. */
export interface PublicDocument {
  readonly type: string;
  readonly plain: Buffer;
  /** The compressed document; absent if compression saves too little. */
  readonly packed: Buffer | undefined;
  readonly etag: string;
}

/** The headers that a route adds to its document. */
export interface DocumentHeaders {
  readonly "cache-control"?: string;
  readonly [name: string]: string | undefined;
}

/** CORS header for documents that any origin may read, since they need no credential. */
export const ANY_ORIGIN = { "access-control-allow-origin": "*" } as const;

/** @param packed compressed body, if already available; null for a body that is compressed in itself */
export function makeDocument(type: string, body: string | Buffer, packed?: Buffer | null): PublicDocument {
  const plain = typeof body === "string" ? Buffer.from(body) : body;
  const small = packed === null || plain.length < PACKED_FROM;
  const gzip = packed ?? (small ? undefined : gzipSync(plain));
  const digest = createHash("sha256").update(plain).digest("base64url").slice(0, 22);
  // A weak tag may cover both codings; strong tags would have to differ (RFC 9110 section 8.8.3.3).
  return { type, plain, packed: gzip, etag: `W/"${digest}"` };
}

/** Creates a JSON document. */
export function makeJsonDocument(value: unknown): PublicDocument {
  return makeDocument("application/json; charset=utf-8", JSON.stringify(value));
}

/** Returns a function that creates a value at the first call and then returns the same one. */
export function onceMade<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => (made ??= { value: make() }).value;
}

/** Checks whether the client accepts gzip (RFC 9110 section 12.5.3). */
export function takesGzip(acceptEncoding: string | undefined): boolean {
  const codings = (acceptEncoding ?? "").toLowerCase().split(",");
  const named = (coding: string) => codings.find((part) => elementsOf(part, ";")[0] === coding);
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
  return elementsOf(ifNoneMatch ?? "").some((tag) => ["*", opaque].includes(tag.replace(/^W\//, "")));
}

/** Sends the document, or 304 if the client has it. HEAD gets no body. */
export function sendDocument(
  request: FastifyRequest,
  reply: FastifyReply,
  { type, plain, packed, etag }: PublicDocument,
  headers: DocumentHeaders = {},
): FastifyReply {
  reply.headers({ ...headers, etag, vary: headers["vary"] ?? "accept-encoding" });
  if (isKnown(request.headers["if-none-match"], etag)) {
    // Send an empty stream, to avoid a Content-Length of 0 for the document.
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
