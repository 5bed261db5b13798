/** Entries of the compliance log about rotations: numbers and dates, never a secret. */
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { Actor, EntryType } from "#compliance/entry-types.ts";
import type { Queryable } from "#database/pool.ts";

/** Events of a secret's version (security decisions C). */
type RotationEvent = Extract<
  EntryType,
  | "credential.rotation_due"
  | "credential.successor_created"
  | "credential.successor_delivered"
  | "credential.rotated"
  | "credential.retired"
  | "credential.rescued"
  | "credential.rotation_overdue"
  | "credential.retired_secret_used"
>;

export interface RotationEntry {
  readonly type: RotationEvent;
  readonly tenantId: string;
  readonly credentialId: string;
  /** The affected version, and details of the event. */
  readonly details: { readonly version: number } & Readonly<Record<string, string | number>>;
}

/** Appends an entry with the commit of the caller's transaction. */
export type AppendRotationEntry = (db: Queryable, entry: RotationEntry) => Promise<void>;

/**
 * Creates the function that appends entries.
 *
 * @param by cause of the events: the client that presents the secret, or the sweep
 */
export function createRotationLog(by: "client" | "sweep", sources: EntryServices): AppendRotationEntry {
  return async (db, { type, tenantId, credentialId, details }) => {
    const actor: Actor = by === "client" ? `credential:${credentialId}` : "system:rotation";
    await appendEntry(db, { type, actor, tenant: tenantId, target: credentialId, details }, sources);
  };
}
