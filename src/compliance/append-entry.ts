/** Writes to the compliance log, within the transaction that the entry describes. */
import type { Queryable } from "#database/pool.ts";
import { appendEntryBytes, appendEntryWithCommit } from "#database/repositories/compliance-entries.ts";
import type { Actor } from "./entry-types.ts";
import { type ComplianceEntry, encodeEntry, type EntryServices } from "./entry.ts";

/** The position of an entry. */
export interface LogPlace {
  /** Index, from 0. */
  readonly index: number;
  /** RFC 6962 leaf hash, hexadecimal. */
  readonly leafHash: string;
}

/**
 * Appends an entry, which exists exactly if the caller's transaction commits. It is sent with the COMMIT: from the lock on
 * the head of the log, for which every other writer waits, nothing depends on this process.
 *
 * @param db the caller's transaction, of role signet_api (entries of its tenant), signet_operator, signet_issuer or
 *   signet_worker; never a pool, whose statements commit one by one
 */
export async function appendEntry(
  db: Queryable,
  entry: ComplianceEntry,
  sources: EntryServices,
): Promise<void> {
  await appendEntryWithCommit(db, encodeEntry(entry, sources));
}

/**
 * Appends an entry at once, for a later step of the transaction that needs its place.
 * Otherwise as {@link appendEntry}. The head of the log then stays locked until the commit, so few steps may follow.
 */
export async function appendEntryNow(
  db: Queryable,
  entry: ComplianceEntry,
  sources: EntryServices,
): Promise<LogPlace> {
  const { place, leaf } = await appendEntryBytes(db, encodeEntry(entry, sources));
  return { index: place, leafHash: leaf.toString("hex") };
}

/** The actor and the request of an entry. */
export interface By {
  readonly actor: Actor;
  readonly requestId?: string | undefined;
}
