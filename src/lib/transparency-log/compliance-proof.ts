/** Verifies one entry of the compliance log without trusting its source. */
import { decodeBase64, decodeHex } from "./bytes.ts";
import { leafInput, verifyConsistency, verifyInclusion } from "./merkle-proof.ts";
import { type Checkpoint, openCheckpoint, parseVerifierKey, type ProofCrypto } from "./signed-note.ts";

/** A proof has at most two hashes for each level of a tree. */
const HASHES_MAX = 128;

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

/** The same, for a platform. */
export interface VerifyEntryServices extends VerifyEntryOptions {
  readonly crypto: ProofCrypto;
}

export interface VerifiedEntry {
  readonly index: number;
  /** The entry's content. */
  readonly entry: Readonly<Record<string, unknown>>;
  /** The signed note used for verification: keep it, and pass it as `earlier` next time. */
  readonly checkpoint: string;
}

/** The answers of the source have no checked form. */
function hashesOf({ hashes }: { readonly hashes: unknown }): readonly Uint8Array[] {
  const list: readonly unknown[] = Array.isArray(hashes) ? hashes : [undefined];
  return list.map((text) => {
    const bytes = typeof text === "string" && list.length <= HASHES_MAX ? decodeHex(text) : undefined;
    if (bytes === undefined) {
      throw new ComplianceProofError("the proof is not a list of hashes");
    }
    return bytes;
  });
}

function entryBytes({ entry }: { readonly entry: string }): Uint8Array {
  const bytes = decodeBase64(entry);
  if (bytes === undefined) {
    throw new ComplianceProofError("the entry is not base64");
  }
  return bytes;
}

interface Continuation {
  readonly source: ProofSource;
  readonly earlier: Checkpoint;
  readonly newest: Checkpoint;
  readonly crypto: ProofCrypto;
}

async function requireContinued({ source, earlier, newest, crypto }: Continuation): Promise<void> {
  if (earlier.size > newest.size) {
    throw new ComplianceProofError(
      `the log has ${newest.size} entries and had ${earlier.size}: entry ${newest.size} is missing`,
    );
  }
  const hashes = hashesOf(await source.consistency(earlier.size, newest.size));
  if (!(await verifyConsistency(earlier, newest, hashes, crypto.sha256))) {
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
  { verifierKeys, earlier = [], crypto }: VerifyEntryServices,
): Promise<VerifiedEntry> {
  const keys = await Promise.all(verifierKeys.map(async (text) => await parseVerifierKey(text, crypto)));
  const { note } = await source.checkpoint();
  const newest = await openCheckpoint(note, keys, crypto);
  for (const kept of earlier) {
    await requireContinued({ source, earlier: await openCheckpoint(kept, keys, crypto), newest, crypto });
  }
  const bytes = entryBytes(await source.entry(index));
  const hashes = hashesOf(await source.inclusion(index, newest.size));
  const proof = { index, treeSize: newest.size, hashes };
  if (!(await verifyInclusion(proof, await crypto.sha256(leafInput(bytes)), newest.root, crypto.sha256))) {
    throw new ComplianceProofError(`entry ${index} is not in the tree of the signed checkpoint`);
  }
  return {
    index,
    entry: JSON.parse(new TextDecoder().decode(bytes)) as VerifiedEntry["entry"],
    checkpoint: note,
  };
}
