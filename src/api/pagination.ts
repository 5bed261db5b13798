/**
 * Keyset pagination over ids, newest first. A cursor is opaque and valid only for its list: it contains a digest of the
 * route, the filters and the tenant, so that a cursor from another list is rejected instead of misread.
 */
import { createHash } from "node:crypto";
import type { FastifyRequest } from "fastify";
import type { BoundedRows } from "#database/repositories/page.ts";
import { isId } from "#domain/ids.ts";
import { invalidParameters } from "#domain/errors.ts";
import { PAGE_LIMIT } from "#http/common.ts";
import { INDEX_PATTERN } from "./schemas/compliance.ts";

const BINDING_LENGTH = 12;

/** The page that a repository reads: at most `limit + 1` rows with `id < before`. */
export interface PageRequest {
  readonly limit: number;
  /** The id before which the page starts; `null` on the first page. */
  readonly before: string | null;
  /** Digest that binds cursors to this list. */
  readonly binding: string;
}

interface PageQuery {
  readonly limit?: number;
  readonly cursor?: string;
}

function bindingOf(request: FastifyRequest, query: Readonly<Record<string, unknown>>): string {
  const filters = Object.entries(query)
    .filter(([name]) => name !== "limit" && name !== "cursor")
    .sort(([left], [right]) => (left < right ? -1 : 1));
  const identity = request.identity as FastifyRequest["identity"] | null;
  const list = [request.routeOptions.url, request.params, filters, identity?.tenantId ?? null];
  return createHash("sha256").update(JSON.stringify(list)).digest("base64url").slice(0, BINDING_LENGTH);
}

/**
 * Reads `limit` and `cursor` of a request whose query passed its schema.
 *
 * @param isKey checks the key in a cursor; by default an id
 */
export function readPage(
  request: FastifyRequest<{ Querystring: PageQuery }>,
  isKey: (text: string) => boolean = isId,
): PageRequest {
  const { limit = PAGE_LIMIT, cursor } = request.query;
  const binding = bindingOf(request, { ...request.query });
  if (cursor === undefined) {
    return { limit, before: null, binding };
  }
  const decoded = Buffer.from(cursor, "base64url").toString("latin1");
  const before = decoded.slice(BINDING_LENGTH);
  if (!decoded.startsWith(binding) || !isKey(before)) {
    const detail =
      "is not a cursor of this list: send next_cursor of the previous page, with the same filters";
    throw invalidParameters([{ pointer: "/cursor", code: "unknown_cursor", detail }]);
  }
  return { limit, before, binding };
}

const INDEX_REGEX = new RegExp(INDEX_PATTERN);

/** Reads `limit` and `cursor` for a list ordered by the index in the compliance log. */
export function readIndexPage(
  request: FastifyRequest<{ Querystring: PageQuery }>,
): Omit<PageRequest, "before"> & { readonly before: number | null } {
  const page = readPage(request, (key) => INDEX_REGEX.test(key));
  return { ...page, before: page.before === null ? null : Number(page.before) };
}

function idOf(row: unknown): string {
  return (row as { readonly id: string }).id;
}

export function toPage<Row extends { readonly id: string }>(
  rows: readonly Row[],
  page: Pick<PageRequest, "limit" | "binding">,
): { data: Row[]; next_cursor: string | null };
export function toPage<Row>(
  rows: readonly Row[],
  page: Pick<PageRequest, "limit" | "binding">,
  keyOf: (row: Row) => string,
): { data: Row[]; next_cursor: string | null };

/** Returns a page from the rows that were read, which may be one more than the limit. */
export function toPage<Row>(
  rows: readonly Row[],
  page: Pick<PageRequest, "limit" | "binding">,
  keyOf: (row: Row) => string = idOf,
): { data: Row[]; next_cursor: string | null } {
  const data = rows.slice(0, page.limit);
  const last = rows.length > page.limit ? data.at(-1) : undefined;
  return { data, next_cursor: last === undefined ? null : cursorAfter(keyOf(last), page) };
}

function cursorAfter(key: string, { binding }: Pick<PageRequest, "binding">): string {
  return Buffer.from(binding + key, "latin1").toString("base64url");
}

/** Returns the cursor after a page that may have ended before its limit. */
export function nextCursor(
  { next }: Pick<BoundedRows<unknown>, "next">,
  page: Pick<PageRequest, "binding">,
): string | null {
  return next === null ? null : cursorAfter(next, page);
}
