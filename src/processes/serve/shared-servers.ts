/** The servers of a running `npm start`, for further processes on the same machine. Development only. */
import { readFileSync, rmSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "#config/config.ts";

const FILE = "servers.json";

/** Addresses of PostgreSQL, with the service's password, and of Temporal. */
export type SharedServers = Required<Pick<Config, "databaseUrl" | "temporalAddress">>;

/** Writes the addresses into the embedded parts' directory. Returns the function that removes them. */
export async function shareServers(
  home: string,
  { databaseUrl, temporalAddress }: SharedServers,
): Promise<() => Promise<void>> {
  const path = join(home, FILE);
  rmSync(path, { force: true });
  await writeFile(path, JSON.stringify({ databaseUrl, temporalAddress }), { mode: 0o600, flag: "wx" });
  return async () => {
    rmSync(path, { force: true });
    await Promise.resolve();
  };
}

/** Returns the servers of the `npm start` that uses this directory; nothing if none runs. */
export function sharedServers({
  home,
  development,
}: Pick<Config, "home" | "development">): Partial<SharedServers> {
  if (!development) {
    return {};
  }
  try {
    return JSON.parse(readFileSync(join(home, FILE), "utf8")) as SharedServers;
  } catch {
    return {};
  }
}
