/** Verifies one entry of the compliance log without trusting its source. */
import { leafHash, verifyConsistency, verifyInclusion } from "./merkle-proof.ts";
import { type Checkpoint, openCheckpoint, parseVerifierKey } from "./signed-note.ts";

/** The entry is not in the signed log, or the log was rewritten. */
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

/** The untrusted source of entries, checkpoints and proofs. */
export interface ProofSource {
  entry(index: number): Promise<EntryWithBytes>;
  checkpoint(): Promise<{ readonly note: string }>;
  inclusion(index: number, size: number): Promise<InclusionAnswer>;
  consistency(from: number, to: number): Promise<ConsistencyAnswer>;
}

export interface VerifyEntryOptions {
  /** One or more `name+id+key`: from the operators of the service, not from the service itself. */
  readonly verifierKeys: readonly string[];
  /** Earlier checkpoints: the log must extend them. */
  readonly earlier?: readonly string[];
}

export interface VerifiedEntry {
  readonly index: number;
  /** The entry's content. */
  readonly entry: Readonly<Record<string, unknown>>;
  /** The signed note used for verification: keep it, and pass it as `earlier` next time. */
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
 * @throws NoteError, ComplianceProofError, the source's errors
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
    throw new ComplianceProofError(`entry ${index} is not in the tree of the signed checkpoint`);
  }
  return { index, entry: JSON.parse(bytes.toString("utf8")) as VerifiedEntry["entry"], checkpoint: note };
}
