import { type Static, Type } from "typebox";
import type { Revocation } from "../../revocation/publish-revocation.ts";
import { Closed, Id, Nullable, Timestamp } from "./common.ts";

/** Why something is revoked, for the compliance log. */
export const Reason = Type.String({
  minLength: 1,
  maxLength: 500,
  pattern: "^[^\\p{Cc}]+$",
  description: "Why; goes into the compliance log, so no personal data",
});

export const RevocationRequest = Closed({ reason: Type.Optional(Reason) });

/** What stands once a revocation is committed (security decisions D). */
export const RevocationReceipt = Type.Object({
  revocation_id: Id("revocation"),
  sequence: Type.Integer({ description: "Gapless over the whole deployment" }),
  committed_at: Timestamp,
  compliance: Type.Object({
    log_index: Type.Integer(),
    leaf_hash: Type.String({ description: "RFC 6962 leaf hash of the entry, hexadecimal" }),
  }),
  edges: Type.Object({
    live: Type.Integer({ description: "Edges that were connected" }),
    acked: Type.Integer({ description: "Edges that said that they have applied it" }),
    max_ms: Nullable(Type.Number({ description: "What the slowest of them took" })),
  }),
});

/** The wire form of a revocation. */
export function presentRevocation(revocation: Revocation): Static<typeof RevocationReceipt> {
  return {
    revocation_id: revocation.id,
    sequence: revocation.sequence,
    committed_at: revocation.at.toISOString(),
    compliance: { log_index: revocation.logIndex, leaf_hash: revocation.leafHash },
    edges: { live: 0, acked: 0, max_ms: null },
  };
}
