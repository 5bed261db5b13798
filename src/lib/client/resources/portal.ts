/** The tenant's portal: sign-in links. */
import type { NewPortalLink, PortalLink } from "../api-types.ts";
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import type { Transport } from "../transport.ts";

export class Portal {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** Creates a one-time link that signs a browser in; needs the scope `portal:sign_in`. */
  async createLink(link: NewPortalLink = {}, options: IdempotentOptions = {}): Promise<PortalLink> {
    return await this.#transport.call({
      method: "POST",
      path: "/v1/portal/links",
      body: link,
      ...options,
      idempotencyKey: idempotencyKeyOf(options),
    });
  }
}
