/** Public exports: verifies the compliance log and its checkpoints without trust in the service. */
export {
  ComplianceProofError,
  type ConsistencyAnswer,
  type EntryWithBytes,
  type InclusionAnswer,
  type ProofSource,
  type VerifiedEntry,
  verifyEntry,
  type VerifyEntryServices,
  type VerifyEntryOptions,
} from "./compliance-proof.ts";
export {
  type InclusionProof,
  type Sha256,
  type TreeHead,
  verifyConsistency,
  verifyInclusion,
} from "./merkle-proof.ts";
export { leafHash, NODE_CRYPTO, nodeHash } from "./node-crypto.ts";
export {
  type Checkpoint,
  NoteError,
  openCheckpoint,
  openNote,
  parseCheckpoint,
  parseVerifierKey,
  type ProofCrypto,
  type VerifierKey,
  VerifierKeyError,
} from "./signed-note.ts";
