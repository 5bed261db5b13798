/** The tenant's own credentials. */
import { type IdempotentOptions, idempotencyKeyOf } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

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
  /** End of a replaced credential, and its replacement. */
  readonly ends_at: string | null;
  readonly replaced_by: string | null;
  /** Whether it may publish only with its signature. */
  readonly signature_required: boolean;
  /** When the secret in use is due for its successor. */
  readonly due_at: string | null;
  /** The rotation was due a week ago, and the successor is not in use. */
  readonly overdue: boolean;
}

/** State of one version of a credential's secret. */
export interface SecretVersion {
  readonly version: number;
  readonly state: "PENDING" | "ACTIVE" | "RETIRING" | "RETIRED" | "REVOKED";
  readonly issued_at: string;
  readonly due_at: string | null;
  readonly acked_at: string | null;
  readonly last_used_at: string | null;
  readonly superseded_at: string | null;
  readonly retire_by: string | null;
  readonly retired_at: string | null;
  /** How often it was delivered as a successor. */
  readonly delivered_count: number;
}

export interface CredentialDetails extends Credential {
  /** Newest first. */
  readonly versions: readonly SecretVersion[];
}

export interface NewCredential {
  /** The caller's own principal by default, or that of `replaces`. */
  readonly principal_id?: string;
  readonly san_uri?: string | null;
  readonly certificate_thumbprints?: readonly string[];
  /**
   * The replaced credential, which ends after `overlap_seconds` or 24 hours. Its tokens expire
   * up to 15 minutes later; if it is compromised, `revoke` it once the new one is in use.
   */
  readonly replaces?: string;
  readonly overlap_seconds?: number;
  /** No secret: the client authenticates with its certificate, or with assertions under these keys. */
  readonly rotation_mode?: "workload";
  readonly jwks?: { readonly keys: readonly object[] };
}

export interface CreatedCredential extends Credential {
  readonly version: number | null;
  /** Shown here, and again only to the same call with the same key within 24 hours; a workload credential has none. */
  readonly client_secret?: string;
}

/** A committed revocation. */
export interface Revocation {
  readonly revocation_id: string;
  readonly sequence: number;
  readonly committed_at: string;
  /** Its entry in the compliance log. */
  readonly compliance: { readonly log_index: number; readonly leaf_hash: string };
  /** Connected processes that admit tokens, those that obey it, and the time of the slowest. */
  readonly edges: { readonly live: number; readonly acked: number; readonly max_ms: number | null };
}

export interface RevokeOptions extends CallOptions {
  /** Goes into the compliance log, so no personal data; at most 500 characters. */
  readonly reason?: string;
}

/** A version of a credential's signing secret, without its value. */
export interface SigningSecret {
  readonly version: number;
  readonly state: "GOOD" | "ENDED" | "REVOKED";
  /** First 8 hex digits of the secret's SHA-256. */
  readonly fingerprint: string;
  readonly created_at: string;
  readonly last_used_at: string | null;
  readonly ends_at: string | null;
  readonly revoked_at: string | null;
}

export interface CreatedSigningSecret extends SigningSecret {
  /** Shown here, and again only to the same call with the same key within 24 hours. */
  readonly secret: string;
}

export interface SigningSecretOptions extends IdempotentOptions {
  /** How long the previous version stays valid; 24 hours by default, 0 ends all others now. */
  readonly overlapSeconds?: number;
}

export interface RevokeSigningSecretOptions extends RevokeOptions {
  /** All by default. */
  readonly version?: number;
}

export class Credentials {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * Creates a credential, or replaces one. If the answer is lost it retries with the same key: it creates one
   * credential, and the answer has its secret.
   */
  async create(credential: NewCredential = {}, options: IdempotentOptions = {}): Promise<CreatedCredential> {
    return await this.#transport.call({
      method: "POST",
      path: PATH,
      body: credential,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  list(options: PageOptions = {}): List<Credential> {
    return new List(this.#transport, PATH, options);
  }

  async get(id: string, options: CallOptions = {}): Promise<CredentialDetails> {
    return await this.#transport.call({ method: "GET", path: `${PATH}/${segment(id)}`, ...options });
  }

  /** Ends a credential and all its tokens permanently, everywhere, within 250 ms. Needs `credentials:revoke`. */
  async revoke(id: string, { reason, ...options }: RevokeOptions = {}): Promise<Revocation> {
    return await this.#transport.call({
      method: "POST",
      path: `${PATH}/${segment(id)}/revoke`,
      body: reason === undefined ? {} : { reason },
      repeatable: true,
      ...options,
    });
  }

  /** Creates the credential's signing secret, or its next version. */
  async createSigningSecret(
    id: string,
    { overlapSeconds, ...options }: SigningSecretOptions = {},
  ): Promise<CreatedSigningSecret> {
    return await this.#transport.call({
      method: "POST",
      path: signingPath(id),
      body: overlapSeconds === undefined ? {} : { overlap_seconds: overlapSeconds },
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Newest first. */
  async signingSecrets(id: string, options: CallOptions = {}): Promise<readonly SigningSecret[]> {
    const { data } = await this.#transport.call<{ readonly data: readonly SigningSecret[] }>({
      method: "GET",
      path: signingPath(id),
      ...options,
    });
    return data;
  }

  /** Ends versions at once and erases them. Needs `credentials:revoke`. */
  async revokeSigningSecrets(
    id: string,
    { version, reason, ...options }: RevokeSigningSecretOptions = {},
  ): Promise<readonly SigningSecret[]> {
    const { data } = await this.#transport.call<{ readonly data: readonly SigningSecret[] }>({
      method: "POST",
      path: `${signingPath(id)}/revoke`,
      body: { ...(version === undefined ? {} : { version }), ...(reason === undefined ? {} : { reason }) },
      repeatable: true,
      ...options,
    });
    return data;
  }

  /** Sets whether the credential must sign what it publishes. */
  async requireSignature(id: string, required: boolean, options: CallOptions = {}): Promise<Credential> {
    return await this.#transport.call({
      method: "PATCH",
      path: `${PATH}/${segment(id)}`,
      body: { signature_required: required },
      ...options,
    });
  }
}

function signingPath(id: string): string {
  return `${PATH}/${segment(id)}/signing-secret`;
}
