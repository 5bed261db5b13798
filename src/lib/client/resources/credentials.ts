/** The tenant's own credentials. */
import type {
  CreatedCredential,
  CreatedSigningSecret,
  Credential,
  CredentialDetails,
  LeakRevocation,
  NewCredential,
  Revocation,
  SigningSecret,
} from "../api-types.ts";
import { type IdempotentOptions, idempotencyKeyOf } from "../idempotency.ts";
import { List, type PageOptions } from "../paging.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

const PATH = "/v1/credentials";

export interface RevokeOptions extends CallOptions {
  /** Goes into the compliance log, so no personal data; at most 500 characters. */
  readonly reason?: string;
}

export interface RevokeLeakedOptions extends IdempotentOptions {
  /** Goes into the compliance log, so no personal data; at most 500 characters. */
  readonly reason?: string;
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

  /**
   * Finds and revokes what leaked, if it is the tenant's: a client id, a credential's id, a client secret, a signing
   * secret, a whole token, or a certificate's SHA-256. Needs `credentials:revoke`.
   */
  async revokeLeaked(
    target: string,
    { reason, ...options }: RevokeLeakedOptions = {},
  ): Promise<LeakRevocation> {
    return await this.#transport.call({
      method: "POST",
      path: "/v1/revocations",
      body: { target, ...(reason === undefined ? {} : { reason }) },
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
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
