import { type Static, Type } from "typebox";
import type { Receipts } from "../../revocation/receipts.ts";
import type { Revocation } from "../../revocation/publish-revocation.ts";
import { Closed, Id, Nullable, TextLine, Timestamp } from "../../http/common.ts";

/** Why something is revoked, for the compliance log. */
export const Reason = TextLine(500, {
  description: "Why; goes into the compliance log, so no personal data",
});

export const RevocationRequest = Closed({
  reason: Type.Optional(Reason),
  scope: Type.Optional(
    Type.Literal("tenant", {
      description: "Also holds the tenant: its deliveries wait and its endpoints' secrets stay as they are",
    }),
  ),
});

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
    live: Type.Integer({ description: "Processes that admit tokens and are connected" }),
    acked: Type.Integer({
      description: "Those that said that they obey it; the others admit nobody until they do",
    }),
    max_ms: Nullable(Type.Integer({ description: "What the slowest of them took, at most" })),
  }),
});

/** The wire form of a revocation, once everybody has heard of it or has had the time. */
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
