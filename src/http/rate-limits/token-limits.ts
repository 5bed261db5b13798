/**
 * Rate limits of the OAuth endpoints (security decisions I). Limits per address reject only failed requests: a valid
 * credential is never rejected for others at its address. The limit per client counts authenticated requests.
 */
import type { Config } from "#config/config.ts";
import { SignetError } from "#domain/errors.ts";
import { TOKEN_LIFETIME_MINUTES } from "#domain/identity.ts";
import { FixedWindows } from "#domain/fixed-windows.ts";
import { networksOf, takeFrom } from "./address-key.ts";
import { FailureLimiter } from "./failure-limiter.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { rateLimited } from "./rate-limited.ts";

const MINUTE_MS = 60_000;
/** Maximum length of a client id in a key, longer than any valid id, so that input cannot inflate keys. */
const CLIENT_KEY_LENGTH = 64;

type LimitSettings = Pick<Config, "tokenRatePerClient" | "tokenRatePerAddress" | "tokenFailures">;

/** The limits of one process. */
export class TokenLimits {
  readonly #monotonic: () => number;
  readonly #addresses: FixedWindows;
  readonly #clients: FixedWindows;
  readonly #gate = new NarrowGate("token_address");
  readonly #failures: FailureLimiter;

  /** @param monotonic monotonic clock, in milliseconds */
  constructor(config: LimitSettings, monotonic: () => number) {
    this.#monotonic = monotonic;
    this.#addresses = new FixedWindows({ count: config.tokenRatePerAddress, perMs: MINUTE_MS });
    this.#clients = new FixedWindows({ count: config.tokenRatePerClient, perMs: MINUTE_MS });
    this.#failures = new FailureLimiter({
      count: config.tokenFailures,
      limit: "token_failures",
      detail: "Too many failed authentications.",
      monotonic,
    });
  }

  /**
   * Counts a request of an address and identifies its sender.
   *
   * @throws SignetError RATE_LIMITED instead of the original error, if the address is beyond its limit
   */
  async identify<T>(address: string, identify: () => Promise<T>): Promise<T> {
    const beyond = takeFrom(address, ({ key, hosts }) => this.#addresses.take(key, this.#monotonic(), hosts));
    if (beyond === undefined) {
      return await identify();
    }
    const { key, waitMs } = beyond;
    try {
      return await this.#gate.run(key, identify);
    } catch (error) {
      if (error instanceof SignetError && error.status < 500 && error.code !== "RATE_LIMITED") {
        throw rateLimited("token_address", waitMs, "Too many token requests from this address.");
      }
      throw error;
    }
  }

  /** Counts a request of an authenticated client. @throws SignetError RATE_LIMITED */
  admitClient(clientId: string): void {
    const waitMs = this.#clients.take(clientId, this.#monotonic());
    if (waitMs > 0) {
      const detail = `Too many token requests for this client; a token is valid for ${TOKEN_LIFETIME_MINUTES} minutes.`;
      throw rateLimited("token_client", waitMs, detail);
    }
  }

  /** Runs an authentication. @throws SignetError RATE_LIMITED after too many failures of the client from the address */
  async authenticate<T>(address: string, clientId: string, authenticate: () => Promise<T>): Promise<T> {
    const networks = networksOf(address, clientId.slice(0, CLIENT_KEY_LENGTH));
    try {
      const client = await this.#failures.check(networks, authenticate);
      this.#failures.succeeded(networks);
      return client;
    } catch (error) {
      const failed = error instanceof SignetError && error.code === "INVALID_CLIENT";
      throw (failed ? this.#failures.failed(networks) : undefined) ?? error;
    }
  }
}
