/** The tenant's own credentials. */
import { List, type PageOptions } from "./paging.ts";
import { type CallOptions, segment, type Transport } from "./transport.ts";

const PATH = "/v1/credentials";

/** A credential as its tenant sees it: never a secret. */
export interface Credential {
  readonly id: string;
  readonly principal_id: string;
  readonly client_id: string;
  readonly state: "ACTIVE" | "REVOKED";
  readonly rotation_mode: "in_band" | "workload" | "manual";
  readonly san_uri: string | null;
  readonly certificate_thumbprints: readonly string[];
  readonly created_at: string;
  readonly revoked_at: string | null;
}

/** What stands once a revocation is committed. */
export interface Revocation {
  readonly revocation_id: string;
  readonly sequence: number;
  readonly committed_at: string;
  /** Its entry in the compliance log. */
  readonly compliance: { readonly log_index: number; readonly leaf_hash: string };
  /** Edge nodes that were connected, those that have applied it, and what the slowest took. */
  readonly edges: { readonly live: number; readonly acked: number; readonly max_ms: number | null };
}

export interface RevokeOptions extends CallOptions {
  /** For the compliance log, so no personal data; at most 500 characters. */
  readonly reason?: string;
}

export class Credentials {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  list(options: PageOptions = {}): List<Credential> {
    return new List(this.#transport, PATH, { ...options });
  }

  async get(id: string, options: CallOptions = {}): Promise<Credential> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Ends a credential and all its tokens, everywhere, within 250 ms and for good. Needs `credentials:revoke`. */
  async revoke(id: string, { reason, ...options }: RevokeOptions = {}): Promise<Revocation> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/revoke`,
      body: reason === undefined ? {} : { reason },
      repeatable: true,
      ...options,
    });
  }
}
