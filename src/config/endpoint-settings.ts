/** Settings of the endpoints' life cycle (security decisions H, K). */
import { duration, integer, setting } from "./setting.ts";

export const ENDPOINT_SETTINGS = {
  autoDisableAfterMs: setting(
    "SIGNET_AUTO_DISABLE_AFTER",
    duration("0", "3650d"),
    "120h",
    "an endpoint that has failed for this long is disabled; 0: never",
  ),
  verificationsPerSecond: setting(
    "SIGNET_VERIFICATIONS_PER_SECOND",
    integer(1, 1_000),
    "8",
    "verifications that an api or worker process starts per second, tenants in turns; further ones wait",
  ),
  pingsPerHost: setting(
    "SIGNET_PINGS_PER_HOST",
    integer(0, 1_000_000),
    undefined,
    "pings per minute to one host name, and to one address, from all tenants; 0: no limit. Default: 10, in development 0",
  ),
} as const;

const PINGS_PER_HOST = 10;

/** Returns the maximum number of pings per minute to one host name, and to one address; 0: no limit. */
export function pingsPerHost({
  pingsPerHost: given,
  development,
}: {
  readonly pingsPerHost: number | undefined;
  readonly development: boolean;
}): number {
  return given ?? (development ? 0 : PINGS_PER_HOST);
}
