/** Settings of what one client, address or tenant may ask for; each process counts for itself, and 0 is no limit. */
import { integer, setting } from "./setting.ts";

const rate = integer(0, 10_000_000);

export const LIMIT_SETTINGS = {
  tokenRatePerClient: setting(
    "SIGNET_TOKEN_RATE_PER_CLIENT",
    rate,
    "60",
    "tokens per minute for one client, per process; 0: no limit, as with all of these",
  ),
  tokenRatePerAddress: setting(
    "SIGNET_TOKEN_RATE_PER_ADDRESS",
    rate,
    "300",
    "token requests per minute from one address",
  ),
  tokenFailures: setting(
    "SIGNET_TOKEN_FAILURES",
    rate,
    "10",
    "failed authentications within 5 minutes of one client from one address; then the wait doubles",
  ),
  apiRatePerTenant: setting(
    "SIGNET_API_RATE_PER_TENANT",
    rate,
    "100",
    "requests per second of one tenant, publishing excepted",
  ),
  publishRatePerTenant: setting(
    "SIGNET_PUBLISH_RATE_PER_TENANT",
    rate,
    "0",
    "`POST /v1/events` requests per second of one tenant",
  ),
} as const;
