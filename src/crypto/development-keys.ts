/** Keys that development makes for itself at the first start and keeps under SIGNET_HOME. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { RandomBytes } from "../domain/ids.ts";
import { writeOnce } from "../runtime/write-once.ts";

/**
 * The content of `name` in `directory`, made if it is not there. Two processes that start at once agree: each writes a
 * file of its own, and only one of the links succeeds, so nobody ever reads half a key.
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
    throw new Error(`${path} was removed while it was being made`);
  }
  return made;
}

/** The content of a key file, or `undefined` when there is none. */
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
