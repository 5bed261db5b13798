/** Files that are written once and completely. No reader sees half a file, and the first of several writers wins. */
import { link, mkdir, open, unlink } from "node:fs/promises";
import { dirname } from "node:path";
import type { RandomBytes } from "#domain/ids.ts";

const SUFFIX_BYTES = 8;

export interface OnceOptions {
  /** Permissions of the file. */
  readonly mode: number;
  /** Source of the draft's name. */
  readonly randomBytes: RandomBytes;
}

/**
 * Writes a file if it does not exist, and creates its directory. Resolves once the file and its name are on disk.
 *
 * @returns false if the file exists, which stays unchanged
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
    // Unlike a rename, a link never replaces an existing file.
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

/** Flushes the names in a directory to disk. */
export async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
