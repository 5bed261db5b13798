/** The compliance log: the tenant's own entries, and the proof that they are unchanged. */
import type {
  ComplianceCheckpoint,
  ComplianceEntry,
  ComplianceEntryDetails,
  ComplianceQuery,
} from "../api-types.ts";
import {
  type ConsistencyAnswer,
  type InclusionAnswer,
  type VerifiedEntry,
  verifyEntry,
  type VerifyEntryOptions,
} from "../../transparency-log/compliance-proof.ts";
import { NODE_CRYPTO } from "../../transparency-log/node-crypto.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/compliance";

export interface ComplianceFilter extends ComplianceQuery, PageOptions {}

export class Compliance {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Newest first. */
  list(filter: ComplianceFilter = {}): List<ComplianceEntry> {
    return new List(this.#transport, `${PATH}/entries`, { ...filter });
  }

  async get(index: number, options: CallOptions = {}): Promise<ComplianceEntryDetails> {
    return await this.#transport.call({
      method: "GET",
      path: `${PATH}/entries/${segment(String(index))}`,
      ...options,
    });
  }

  /** Returns the newest checkpoint. */
  async checkpoint(options: CallOptions = {}): Promise<ComplianceCheckpoint> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/checkpoint`, ...options });
  }

  /**
   * Fetches an entry and verifies that it is in the signed log and, with earlier checkpoints, that
   * this is still the same log. No answer of the service is trusted without proof.
   *
   * @throws NoteError, ComplianceProofError; SignetApiError NOT_FOUND, or INVALID_REQUEST for an entry that is younger
   *   than the newest checkpoint (a minute at most)
   */
  async verify(
    index: number,
    { signal, ...options }: VerifyEntryOptions & CallOptions,
  ): Promise<VerifiedEntry> {
    const common = signal === undefined ? {} : { signal };
    const proof = async <T>(path: string, query: Readonly<Record<string, number>>): Promise<T> =>
      await this.#transport.call({ method: "GET", path: `${PATH}/proof/${path}`, query, ...common });
    return await verifyEntry(
      {
        entry: async (idx) => await this.get(idx, common),
        checkpoint: async () => await this.checkpoint(common),
        inclusion: async (idx, size) => await proof<InclusionAnswer>("inclusion", { idx, size }),
        consistency: async (from, to) => await proof<ConsistencyAnswer>("consistency", { from, to }),
      },
      index,
      { ...options, crypto: NODE_CRYPTO },
    );
  }
}
