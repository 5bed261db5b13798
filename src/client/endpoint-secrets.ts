/** The signing secrets of webhook endpoints. */
import { idempotencyKeyOf, type IdempotentOptions } from "./idempotency.ts";
import { type CallOptions, segment, type Transport } from "./transport.ts";

/** How one version of a secret stands; times are RFC 3339. */
export interface EndpointSecretVersion {
  readonly version: number;
  /** CURRENT signs first; NEXT and PREVIOUS sign beside it. */
  readonly state: "NEXT" | "CURRENT" | "PREVIOUS" | "RETIRED";
  /** The first 8 hex digits of the SHA-256 of the secret's text. */
  readonly fingerprint: string;
  readonly created_at: string;
  readonly current_at: string | null;
  readonly signs_until: string | null;
  readonly retired_at: string | null;
}

export interface EndpointSecretVersions {
  readonly endpoint_id: string;
  /** Newest first. */
  readonly data: readonly EndpointSecretVersion[];
}

export interface RotatedEndpointSecret extends EndpointSecretVersion {
  readonly endpoint_id: string;
  /** Shown here and never again. */
  readonly secret: string;
}

export interface SecretRotation {
  /** 0 to 604,800, one day unless said otherwise; 0 replaces every secret at once. */
  readonly overlap_seconds?: number;
  /** The caller's own, `whsec_` and the base64 of 24 to 64 bytes. */
  readonly secret?: string;
}

export class EndpointSecrets {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** How the versions stand, never their values. */
  async list(endpointId: string, options: CallOptions = {}): Promise<EndpointSecretVersions> {
    return await this.#transport.call({ method: "GET", path: pathOf(endpointId), ...options });
  }

  /** Begins a rotation: both secrets sign until the overlap has ended. */
  async rotate(
    endpointId: string,
    rotation: SecretRotation = {},
    options: IdempotentOptions = {},
  ): Promise<RotatedEndpointSecret> {
    return await this.#transport.call({
      method: "POST",
      path: `${pathOf(endpointId)}/rotate`,
      body: rotation,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }

  /** Makes the next secret the one that signs first, before its time. */
  async activate(endpointId: string, options: IdempotentOptions = {}): Promise<EndpointSecretVersions> {
    return await this.#transport.call({
      method: "POST",
      path: `${pathOf(endpointId)}/activate`,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }
}

function pathOf(endpointId: string): string {
  return `/v1/webhooks/endpoints/${segment(endpointId)}/secret`;
}
