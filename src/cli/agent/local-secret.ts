/**
 * The secret between the agent and the programs beside it. Loopback is open to every user of the machine, and to
 * whatever a program can be talked into fetching; the secret is for those who can read its file.
 */
import { randomBytes } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { writeOnce } from "../../runtime/write-once.ts";

const BYTES = 32;
const LENGTH_MIN = 32;
const WORLD = 0o007;

/** Its directory may be one that nobody can write to. */
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
 * The secret in the file, which is made when it is not there.
 *
 * @throws Error when everybody can read it, or it is too short to be one
 */
export async function readLocalSecret(path: string): Promise<string> {
  if (!(await isThere(path))) {
    // Another agent may be at it: the first one's stays.
    await writeOnce(path, `${randomBytes(BYTES).toString("base64url")}\n`, { mode: 0o600, randomBytes });
  }
  if (((await stat(path)).mode & WORLD) !== 0) {
    throw new Error(`everybody can read ${path}: chmod 640 or less`);
  }
  const secret = (await readFile(path, "utf8")).trim();
  if (secret.length < LENGTH_MIN) {
    throw new Error(`${path} holds less than ${LENGTH_MIN} characters`);
  }
  return secret;
}
