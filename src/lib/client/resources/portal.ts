/** The tenant's portal: sign-in links. */
import { idempotencyKeyOf, type IdempotentOptions } from "../idempotency.ts";
import type { Transport } from "../transport.ts";

export interface NewPortalLink {
  /** 1 to 900; 300 by default. */
  readonly expires_in_seconds?: number;
  /** Scopes of the session: a subset of the token's; all of them by default. */
  readonly scopes?: readonly string[];
}

export interface PortalLink {
  /** Valid for one sign-in. Anyone with it can use it: give it to the requesting person, and never log it. */
  readonly url: string;
  readonly expires_at: string;
}

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
