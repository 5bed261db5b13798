/** Detects changes of files by polling, because mounts from outside send no events. */
import { stat } from "node:fs/promises";

const LOOK_EVERY_MS = 2_000;

async function fingerprint(paths: readonly string[]): Promise<string> {
  const stats = await Promise.all(paths.map(async (path) => await stat(path).catch(() => undefined)));
  return stats.map((found) => `${found?.ino}/${found?.size}/${found?.mtimeMs}`).join(" ");
}

export interface WatchedFiles {
  close(): void;
}

/**
 * Polls the files until it is closed. Resolves after the first look.
 *
 * @param paths called for each poll; a missing file counts as unchanged
 * @param onChange must not throw
 */
export async function watchFiles(
  paths: () => readonly string[],
  onChange: () => void,
): Promise<WatchedFiles> {
  let seen = await fingerprint(paths());
  const timer = setInterval(() => {
    void fingerprint(paths()).then((now) => {
      if (now !== seen) {
        seen = now;
        onChange();
      }
    });
  }, LOOK_EVERY_MS).unref();
  return { close: () => clearInterval(timer) };
}
