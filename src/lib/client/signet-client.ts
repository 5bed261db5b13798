/** The client of the service for a tenant's program. */
import { Compliance } from "./resources/compliance.ts";
import { Credentials } from "./resources/credentials.ts";
import { DeadLetters } from "./resources/dead-letters.ts";
import { Deliveries } from "./resources/deliveries.ts";
import { Endpoints } from "./resources/endpoints.ts";
import { EventTypes } from "./resources/event-types.ts";
import { Events } from "./resources/events.ts";
import { Replays } from "./resources/replays.ts";
import { Portal } from "./resources/portal.ts";
import { Streams } from "./resources/streams.ts";
import type { AccessToken, TokenSource } from "./token-source.ts";
import { connect, type ConnectionOptions } from "./token-sources.ts";
import { Transport } from "./transport.ts";

export interface SignetClientOptions extends ConnectionOptions {
  /** Scopes of the tokens; all of the principal's by default. */
  readonly scopes?: readonly string[];
  /**
   * Numbers in answers that a double would change or respell, such as 2^60 and 1.0, become {@link RawJson} instead
   * of a number. Only published content has such numbers.
   */
  readonly exactNumbers?: boolean;
}

/**
 * A client of one tenant. Create one and keep it: it holds the token and the connections.
 *
 * @example
 * const signet = new SignetClient({
 *   baseUrl: "https://api.example.com",
 *   store: new FileCredentialStore("/var/lib/app/credential.json"),
 * });
 * await signet.events.publish({ type: "inference.completed", data: { run: 7 } });
 * for await (const letter of signet.deadLetters.list()) {
 *   await signet.deadLetters.replay(letter.id);
 * }
 */
export class SignetClient {
  readonly endpoints: Endpoints;
  readonly eventTypes: EventTypes;
  readonly events: Events;
  readonly deliveries: Deliveries;
  readonly deadLetters: DeadLetters;
  readonly replays: Replays;
  readonly credentials: Credentials;
  readonly compliance: Compliance;
  readonly streams: Streams;
  readonly portal: Portal;
  readonly #source: TokenSource;

  constructor(options: SignetClientOptions) {
    const { baseUrl, addresses, runtime, retry, timeoutMs, sourceFor } = connect(options);
    this.#source = sourceFor(options.scopes ?? []);
    const transport = new Transport({
      runtime,
      baseUrl,
      addresses,
      source: this.#source,
      retry,
      timeoutMs,
      exactNumbers: options.exactNumbers ?? false,
    });
    this.endpoints = new Endpoints(transport);
    this.eventTypes = new EventTypes(transport);
    this.events = new Events(transport);
    this.deliveries = new Deliveries(transport);
    this.deadLetters = new DeadLetters(transport);
    this.replays = new Replays(transport);
    this.credentials = new Credentials(transport);
    this.compliance = new Compliance(transport);
    this.streams = new Streams(transport);
    this.portal = new Portal(transport);
  }

  /** Returns a token for calls outside this library, for instance to the data plane. */
  async accessToken(): Promise<AccessToken> {
    return await this.#source.token();
  }

  /** Returns a token to replace one that a resource rejected as expired, revoked or bound to another certificate. */
  async accessTokenInsteadOf(refused: string): Promise<AccessToken> {
    return await this.#source.tokenInsteadOf(refused);
  }
}
