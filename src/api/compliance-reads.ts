/** Reads of the compliance log that tenants and operators share: checkpoint, entry, proofs. */
import type { FastifyReply, FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import { ENTRY_TYPES } from "#compliance/entry-types.ts";
import { readConsistencyProof, readInclusionProof } from "#compliance/tree-reader.ts";
import type { Queryable } from "#database/pool.ts";
import {
  type ComplianceEntryRow,
  type EntryFilter,
  type EntryPage,
  type EntryRows,
  findEntry,
} from "#database/repositories/compliance-entries.ts";
import { newestCheckpoint, type SignedCheckpointRow } from "#database/repositories/compliance-tree.ts";
import { found, SignetError } from "#domain/errors.ts";
import { Instant, querySpan } from "#http/instants.ts";
import { nextCursor, readIndexPage } from "./pagination.ts";
import { OneOf } from "#http/common.ts";
import {
  Checkpoint,
  ConsistencyProof,
  ConsistencyQuery,
  type Entry,
  EntryParams,
  EntryWithBytes,
  InclusionProof,
  InclusionQuery,
  toCheckpoint,
  toEntry,
} from "./schemas/compliance.ts";

/** The tenant whose entries may be read; undefined for all entries. */
type Viewer = string | undefined;

/** Filters of both lists. */
export const ENTRY_FILTERS = {
  type: Type.Optional(OneOf(ENTRY_TYPES)),
  from: Type.Optional(Instant),
  to: Type.Optional(Instant),
};

/** Members of the declarations that the routes of both APIs share. */
export const READS = {
  entry: { params: EntryParams, response: { 200: EntryWithBytes } },
  checkpoint: { errors: ["NOT_FOUND"], response: { 200: Checkpoint } },
  inclusion: { errors: ["NOT_FOUND"], querystring: InclusionQuery, response: { 200: InclusionProof } },
  consistency: { errors: ["NOT_FOUND"], querystring: ConsistencyQuery, response: { 200: ConsistencyProof } },
} as const;

type EntriesQuery = Pick<EntryFilter, "type"> & {
  readonly from?: string;
  readonly to?: string;
  readonly limit?: number;
  readonly cursor?: string;
};

/**
 * Returns a page of entries, newest first.
 *
 * @param list reads the rows that the caller may see
 * @throws SignetError INVALID_REQUEST for an invalid instant, time span or cursor
 */
export async function entriesPage(
  request: FastifyRequest<{ Querystring: EntriesQuery }>,
  list: (filter: EntryFilter, page: EntryPage) => Promise<EntryRows>,
): Promise<{ data: Static<typeof Entry>[]; next_cursor: string | null }> {
  const { type } = request.query;
  const span = querySpan(request.query);
  const page = readIndexPage(request);
  const { rows, next } = await list({ type, ...span }, page);
  return { data: rows.map(toEntry), next_cursor: nextCursor({ next: next?.toString() ?? null }, page) };
}

/** @throws SignetError NOT_FOUND, also for an entry of another tenant */
export async function requireEntry(
  db: Queryable,
  index: number,
  tenantId: Viewer,
): Promise<ComplianceEntryRow> {
  return found(await findEntry(db, index, tenantId), "entry");
}

/** @throws SignetError NOT_FOUND before the first checkpoint */
export async function requireCheckpoint(db: Queryable): Promise<SignedCheckpointRow> {
  const checkpoint = await newestCheckpoint(db);
  if (checkpoint === undefined) {
    throw new SignetError("NOT_FOUND", { detail: "No checkpoint has been signed yet." });
  }
  return checkpoint;
}

/** Returns a tree size up to the newest checkpoint. A larger tree is unsigned, proves nothing and has no tiles yet. */
async function signedSize(db: Queryable, asked: number | undefined, name: string): Promise<number> {
  const { size } = await requireCheckpoint(db);
  if (asked !== undefined && asked > size) {
    throw new SignetError("INVALID_REQUEST", {
      detail: `Query parameter ${name} is greater than ${size}, the size of the newest checkpoint.`,
    });
  }
  return asked ?? size;
}

const hex = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString("hex"));

/** @throws SignetError NOT_FOUND, INVALID_REQUEST for a tree that is unsigned or lacks the entry */
export async function inclusionProof(
  db: Queryable,
  { idx: index, size: asked }: Static<typeof InclusionQuery>,
  tenantId: Viewer,
): Promise<Static<typeof InclusionProof>> {
  const { leaf_hash: leaf } = await requireEntry(db, index, tenantId);
  const size = await signedSize(db, asked, "size");
  if (index >= size) {
    throw new SignetError("INVALID_REQUEST", {
      detail: `Entry ${index} is not among the first ${size}: the next checkpoint covers it within a minute.`,
    });
  }
  const hashes = hex(await readInclusionProof(db, index, size));
  return { index, tree_size: size, leaf_hash: leaf.toString("hex"), hashes };
}

/** @throws SignetError NOT_FOUND, INVALID_REQUEST for an unsigned tree */
export async function consistencyProof(
  db: Queryable,
  { from, to: asked }: Static<typeof ConsistencyQuery>,
): Promise<Static<typeof ConsistencyProof>> {
  const to = await signedSize(db, asked, "to");
  if (from > to) {
    throw new SignetError("INVALID_REQUEST", { detail: `Query parameter from is greater than ${to}.` });
  }
  return { from, to, hashes: hex(await readConsistencyProof(db, from, to)) };
}

/** Sends the checkpoint as JSON, or only the signed note if the client accepts text/plain but not JSON. */
export async function sendCheckpoint(
  request: FastifyRequest,
  reply: FastifyReply,
  row: SignedCheckpointRow,
): Promise<FastifyReply> {
  const { accept = "" } = request.headers;
  reply.header("cache-control", "no-cache").header("vary", "accept");
  return accept.includes("text/plain") && !accept.includes("json")
    ? await reply.type("text/plain; charset=utf-8").send(row.note)
    : await reply.send(toCheckpoint(row));
}
