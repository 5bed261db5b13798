/** The client of the service for a tenant's program. */
import { Resources } from "./resources/resources.ts";
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
export class SignetClient extends Resources {
  readonly #source: TokenSource;

  constructor(options: SignetClientOptions) {
    const { baseUrl, addresses, runtime, retry, timeoutMs, sourceFor } = connect(options);
    const source = sourceFor(options.scopes ?? []);
    const exactNumbers = options.exactNumbers ?? false;
    super(new Transport({ runtime, baseUrl, addresses, source, retry, timeoutMs, exactNumbers }));
    this.#source = source;
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
