/** Settings of production, and the problems that the service finds in settings. */
import { type ConfigError, type ConfigFor, loadConfig } from "#config/config.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");

/** The fewest settings with which production starts. */
export const PRODUCTION = {
  SIGNET_DATABASE_URL: "postgres://signet@localhost/signet",
  TEMPORAL_ADDRESS: "localhost:7233",
  SIGNET_PUBLIC_URL: "https://api.example.com",
  SIGNET_PEPPER: KEY,
  SIGNET_KEK: KEY,
};

export function problemsOf(environment: Record<string, string>, asks?: ConfigFor): readonly string[] {
  try {
    loadConfig(environment, asks);
    return [];
  } catch (error) {
    return (error as ConfigError).problems;
  }
}
