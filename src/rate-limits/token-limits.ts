/**
 * What the OAuth endpoints take (security decisions I). A client id alone locks nobody out: it is public, so requests
 * that only name it count against their address, and a client's own rate counts what it has authenticated for.
 */
import type { Config } from "../config.ts";
import { SignetError } from "../errors.ts";
import { addressKey } from "./address-key.ts";
import { createFailureLimiter } from "./failure-limiter.ts";
import { createRateLimiter } from "./rate-limiter.ts";
import { rateLimited } from "./rate-limited.ts";

const PER_MINUTE = 60;
/** Longer than any client id of ours: keys must not grow with what is sent. */
const CLIENT_KEY_LENGTH = 64;

export interface TokenLimits {
  /** Counts a request of an address. @throws SignetError RATE_LIMITED */
  admitAddress(address: string): Promise<void>;
  /** Counts a request of a client that has authenticated. @throws SignetError RATE_LIMITED */
  admitClient(clientId: string): Promise<void>;
  /** Runs an authentication; @throws SignetError RATE_LIMITED after too many failures of the client from there */
  authenticate<T>(address: string, clientId: string, authenticate: () => Promise<T>): Promise<T>;
}

type LimitSettings = Pick<Config, "tokenRatePerClient" | "tokenRatePerAddress" | "tokenFailures">;

/** Limits of one process. */
export function createTokenLimits(config: LimitSettings): TokenLimits {
  const addresses = createRateLimiter({ count: config.tokenRatePerAddress, perSeconds: PER_MINUTE });
  const clients = createRateLimiter({ count: config.tokenRatePerClient, perSeconds: PER_MINUTE });
  const failures = createFailureLimiter(config.tokenFailures);
  return {
    admitAddress: async (address) => {
      const waitMs = await addresses.take(addressKey(address));
      if (waitMs > 0) {
        throw rateLimited("token_address", waitMs, "Too many token requests from this address.");
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
      const waitMs = await failures.refuse(key);
      if (waitMs > 0) {
        throw rateLimited("token_failures", waitMs, "Too many failed authentications.");
      }
      try {
        const client = await authenticate();
        await failures.succeeded(key);
        return client;
      } catch (error) {
        if (error instanceof SignetError && error.code === "INVALID_CLIENT") {
          await failures.failed(key);
        }
        throw error;
      }
    },
  };
}
