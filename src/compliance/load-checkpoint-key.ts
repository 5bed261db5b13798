/** Loads the checkpoint key from the settings. Development generates one and keeps it. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Config, ConfigError } from "#config/config.ts";
import { readKey, readOrCreateKey } from "#crypto/development-keys.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { checkpointSeed } from "#config/compliance.ts";
import { CheckpointKey } from "./checkpoint-key.ts";

const DEVELOPMENT_FILE = "checkpoint-key";

export type CheckpointKeySettings = Pick<
  Config,
  "checkpointKey" | "checkpointKeyFile" | "checkpointName" | "home"
>;

async function readSeed({ checkpointKey, checkpointKeyFile: path, home }: CheckpointKeySettings) {
  if (checkpointKey !== undefined && path !== undefined) {
    throw new ConfigError(["SIGNET_CHECKPOINT_KEY and SIGNET_CHECKPOINT_KEY_FILE must not both be set"]);
  }
  if (checkpointKey !== undefined) {
    return checkpointKey;
  }
  if (path === undefined) {
    const made = await readKey(join(home, DEVELOPMENT_FILE));
    return made === undefined ? undefined : Buffer.from(made, "base64url");
  }
  try {
    return checkpointSeed((await readFile(path, "utf8")).trim());
  } catch (error) {
    throw new ConfigError([`SIGNET_CHECKPOINT_KEY_FILE: ${(error as Error).message}`]);
  }
}

/** Returns the configured or generated key, if any. @throws ConfigError if it cannot be read */
export async function findCheckpointKey(settings: CheckpointKeySettings): Promise<CheckpointKey | undefined> {
  const seed = await readSeed(settings);
  return seed && new CheckpointKey(settings.checkpointName, seed);
}

/**
 * Returns the key for signing.
 *
 * @throws ConfigError if it cannot be read, or if it is missing in production
 */
export async function loadCheckpointKey(
  settings: CheckpointKeySettings & Pick<Config, "development">,
  randomBytes: RandomBytes,
): Promise<CheckpointKey> {
  const { checkpointKey, checkpointKeyFile, checkpointName, development, home } = settings;
  if (checkpointKey === undefined && checkpointKeyFile === undefined) {
    if (!development) {
      throw new ConfigError([
        "SIGNET_CHECKPOINT_KEY or SIGNET_CHECKPOINT_KEY_FILE must be set in production, for the worker",
      ]);
    }
    const made = await readOrCreateKey(home, DEVELOPMENT_FILE, randomBytes);
    return new CheckpointKey(checkpointName, Buffer.from(made, "base64url"));
  }
  return (await findCheckpointKey(settings)) as CheckpointKey;
}
