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

/**
 * @throws NoteError, ComplianceProofError; SignetApiError NOT_FOUND, or INVALID_REQUEST for an entry that is younger
 *   than the newest checkpoint (a minute at most)
 */
export async function complianceVerify(
  transport: Transport,
  index: number,
  { signal, ...options }: VerifyEntryOptions & CallOptions,
): Promise<VerifiedEntry> {
  const read = async <T>(path: string, query: Readonly<Record<string, number>> = {}): Promise<T> =>
    await transport.call<T>({ method: "GET", path: `/v1/compliance/${path}`, query, signal });
  return await verifyEntry(
    {
      entry: async (idx) => await read<ComplianceEntryDetails>(`entries/${idx}`),
      checkpoint: async () => await read<ComplianceCheckpoint>("checkpoint"),
      inclusion: async (idx, size) => await read<InclusionAnswer>("proof/inclusion", { idx, size }),
      consistency: async (from, to) => await read<ConsistencyAnswer>("proof/consistency", { from, to }),
    },
    index,
    { ...options, crypto: NODE_CRYPTO },
  );
}
