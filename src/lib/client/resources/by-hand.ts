/** Methods that are more than a request. The generated classes call these functions. */
import {
  type ConsistencyAnswer,
  type InclusionAnswer,
  type VerifiedEntry,
  verifyEntry,
  type VerifyEntryOptions,
} from "../../transparency-log/compliance-proof.ts";
import { NODE_CRYPTO } from "../../transparency-log/node-crypto.ts";
import type { ComplianceCheckpoint, ComplianceEntryDetails } from "../api-types.ts";
import type { CallOptions, Transport } from "../transport.ts";
import { DeadLetterExport } from "./dead-letter-export.ts";
import { DeliveryStream, type DeliveryStreamOptions } from "./delivery-stream.ts";
import type { DeliveryFilter } from "./types.ts";

export function deliveriesStream(transport: Transport, options: DeliveryStreamOptions = {}): DeliveryStream {
  return new DeliveryStream(transport, options);
}

export function deadLettersExport(
  transport: Transport,
  filter: Omit<DeliveryFilter, "limit" | "cursor" | "state"> = {},
): DeadLetterExport {
  return new DeadLetterExport(transport, filter);
}

/** Returns the entries, checkpoints and proofs of the API. */
export function proofSource(transport: Transport, { signal }: CallOptions = {}) {
  const read = async <T>(path: string, query: Readonly<Record<string, number>> = {}): Promise<T> =>
    await transport.call<T>({ method: "GET", path: `/v1/compliance/${path}`, query, signal });
  return {
    entry: async (idx: number) => await read<ComplianceEntryDetails>(`entries/${idx}`),
    checkpoint: async () => await read<ComplianceCheckpoint>("checkpoint"),
    inclusion: async (idx: number, size: number) =>
      await read<InclusionAnswer>("proof/inclusion", { idx, size }),
    consistency: async (from: number, to: number) =>
      await read<ConsistencyAnswer>("proof/consistency", { from, to }),
  };
}

/**
 * @throws NoteError, ComplianceProofError; SignetApiError NOT_FOUND, or INVALID_REQUEST for an entry that is younger
 *   than the newest checkpoint (a minute at most)
 */
export async function complianceVerify(
  transport: Transport,
  index: number,
  { signal, ...options }: VerifyEntryOptions & CallOptions,
): Promise<VerifiedEntry> {
  return await verifyEntry(proofSource(transport, { signal }), index, { ...options, crypto: NODE_CRYPTO });
}
