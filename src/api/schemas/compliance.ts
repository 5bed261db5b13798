/** Schemas of the compliance log. */
import { type Static, Type } from "typebox";
import type { ComplianceEntryRow } from "#database/repositories/compliance-entries.ts";
import type { SignedCheckpointRow } from "#database/repositories/compliance-tree.ts";
import { Closed, Formed, Nullable, Resource, Timestamp } from "#http/common.ts";

const ROOT = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
const NOTE = `signet/compliance
8
XcnaeacGWamtVZy3Ad7Zoqudgjqi9Elgz+Nw7/RgQyg=

— signet/compliance Cf8ZcQ…
`;

/** The verifier key of a seed of 32 zero bytes. */
const VERIFIER_KEY = "signet/compliance+09ff1971+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";

/** An index in the log, in a path or in a cursor. */
export const INDEX_PATTERN = "^(0|[1-9]\\d{0,14})$";
const HashText = Type.String({ pattern: "^[0-9a-f]{64}$", examples: [ROOT] });
const Size = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });

export const EntryParams = Closed({
  idx: Formed(
    { pattern: INDEX_PATTERN, wanted: "an index in the log: a whole number from 0" },
    { description: "Index of the entry in the log", examples: ["42"], "x-noun": "entry" },
  ),
});

export const Entry = Resource("ComplianceEntry", {
  index: Type.Integer({
    description: "Index in the log, from 0 without gaps",
    examples: [42],
    "x-noun": "entry",
  }),
  at: Timestamp,
  type: Type.String({ examples: ["credential.revoked"] }),
  actor: Type.String({ examples: ["operator:bootstrap"] }),
  tenant_id: Nullable(Type.String()),
  target: Nullable(Type.String()),
  reason: Nullable(Type.String()),
  request_id: Nullable(Type.String()),
  details: Type.Unsafe<unknown>({ type: "object", additionalProperties: true }),
  leaf_hash: Type.String({ description: "RFC 6962 leaf hash of the entry, hexadecimal", examples: [ROOT] }),
});

export const EntryWithBytes = Resource("ComplianceEntryWithBytes", {
  ...Entry.properties,
  entry: Type.String({
    description: "The bytes that the leaf hash covers: canonical JSON, in base64",
    contentEncoding: "base64",
  }),
});

export const Checkpoint = Resource("ComplianceCheckpoint", {
  seq: Type.Integer({ description: "Number of the checkpoint, from 1 without gaps", examples: [7] }),
  size: Type.Integer({ description: "Number of entries in the tree", examples: [8] }),
  root: Type.String({ description: "Root hash of the tree, hexadecimal", examples: [ROOT] }),
  note: Type.String({ description: "Signed note (c2sp.org/tlog-checkpoint)", examples: [NOTE] }),
  verifier_key: Nullable(
    Type.String({
      description:
        "The key that signed it, `name+id+key`, as the service claims; null if unknown. This suffices to notice a later change of key. To trust the log, get the key from the operators through another channel",
      examples: [VERIFIER_KEY],
    }),
  ),
  signed_at: Timestamp,
});

export const InclusionQuery = Closed({
  idx: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, examples: [3] }),
  size: Type.Optional(Size),
});

export const InclusionProof = Resource("InclusionProof", {
  index: Type.Integer({ examples: [3] }),
  tree_size: Type.Integer({ description: "The newest checkpoint's size by default", examples: [8] }),
  leaf_hash: HashText,
  hashes: Type.Array(HashText, { description: "From the leaf to the root (RFC 6962 section 2.1.1)" }),
});

export const ConsistencyQuery = Closed({ from: Size, to: Type.Optional(Size) });

export const ConsistencyProof = Resource("ConsistencyProof", {
  from: Type.Integer({ examples: [6] }),
  to: Type.Integer({ description: "The newest checkpoint's size by default", examples: [8] }),
  hashes: Type.Array(HashText, { description: "RFC 6962 section 2.1.2" }),
});

interface EntryMembers {
  readonly at: string;
  readonly type: string;
  readonly actor: string;
  readonly tenant: string | null;
  readonly target: string | null;
  readonly reason: string | null;
  readonly request_id: string | null;
  readonly details: unknown;
}

/** Returns the wire form of an entry, read from its bytes. */
export function toEntry({ idx, entry, leaf_hash: leafHash }: ComplianceEntryRow): Static<typeof Entry> {
  const { at, type, actor, tenant, target, reason, request_id, details } = JSON.parse(
    entry.toString("utf8"),
  ) as EntryMembers;
  const members = { at, type, actor, tenant_id: tenant, target, reason, request_id, details };
  return { index: idx, ...members, leaf_hash: leafHash.toString("hex") };
}

/** Returns the wire form of an entry with its bytes, for verification. */
export function toEntryWithBytes(row: ComplianceEntryRow): Static<typeof EntryWithBytes> {
  return { ...toEntry(row), entry: row.entry.toString("base64") };
}

export function toCheckpoint({
  seq,
  size,
  root,
  note,
  verifier_key,
  signed_at: signedAt,
}: SignedCheckpointRow): Static<typeof Checkpoint> {
  return { seq, size, root: root.toString("hex"), note, verifier_key, signed_at: signedAt.toISOString() };
}
