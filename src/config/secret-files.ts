/** Reads secrets from files instead of the environment: `NAME_FILE` for `NAME`, as container engines mount them. */
import { readFileSync } from "node:fs";
import { messageOf } from "#runtime/thrown.ts";
import type { URL_VARIABLES, UrlName } from "./database-settings.ts";

/** The secrets that may come from a file. SIGNET_KEK_FILE is handled separately (key-settings.ts). */
type Secret =
  | (typeof URL_VARIABLES)[UrlName]
  | "SIGNET_PEPPER"
  | "SIGNET_OPERATOR_TOKEN"
  | "SIGNET_OUTBOUND_PROXY"
  | "SIGNET_LEASE_KEY"
  | "SIGNET_CLIENT_SECRET";

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * Replaces each secret by the content of its file, if `NAME_FILE` is set.
 *
 * @returns the environment with the secrets, and the problems with the files
 */
export function readSecretFiles(
  environment: Variables,
  secrets: readonly Secret[],
): { readonly environment: Variables; readonly problems: string[] } {
  const read: Record<string, string | undefined> = { ...environment };
  const problems: string[] = [];
  for (const variable of secrets) {
    const path = environment[`${variable}_FILE`] ?? "";
    if (path === "") {
      continue;
    }
    if ((environment[variable] ?? "") !== "") {
      problems.push(`${variable}_FILE and ${variable} must not both be set`);
      continue;
    }
    try {
      read[variable] = readFileSync(path, "utf8").trim();
    } catch (error) {
      problems.push(`${variable}_FILE cannot be read: ${messageOf(error)}`);
    }
    if (read[variable] === "") {
      problems.push(`${variable}_FILE is empty: ${path}`);
    }
  }
  return { environment: read, problems };
}
