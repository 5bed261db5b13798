/** Secrets that a file holds instead of the environment: `NAME_FILE` for `NAME`, as container engines mount them. */
import { readFileSync } from "node:fs";
import { messageOf } from "../runtime/thrown.ts";

/** What is not read from the file here: SIGNET_KEK_FILE has a life of its own (key-settings.ts). */
type Secret = "SIGNET_PEPPER" | "SIGNET_OPERATOR_TOKEN" | "SIGNET_OUTBOUND_PROXY" | "SIGNET_CLIENT_SECRET";

type Variables = Readonly<Record<string, string | undefined>>;

/**
 * The environment, with what the files hold in the places of the secrets.
 *
 * @returns the environment, and what is wrong with the files
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
      problems.push(`${variable}_FILE says where ${variable} is: set one of them`);
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
