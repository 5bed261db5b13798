/** The files of this repository. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "..", "..");

/** Reads a file by its path in the repository. */
export async function readText(path: string): Promise<string> {
  return await readFile(join(ROOT, path), "utf8");
}
