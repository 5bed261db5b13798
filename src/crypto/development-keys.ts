/** Keys that development generates at the first start and keeps under SIGNET_HOME. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RandomBytes } from "#domain/ids.ts";
import { writeOnce } from "#runtime/write-once.ts";

/** Name of the operator token's file under SIGNET_HOME. */
export const OPERATOR_TOKEN_FILE = "operator-token";

/**
 * Returns the content of `name` in `directory`, which is created if missing. Two concurrent processes agree on one key:
 * each writes its own file, but only one link succeeds, so nobody reads half a key.
 */
export async function readOrCreateKey(
  directory: string,
  name: string,
  randomBytes: RandomBytes,
): Promise<string> {
  const path = join(directory, name);
  const existing = await readKey(path);
  if (existing !== undefined) {
    return existing;
  }
  await writeOnce(path, `${Buffer.from(randomBytes(32)).toString("base64url")}\n`, {
    mode: 0o600,
    randomBytes,
  });
  const made = await readKey(path);
  if (made === undefined) {
    throw new Error(`${path} was removed while it was created`);
  }
  return made;
}

/** Returns the content of a key file, or `undefined` if there is none. */
export async function readKey(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return undefined;
    }
    throw error;
  }
}
