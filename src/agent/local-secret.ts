/**
 * The secret between the agent and the programs beside it. Loopback is open to every user of the machine, and to
 * whatever a program can be talked into fetching; the secret is for those who can read its file.
 */
import { randomBytes } from "node:crypto";
import { readFile, stat, writeFile } from "node:fs/promises";

const BYTES = 32;
const LENGTH_MIN = 32;
const WORLD = 0o007;

async function create(path: string): Promise<void> {
  const secret = randomBytes(BYTES).toString("base64url");
  try {
    await writeFile(path, `${secret}\n`, { flag: "wx", mode: 0o600 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") {
      throw error;
    }
  }
}

/**
 * The secret in the file, which is made when it is not there.
 *
 * @throws Error when everybody can read it, or it is too short to be one
 */
export async function readLocalSecret(path: string): Promise<string> {
  await create(path);
  if (((await stat(path)).mode & WORLD) !== 0) {
    throw new Error(`everybody can read ${path}: chmod 640 or less`);
  }
  const secret = (await readFile(path, "utf8")).trim();
  if (secret.length < LENGTH_MIN) {
    throw new Error(`${path} holds less than ${LENGTH_MIN} characters`);
  }
  return secret;
}
