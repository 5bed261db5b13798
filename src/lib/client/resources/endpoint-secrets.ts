/** The signing secrets of webhook endpoints. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

/** State of one version of a secret; times are RFC 3339. */
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
  /** A secret created on schedule, as a JWE to the recipient's key. */
  readonly encrypted_secret: string | null;
}

/** Signing settings of an endpoint, and its rotation schedule. */
export interface SecretSettings {
  readonly signing: "hmac-sha256" | "ed25519";
  /** 1 to 365; null: no schedule. */
  readonly rotation_days: number | null;
  /** The public JWK for encrypting new secrets. */
  readonly recipient: object | null;
}

export interface EndpointSecretVersions extends SecretSettings {
  readonly endpoint_id: string;
  /** Newest first. */
  readonly data: readonly EndpointSecretVersion[];
}

export interface RotatedEndpointSecret extends EndpointSecretVersion {
  readonly endpoint_id: string;
  /** Shown only here. */
  readonly secret: string;
}

export interface SecretRotation {
  /** 0 to 604,800, one day by default; 0 replaces every secret at once. */
  readonly overlap_seconds?: number;
  /** The caller's own, `whsec_` and the base64 of 24 to 64 bytes. */
  readonly secret?: string;
}

export class EndpointSecrets {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Lists the versions without their values. */
  async list(endpointId: string, options: CallOptions = {}): Promise<EndpointSecretVersions> {
    return await this.#transport.call({ method: "GET", path: pathOf(endpointId), ...options });
  }

  /** Changes the endpoint's signing settings and rotation schedule; absent members stay. */
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

  /** Starts a rotation: both secrets sign until the overlap has ended. */
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

  /** Makes the next secret the current one before its time. */
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
