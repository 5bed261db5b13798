/** Writing to the compliance log, inside the transaction that does what the entry tells. */
import type { Queryable } from "../database/pool.ts";
import { appendEntryBytes } from "../database/repositories/compliance-log.ts";
import type { Actor } from "./entry-types.ts";
import { type ComplianceEntry, encodeEntry, type EntrySources } from "./entry.ts";

/** Where an entry stands. */
export interface LogPlace {
  /** From 0. */
  readonly index: number;
  /** RFC 6962 leaf hash, hexadecimal. */
  readonly leafHash: string;
}

/**
 * Appends an entry: it is there exactly when the caller's transaction commits. The last step before the commit, because
 * the head of the log stays locked from here on and every other writer waits.
 *
 * @param db the caller's transaction, of role signet_api (entries of its tenant), signet_operator, signet_issuer or
 *   signet_worker; never a pool, whose statements commit one by one
 */
export async function appendEntry(
  db: Queryable,
  entry: ComplianceEntry,
  sources: EntrySources,
): Promise<LogPlace> {
  const { place, leaf } = await appendEntryBytes(db, encodeEntry(entry, sources));
  return { index: place, leafHash: leaf.toString("hex") };
}

/** Who acts by a request, for the entry that tells of it. */
export interface By {
  readonly actor: Actor;
  readonly requestId?: string | undefined;
}
