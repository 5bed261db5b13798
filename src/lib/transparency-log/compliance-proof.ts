/** Verifying one entry of the compliance log without trusting who shows it. */
import { leafHash, verifyConsistency, verifyInclusion } from "./merkle-proof.ts";
import { type Checkpoint, openCheckpoint, parseVerifierKey } from "./signed-note.ts";

/** An entry that is not what was signed, or a log that is not what it was. */
export class ComplianceProofError extends Error {
  override readonly name = "ComplianceProofError";
}

export interface EntryWithBytes {
  readonly index: number;
  /** Base64. */
  readonly entry: string;
}

export interface ConsistencyAnswer {
  readonly hashes: readonly string[];
}

export interface InclusionAnswer {
  readonly hashes: readonly string[];
}

/** Where entries, checkpoints and proofs come from; nothing of it is believed. */
export interface ProofSource {
  entry(index: number): Promise<EntryWithBytes>;
  checkpoint(): Promise<{ readonly note: string }>;
  inclusion(index: number, size: number): Promise<InclusionAnswer>;
  consistency(from: number, to: number): Promise<ConsistencyAnswer>;
}

export interface VerifyEntryOptions {
  /** `name+id+key`, one or more: from whoever runs the service, and not from the service itself. */
  readonly verifierKeys: readonly string[];
  /** Checkpoints kept from earlier: the log must have been continued and not written anew. */
  readonly earlier?: readonly string[];
}

export interface VerifiedEntry {
  readonly index: number;
  /** What the entry says. */
  readonly entry: Readonly<Record<string, unknown>>;
  /** The signed note that it was verified with: keep it, and give it as `earlier` next time. */
  readonly checkpoint: string;
}

const bytesOf = (hashes: readonly string[]): Buffer[] => hashes.map((hash) => Buffer.from(hash, "hex"));

async function requireContinued(source: ProofSource, earlier: Checkpoint, newest: Checkpoint): Promise<void> {
  if (earlier.size > newest.size) {
    throw new ComplianceProofError(
      `the log has ${newest.size} entries and had ${earlier.size}: entry ${newest.size} is missing`,
    );
  }
  const { hashes } = await source.consistency(earlier.size, newest.size);
  if (!verifyConsistency(earlier, newest, bytesOf(hashes))) {
    throw new ComplianceProofError(
      `the log does not continue the ${earlier.size} entries of an earlier checkpoint: one of them was changed`,
    );
  }
}

/**
 * Fetches an entry with its proof and the newest checkpoint, and verifies them.
 *
 * @throws NoteError, ComplianceProofError, whatever the source throws
 */
export async function verifyEntry(
  source: ProofSource,
  index: number,
  { verifierKeys, earlier = [] }: VerifyEntryOptions,
): Promise<VerifiedEntry> {
  const keys = verifierKeys.map(parseVerifierKey);
  const { note } = await source.checkpoint();
  const newest = openCheckpoint(note, keys);
  for (const kept of earlier) {
    await requireContinued(source, openCheckpoint(kept, keys), newest);
  }
  const bytes = Buffer.from((await source.entry(index)).entry, "base64");
  const { hashes } = await source.inclusion(index, newest.size);
  const proof = { index, treeSize: newest.size, hashes: bytesOf(hashes) };
  if (!verifyInclusion(proof, leafHash(bytes), newest.root)) {
    throw new ComplianceProofError(`entry ${index} is not in the tree that the checkpoint was signed over`);
  }
  return { index, entry: JSON.parse(bytes.toString("utf8")) as VerifiedEntry["entry"], checkpoint: note };
}
