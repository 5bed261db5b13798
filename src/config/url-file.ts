/**
 * A database URL whose login is read from a file at each new connection, so that rotated passwords and short-lived
 * tokens work without a restart. The path becomes a parameter of the URL, as the TLS settings do.
 */
import { readFileSync } from "node:fs";
import { messageOf } from "#runtime/thrown.ts";
import { postgresUrl } from "./postgres-url.ts";

const PARAMETER = "signet_url_file";

/** The file with a database's URL cannot be used now. */
export class UrlFileError extends Error {
  override readonly name = "UrlFileError";
}

/** Returns the URL with the path of the file that it came from. */
export function withUrlFile(url: string, path: string): string {
  const named = new URL(url);
  named.searchParams.set(PARAMETER, path);
  return named.href;
}

/** Whether a URL came from a file. */
export function isFromFile(url: string): boolean {
  return new URL(url).searchParams.has(PARAMETER);
}

/**
 * Returns the URL to connect with now. Only user name and password are read again: host, database and TLS were checked
 * when the process started.
 *
 * @throws UrlFileError if the file holds no URL
 */
export function currentUrl(url: string): string {
  if (!url.includes(PARAMETER)) {
    return url;
  }
  const current = new URL(url);
  const path = current.searchParams.get(PARAMETER) ?? "";
  current.searchParams.delete(PARAMETER);
  try {
    const { username, password } = new URL(postgresUrl(readFileSync(path, "utf8").trim()));
    current.username = username;
    current.password = password;
  } catch (error) {
    throw new UrlFileError(`the file of the database URL, ${path}: ${messageOf(error)}`, { cause: error });
  }
  return current.href;
}
