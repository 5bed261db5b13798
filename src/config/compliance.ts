/** Settings of the compliance log's checkpoints (security decisions E). */
import { resolve } from "node:path";
import { list, type Parser, setting } from "./setting.ts";

const SEED_BYTES = 32;

/** Parses the seed of an Ed25519 key: exactly 32 bytes in base64, as printed by `openssl rand -base64 32`. */
export const checkpointSeed: Parser<Buffer> = (value) => {
  const bytes = Buffer.from(value, "base64");
  if (bytes.length !== SEED_BYTES || bytes.toString("base64") !== value) {
    throw new Error("must be 32 bytes in base64");
  }
  return bytes;
};

const logName: Parser<string> = (value) => {
  if (!/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/.test(value)) {
    throw new Error("must be letters, digits and . _ : / -, 128 at most");
  }
  return value;
};

export const COMPLIANCE_SETTINGS = {
  checkpointKey: setting(
    "SIGNET_CHECKPOINT_KEY",
    checkpointSeed,
    undefined,
    "worker: key that signs the compliance log, base64, 32 bytes; use it for nothing else, and keep it from the database's administrators. Generated in development",
  ),
  checkpointKeyFile: setting(
    "SIGNET_CHECKPOINT_KEY_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_CHECKPOINT_KEY",
  ),
  checkpointName: setting(
    "SIGNET_CHECKPOINT_NAME",
    logName,
    "signet/compliance",
    "name of the log in its checkpoints, best a host and a path of your own; cannot change later, because it is part of the verifier key",
  ),
  checkpointDir: setting(
    "SIGNET_CHECKPOINT_DIR",
    resolve,
    undefined,
    "worker: directory of the signed checkpoints, outside the database and shared by all workers. Development: under SIGNET_HOME",
  ),
  checkpointPreviousKeys: setting(
    "SIGNET_CHECKPOINT_PREVIOUS",
    list,
    "",
    "verifier keys of previous checkpoint keys, comma-separated; checkpoints signed by them may be extended",
  ),
} as const;
