/** The signing secrets of webhook endpoints. */
import type { EndpointSecretVersions, RotatedEndpointSecret, SecretRotation } from "../api-types.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import { type CallOptions, segment, type Transport } from "../transport.ts";

/** Signing settings of an endpoint, and its rotation schedule. */
export type SecretSettings = Pick<EndpointSecretVersions, "signing" | "rotation_days" | "recipient">;

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
