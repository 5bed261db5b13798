/** One entry of the compliance log and its bytes (security decisions E). */
import type { EntryBytes } from "../database/repositories/compliance-log.ts";
import type { Clock } from "../domain/clock.ts";
import type { RandomBytes } from "../domain/ids.ts";
import { type CanonicalValue, canonicalJson } from "./canonical-json.ts";
import type { Actor, EntryType } from "./entry-types.ts";

/** The form of the entries; a reader of old entries goes by it. */
const VERSION = 1;
/** A leaf's hash is shown to everybody: without salt its entry could be guessed. */
const SALT_BYTES = 16;

/** What happened. No personal data and no secrets: an entry cannot be taken back. */
export interface ComplianceEntry {
  readonly type: EntryType;
  readonly actor: Actor;
  /** The tenant it is about, which may read it; null when it is the deployment's. */
  readonly tenant: string | null;
  /** Id of what it was done to. */
  readonly target: string | null;
  /** Why, in the words of who did it. */
  readonly reason?: string | undefined;
  readonly requestId?: string | undefined;
  readonly details?: { readonly [name: string]: CanonicalValue };
}

export interface EntrySources {
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** The canonical JSON of an entry, in two parts: its place comes between them when the log is locked. */
export function encodeEntry(entry: ComplianceEntry, { clock, randomBytes }: EntrySources): EntryBytes {
  // Sorted, `idx` stands between these two groups: what comes first ends in it, what follows starts after it.
  const before = canonicalJson({
    actor: entry.actor,
    at: new Date(clock.now()).toISOString(),
    details: entry.details ?? {},
  });
  const after = canonicalJson({
    reason: entry.reason ?? null,
    request_id: entry.requestId ?? null,
    salt: Buffer.from(randomBytes(SALT_BYTES)).toString("base64url"),
    target: entry.target,
    tenant: entry.tenant,
    type: entry.type,
    v: VERSION,
  });
  return {
    beforeIndex: Buffer.from(`${before.slice(0, -1)},"idx":`),
    afterIndex: Buffer.from(`,${after.slice(1)}`),
  };
}
