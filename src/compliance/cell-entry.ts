/** Entries of a cell's own log in the log of the home cell (decision 35). A cell may be in other hands. */
import type { EntryBytes } from "#database/repositories/compliance-entries.ts";
import type { CanonicalValue } from "./canonical-json.ts";
import { ENTRY_TYPES } from "./entry-types.ts";
import { aroundIndex, ENTRY_VERSION, type Members } from "./entry.ts";

/** Ours are flat, or lists of flat members. Deeper ones could exceed the stack of a reader. */
const DEPTH_MAX = 8;
const ACTOR = /^(?:credential|operator|system):[!-~]+$/;
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const TYPES: ReadonlySet<string> = new Set(ENTRY_TYPES);

/**
 * Returns an entry of a cell's own log as the cell sends it: its details also name the cell, and its index there.
 *
 * @param entry canonical JSON
 */
export function cellEntry(entry: Uint8Array, cell: string): EntryBytes {
  const { actor, at, details, idx, ...after } = JSON.parse(Buffer.from(entry).toString()) as {
    readonly actor: string;
    readonly at: string;
    readonly details: Members;
    readonly idx: number;
  } & Members;
  return aroundIndex({ actor, at, details: { ...details, cell, cell_index: idx } }, after);
}

/** The members of an entry that a cell has sent, with the types that they must have. */
export interface SentEntry {
  readonly actor: string;
  readonly at: string;
  readonly details: Members;
  readonly reason: string | null;
  readonly request_id: string | null;
  readonly salt: string;
  readonly target: string | null;
  readonly tenant: string | null;
  readonly type: string;
}

/** What is wrong with an entry of a cell. */
class CellEntryError extends Error {
  override readonly name = "CellEntryError";
}

function isText(value: CanonicalValue | undefined): value is string {
  return typeof value === "string";
}

function isMembers(value: CanonicalValue | undefined): value is Members {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isDeep(value: CanonicalValue, levels: number): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    (levels === 0 || Object.values(value).some((member: CanonicalValue) => isDeep(member, levels - 1)))
  );
}

/** Checks of each member. An entry has these and no others. */
const CHECKS: Readonly<Record<string, (value: CanonicalValue | undefined) => boolean>> = {
  actor: (value) => isText(value) && ACTOR.test(value),
  at: (value) => isText(value) && TIME.test(value) && new Date(value).toJSON() === value,
  details: (value) => isMembers(value) && !isDeep(value, DEPTH_MAX),
  idx: (value) => value === 0,
  reason: (value) => value === null || isText(value),
  request_id: (value) => value === null || isText(value),
  salt: isText,
  target: (value) => value === null || isText(value),
  tenant: (value) => value === null || isText(value),
  type: (value) => isText(value) && TYPES.has(value),
  v: (value) => value === ENTRY_VERSION,
};

/**
 * Reads an entry that a cell has sent.
 *
 * @throws CellEntryError if it lacks a member, has another, or one has a value that no entry has
 */
export function readSentEntry({ beforeIndex, afterIndex }: EntryBytes): SentEntry {
  const bytes = Buffer.concat([beforeIndex, Buffer.from("0"), afterIndex]);
  const members = JSON.parse(bytes.toString()) as CanonicalValue;
  if (!isMembers(members)) {
    throw new CellEntryError("it is not an object");
  }
  const unknown = Object.keys(members).find((name) => !Object.hasOwn(CHECKS, name));
  if (unknown !== undefined) {
    throw new CellEntryError(`no entry has the member ${JSON.stringify(unknown)}`);
  }
  const wrong = Object.entries(CHECKS).find(([name, isRight]) => !isRight(members[name]));
  if (wrong !== undefined) {
    throw new CellEntryError(`its member ${wrong[0]} is missing, or no entry has such a value`);
  }
  return members as unknown as SentEntry;
}

/**
 * Builds the home cell's entry. Without the members of `details` that name the cell, and with that index, an honest
 * entry has the bytes of the cell's own log. A tenant of another region does not get the entry: it is one of the
 * deployment, with the tenant in `details`.
 *
 * @param place index in the cell's log
 * @param owns whether the cell serves the tenant
 * @throws CellEntryError if it has a number without a canonical form
 */
export function homeEntry(
  { actor, at, details, tenant, reason, request_id, salt, target, type }: SentEntry,
  { cell, place, owns }: { readonly cell: string; readonly place: number; readonly owns: boolean },
): EntryBytes {
  const foreign = owns || tenant === null ? {} : { cell_tenant: tenant };
  const before = { actor, at, details: { ...details, ...foreign, cell, cell_index: place } };
  const after = { reason, request_id, salt, target, tenant: owns ? tenant : null, type, v: ENTRY_VERSION };
  try {
    return aroundIndex(before, after);
  } catch (error) {
    throw error instanceof TypeError ? new CellEntryError(error.message, { cause: error }) : error;
  }
}
