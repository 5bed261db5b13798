/** The signing secrets of webhook endpoints. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

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
  /** Ed25519, `whpk_…`: verifies `v1a` signatures. */
  readonly public_key: string | null;
  /** A secret that was made on schedule, as a JWE to the recipient's key. */
  readonly encrypted_secret: string | null;
}

/** How an endpoint signs, and when its secret is replaced. */
export interface SecretSettings {
  readonly signing: "hmac-sha256" | "ed25519";
  /** 1 to 365; null: never by itself. */
  readonly rotation_days: number | null;
  /** A public JWK that new secrets are encrypted to. */
  readonly recipient: object | null;
}

export interface EndpointSecretVersions extends SecretSettings {
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

  /** Changes how the endpoint signs, and when by itself it gets a new secret; members that are absent stay. */
  async update(
    endpointId: string,
    change: Partial<SecretSettings>,
    options: CallOptions = {},
  ): Promise<EndpointSecretVersions> {
    return await this.#transport.call({
      method: "PATCH",
      path: pathOf(endpointId),
      body: change,
      ...options,
    });
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
