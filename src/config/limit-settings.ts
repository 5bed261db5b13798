/** Limits per client, address or tenant. Each process counts rates separately. */
import { integer, setting } from "./setting.ts";

const rate = integer(0, 10_000_000);
const count = integer(1, 10_000);

export const LIMIT_SETTINGS = {
  tokenRatePerClient: setting(
    "SIGNET_TOKEN_RATE_PER_CLIENT",
    rate,
    "60",
    "tokens per minute for one client, per process; 0: no limit, as with all rates",
  ),
  tokenRatePerAddress: setting(
    "SIGNET_TOKEN_RATE_PER_ADDRESS",
    rate,
    "300",
    "token requests per minute from one address; above it, bad credentials get 429 and good ones are still accepted",
  ),
  publicRatePerAddress: setting(
    "SIGNET_PUBLIC_RATE_PER_ADDRESS",
    rate,
    "50",
    "requests per second from one address for public documents, such as key set, OpenAPI and error pages",
  ),
  tokenFailures: setting(
    "SIGNET_TOKEN_FAILURES",
    rate,
    "10",
    "failed authentications within 5 minutes of one client from one address; after that, the wait doubles",
  ),
  apiRatePerTenant: setting(
    "SIGNET_API_RATE_PER_TENANT",
    rate,
    "100",
    "requests per second of one tenant, except publishing",
  ),
  publishRatePerTenant: setting(
    "SIGNET_PUBLISH_RATE_PER_TENANT",
    rate,
    "0",
    "events per second of one tenant; each event of a batch counts",
  ),
  endpointsPerTenant: setting(
    "SIGNET_ENDPOINTS_PER_TENANT",
    count,
    "50",
    "endpoints of one tenant; operators can override this and the other limits per tenant",
  ),
  eventTypesPerTenant: setting(
    "SIGNET_EVENT_TYPES_PER_TENANT",
    count,
    "500",
    "event types in the catalogue of one tenant",
  ),
  credentialsPerPrincipal: setting(
    "SIGNET_CREDENTIALS_PER_PRINCIPAL",
    count,
    "100",
    "credentials of one principal that are not revoked",
  ),
} as const;
