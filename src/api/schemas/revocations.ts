import { type Static, Type } from "typebox";
import type { Receipts } from "../../revocation/receipts.ts";
import type { Revocation } from "../../revocation/publish-revocation.ts";
import { Closed, Id, Nullable, TextLine, Timestamp } from "../../http/common.ts";

/** The reason for a revocation, for the compliance log. */
export const Reason = TextLine(500, {
  description: "The reason, for the compliance log; no personal data",
});

export const RevocationRequest = Closed({
  reason: Type.Optional(Reason),
  scope: Type.Optional(
    Type.Literal("tenant", {
      description: "Also holds the tenant: its deliveries wait and its endpoints' secrets do not rotate",
    }),
  ),
});

/** The receipt of a committed revocation (security decisions D). */
export const RevocationReceipt = Type.Object({
  revocation_id: Id("revocation"),
  sequence: Type.Integer({ description: "Sequence number, without gaps in the whole deployment" }),
  committed_at: Timestamp,
  compliance: Type.Object({
    log_index: Type.Integer(),
    leaf_hash: Type.String({ description: "RFC 6962 leaf hash of the entry, hexadecimal" }),
  }),
  edges: Type.Object({
    live: Type.Integer({ description: "Connected processes that admit tokens" }),
    acked: Type.Integer({
      description: "Processes that confirmed the revocation; the others admit no request until they do",
    }),
    max_ms: Nullable(
      Type.Integer({ description: "Upper bound of the slowest confirmation, in milliseconds" }),
    ),
  }),
});

/** Returns the wire form of a revocation, after all processes have confirmed it or the wait has timed out. */
export async function presentRevocation(
  revocation: Revocation,
  receipts: Receipts,
): Promise<Static<typeof RevocationReceipt>> {
  const { live, acked, maxMs } = await receipts.of(revocation);
  return {
    revocation_id: revocation.id,
    sequence: revocation.sequence,
    committed_at: revocation.at.toISOString(),
    compliance: { log_index: revocation.logIndex, leaf_hash: revocation.leafHash },
    edges: { live, acked, max_ms: maxMs },
  };
}
