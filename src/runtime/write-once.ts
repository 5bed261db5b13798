/** Files that are written once, whole and for good: nobody reads half of one, and the first of several writers wins. */
import { link, mkdir, open, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import type { RandomBytes } from "../domain/ids.ts";

const SUFFIX_BYTES = 8;

export interface OnceOptions {
  /** Permissions of the file. */
  readonly mode: number;
  /** For the name of the draft. */
  readonly randomBytes: RandomBytes;
}

/**
 * Writes a file unless there is one; its directory is made. When it resolves, file and name are on disk.
 *
 * @returns false when there is one, which stays as it is
 */
export async function writeOnce(
  path: string,
  content: string,
  { mode, randomBytes }: OnceOptions,
): Promise<boolean> {
  const parent = dirname(path);
  await mkdir(parent, { recursive: true });
  const draft = `${path}.${Buffer.from(randomBytes(SUFFIX_BYTES)).toString("hex")}`;
  const file = await open(draft, "wx", mode);
  try {
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
    // Unlike a rename, a link never takes the place of what is there.
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EEXIST") {
      return false;
    }
    throw error;
  } finally {
    await unlink(draft);
  }
  await syncDirectory(parent);
  return true;
}

/** Makes sure that names in a directory are on disk. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
