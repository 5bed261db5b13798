/** Entries of the compliance log, and their bytes (security decisions E). */
import type { EntryBytes } from "#database/repositories/compliance-entries.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { type CanonicalValue, canonicalJson } from "./canonical-json.ts";
import type { Actor, EntryType } from "./entry-types.ts";

/** Version of the entries' format, for readers of old entries. */
export const ENTRY_VERSION = 1;
/** Leaf hashes are public. Without a salt, an entry could be guessed from its hash. */
const SALT_BYTES = 16;

/** An event. It must not contain personal data or secrets, because entries are permanent. */
export interface ComplianceEntry {
  readonly type: EntryType;
  readonly actor: Actor;
  /** The tenant concerned, which may read the entry; null for entries of the deployment. */
  readonly tenant: string | null;
  /** Id of the object of the event. */
  readonly target: string | null;
  /** Reason given by the actor. */
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  readonly details?: { readonly [name: string]: CanonicalValue };
}

export interface EntryServices {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

export type Members = Readonly<Record<string, CanonicalValue>>;

/**
 * Writes an entry as canonical JSON without its index.
 *
 * @param before members that sort before `idx`; `after` has the others
 * @throws TypeError for a number that has no canonical form
 */
export function aroundIndex(before: Members, after: Members): EntryBytes {
  return {
    beforeIndex: Buffer.from(`${canonicalJson(before).slice(0, -1)},"idx":`),
    afterIndex: Buffer.from(`,${canonicalJson(after).slice(1)}`),
  };
}

/** Returns the canonical JSON of an entry in two parts. The index between them is known only once the log is locked. */
export function encodeEntry(entry: ComplianceEntry, { clock, randomBytes }: EntryServices): EntryBytes {
  const before = {
    actor: entry.actor,
    at: new Date(clock.now()).toISOString(),
    details: entry.details ?? {},
  };
  return aroundIndex(before, {
    reason: entry.reason ?? null,
    request_id: entry.requestId ?? null,
    salt: Buffer.from(randomBytes(SALT_BYTES)).toString("base64url"),
    target: entry.target,
    tenant: entry.tenant,
    type: entry.type,
    v: ENTRY_VERSION,
  });
}
