/**
 * Rate limits of the OAuth endpoints (security decisions I). Limits per address reject only failed requests: a valid
 * credential is never rejected for others at its address. The limit per client counts authenticated requests.
 */
import type { Config } from "#config/config.ts";
import { SignetError } from "#domain/errors.ts";
import { FixedWindows } from "#domain/fixed-windows.ts";
import { networksOf, takeFrom } from "./address-key.ts";
import { FailureLimiter } from "./failure-limiter.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { rateLimited } from "./rate-limited.ts";

const MINUTE_MS = 60_000;
/** Maximum length of a client id in a key, longer than any valid id, so that input cannot inflate keys. */
const CLIENT_KEY_LENGTH = 64;

export interface TokenLimits {
  /**
   * Counts a request of an address and identifies its sender.
   *
   * @throws SignetError RATE_LIMITED instead of the original error, if the address is beyond its limit
   */
  identify<T>(address: string, identify: () => Promise<T>): Promise<T>;
  /** Counts a request of an authenticated client. @throws SignetError RATE_LIMITED */
  admitClient(clientId: string): void;
  /** Runs an authentication. @throws SignetError RATE_LIMITED after too many failures of the client from the address */
  authenticate<T>(address: string, clientId: string, authenticate: () => Promise<T>): Promise<T>;
}

type LimitSettings = Pick<Config, "tokenRatePerClient" | "tokenRatePerAddress" | "tokenFailures">;

/**
 * Creates the limits of one process.
 *
 * @param monotonic monotonic clock, in milliseconds
 */
export function createTokenLimits(config: LimitSettings, monotonic: () => number): TokenLimits {
  const addresses = new FixedWindows({ count: config.tokenRatePerAddress, perMs: MINUTE_MS });
  const clients = new FixedWindows({ count: config.tokenRatePerClient, perMs: MINUTE_MS });
  const gate = new NarrowGate("token_address");
  const failures = new FailureLimiter({
    count: config.tokenFailures,
    limit: "token_failures",
    detail: "Too many failed authentications.",
    monotonic,
  });
  return {
    identify: async (address, identify) => {
      const beyond = takeFrom(address, ({ key, hosts }) => addresses.take(key, monotonic(), hosts));
      if (beyond === undefined) {
        return await identify();
      }
      const { key, waitMs } = beyond;
      try {
        return await gate.run(key, identify);
      } catch (error) {
        if (error instanceof SignetError && error.status < 500 && error.code !== "RATE_LIMITED") {
          throw rateLimited("token_address", waitMs, "Too many token requests from this address.");
        }
        throw error;
      }
    },
    admitClient: (clientId) => {
      const waitMs = clients.take(clientId, monotonic());
      if (waitMs > 0) {
        throw rateLimited(
          "token_client",
          waitMs,
          "Too many token requests for this client; a token is valid for 15 minutes.",
        );
      }
    },
    authenticate: async (address, clientId, authenticate) => {
      const networks = networksOf(address, clientId.slice(0, CLIENT_KEY_LENGTH));
      try {
        const client = await failures.check(networks, authenticate);
        failures.succeeded(networks);
        return client;
      } catch (error) {
        const failed = error instanceof SignetError && error.code === "INVALID_CLIENT";
        throw (failed ? failures.failed(networks) : undefined) ?? error;
      }
    },
  };
}
