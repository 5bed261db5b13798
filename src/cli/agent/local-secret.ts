/**
 * The secret that the agent shares with local programs. Every user of the machine can reach loopback, and so can any
 * program that is tricked into fetching an address. Only users who can read the secret's file know the secret.
 */
import { randomBytes } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { writeOnce } from "#runtime/write-once.ts";

const BYTES = 32;
const LENGTH_MIN = 32;
const WORLD = 0o007;

/** Checks whether the file exists. Its directory may be read-only, so the caller must not just try to create it. */
async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") {
      return false;
    }
    throw error;
  }
}

/**
 * Returns the secret in the file; creates the file if it is missing.
 *
 * @throws Error if everybody can read the file, or the secret is too short
 */
export async function readLocalSecret(path: string): Promise<string> {
  if (!(await isThere(path))) {
    // Another agent may create the file at the same time; the first one wins.
    await writeOnce(path, `${randomBytes(BYTES).toString("base64url")}\n`, { mode: 0o600, randomBytes });
  }
  if (((await stat(path)).mode & WORLD) !== 0) {
    throw new Error(`everybody can read ${path}: chmod 640 or less`);
  }
  const secret = (await readFile(path, "utf8")).trim();
  if (secret.length < LENGTH_MIN) {
    throw new Error(`${path} holds fewer than ${LENGTH_MIN} characters`);
  }
  return secret;
}
