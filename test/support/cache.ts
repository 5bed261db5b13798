/** Where programs and packages for tests stay between runs. */
import { readdir, rm, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

/** SIGNET_CACHE. */
export const CACHE = process.env["SIGNET_CACHE"] ?? join(homedir(), ".cache", "signet");

/** Removes what no run has used for `keptMs`, by the time of its last change. */
export async function removeUnused(directory: string, keptMs: number): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const used = await stat(path).catch(() => undefined);
    if (used !== undefined && Date.now() - used.mtimeMs > keptMs) {
      await rm(path, { recursive: true, force: true });
    }
  }
}
