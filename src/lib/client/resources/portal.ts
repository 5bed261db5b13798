/** The tenant's portal: ways in for people. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import type { Transport } from "../transport.ts";

export interface NewPortalLink {
  /** 1 to 900; 300 when absent. */
  readonly expires_in_seconds?: number;
  /** What the session may do: some of the token's scopes; all of them when absent. */
  readonly scopes?: readonly string[];
}

export interface PortalLink {
  /** Good for one sign-in. Whoever has it can use it: hand it to the person who asked, and log it nowhere. */
  readonly url: string;
  readonly expires_at: string;
}

export class Portal {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** A one-time link that signs a browser in; needs the scope `portal:sign_in`. */
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
