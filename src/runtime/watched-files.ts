/** Detects changes of files by polling, because mounts from outside send no events. */
import { stat } from "node:fs/promises";

const LOOK_EVERY_MS = 2_000;

/** With the time of the last change of the mode or the owner, which may make a file readable. */
async function fingerprint(paths: readonly string[]): Promise<string> {
  const stats = await Promise.all(paths.map(async (path) => await stat(path).catch(() => undefined)));
  return stats.map((found) => `${found?.ino}/${found?.size}/${found?.mtimeMs}/${found?.ctimeMs}`).join(" ");
}

/**
 * Polls the files. Resolves after the first look, to a function that ends it.
 *
 * @param paths called for each poll; that a file is missing is one of its states
 * @param onChange applies a change. Resolves to whether it is in use: if not, it is called again at the next poll, also
 *   for the same files. Must not reject; calls never overlap
 * @param everyMs pause between polls, in milliseconds
 */
export async function watchFiles(
  paths: () => readonly string[],
  onChange: () => Promise<boolean>,
  everyMs: number = LOOK_EVERY_MS,
): Promise<() => void> {
  let used = await fingerprint(paths());
  let inUse = true;
  let looking = false;

  async function look(): Promise<void> {
    const now = await fingerprint(paths());
    if (now !== used || !inUse) {
      used = now;
      inUse = await onChange();
    }
  }

  const timer = setInterval(() => {
    if (!looking) {
      looking = true;
      void look().finally(() => {
        looking = false;
      });
    }
  }, everyMs).unref();
  return () => clearInterval(timer);
}
