/** Where this deployment itself listens. */
import type { Config } from "../config.ts";
import type { ListenAddress } from "../settings/setting.ts";

/** Addresses of the service, and in development of the PostgreSQL and Temporal it brings along: never targets of deliveries. */
export function ownListeners(config: Config): readonly ListenAddress[] {
  const { apiListen, adminListen, edgeListen, metricsListen, development } = config;
  const { embeddedDatabasePort, embeddedTemporalPort, embeddedTemporalUiPort } = config;
  const embedded = [embeddedDatabasePort, embeddedTemporalPort, embeddedTemporalUiPort];
  const local = development ? embedded.map((port) => ({ host: "127.0.0.1", port })) : [];
  return [apiListen, adminListen, edgeListen, metricsListen, ...local];
}
