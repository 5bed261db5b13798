/**
 * What the OAuth endpoints take (security decisions I). Limits by address refuse only what failed: a good credential is
 * never refused for what others at its address sent. A client's own rate counts what it has authenticated for.
 */
import type { Config } from "../../config/config.ts";
import { SignetError } from "../../domain/errors.ts";
import { addressKey } from "./address-key.ts";
import { createFailureLimiter } from "./failure-limiter.ts";
import { NarrowGate } from "./narrow-gate.ts";
import { createRateLimiter } from "./rate-limiter.ts";
import { rateLimited } from "./rate-limited.ts";

const PER_MINUTE = 60;
/** Longer than any client id of ours: keys must not grow with what is sent. */
const CLIENT_KEY_LENGTH = 64;

export interface TokenLimits {
  /**
   * Counts a request of an address and runs what finds out who sent it.
   *
   * @throws SignetError RATE_LIMITED in place of a refusal once the address is beyond its rate
   */
  identify<T>(address: string, identify: () => Promise<T>): Promise<T>;
  /** Counts a request of a client that has authenticated. @throws SignetError RATE_LIMITED */
  admitClient(clientId: string): Promise<void>;
  /** Runs an authentication; @throws SignetError RATE_LIMITED in place of one failure too many of the client from there */
  authenticate<T>(address: string, clientId: string, authenticate: () => Promise<T>): Promise<T>;
}

type LimitSettings = Pick<Config, "tokenRatePerClient" | "tokenRatePerAddress" | "tokenFailures">;

/** Limits of one process. */
export function createTokenLimits(config: LimitSettings): TokenLimits {
  const addresses = createRateLimiter({ count: config.tokenRatePerAddress, perSeconds: PER_MINUTE });
  const clients = createRateLimiter({ count: config.tokenRatePerClient, perSeconds: PER_MINUTE });
  const gate = new NarrowGate("token_address");
  const failures = createFailureLimiter({
    count: config.tokenFailures,
    limit: "token_failures",
    detail: "Too many failed authentications.",
  });
  return {
    identify: async (address, identify) => {
      const key = addressKey(address);
      const waitMs = await addresses.take(key);
      if (waitMs === 0) {
        return await identify();
      }
      try {
        return await gate.run(key, identify);
      } catch (error) {
        if (error instanceof SignetError && error.status < 500 && error.code !== "RATE_LIMITED") {
          throw rateLimited("token_address", waitMs, "Too many token requests from this address.");
        }
        throw error;
      }
    },
    admitClient: async (clientId) => {
      const waitMs = await clients.take(clientId);
      if (waitMs > 0) {
        throw rateLimited(
          "token_client",
          waitMs,
          "Too many tokens for this client; a token is good for 15 minutes.",
        );
      }
    },
    authenticate: async (address, clientId, authenticate) => {
      const key = `${addressKey(address)} ${clientId.slice(0, CLIENT_KEY_LENGTH)}`;
      try {
        const client = await failures.check(key, authenticate);
        await failures.succeeded(key);
        return client;
      } catch (error) {
        const failed = error instanceof SignetError && error.code === "INVALID_CLIENT";
        throw (failed ? await failures.failed(key) : undefined) ?? error;
      }
    },
  };
}
