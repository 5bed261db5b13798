/** The files of the work tree as it is. */
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "..", "..");

/** Returns the files that git tracks or would track, also with uncommitted changes, as paths below the root. */
export function workTreeFiles(): readonly string[] {
  const listed = execFileSync("git", ["ls-files", "-z", "--cached", "--others", "--exclude-standard"], {
    cwd: ROOT,
    encoding: "utf8",
    maxBuffer: 16_777_216,
  });
  // Git also lists files that were deleted and not committed.
  return [...new Set(listed.split("\0"))].filter((path) => path !== "" && existsSync(join(ROOT, path)));
}
