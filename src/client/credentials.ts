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
}
