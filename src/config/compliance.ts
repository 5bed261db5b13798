/** Settings of the compliance log's checkpoints (security decisions E). */
import { resolve } from "node:path";
import { list, type Parser, setting } from "./setting.ts";

const SEED_BYTES = 32;

/** What `openssl rand -base64 32` prints: an Ed25519 key, no more and no less. */
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
    "worker: key that signs the compliance log, base64, 32 bytes; of no other use, and unknown to the database's administrators. Development makes one",
  ),
  checkpointKeyFile: setting(
    "SIGNET_CHECKPOINT_KEY_FILE",
    resolve,
    undefined,
    "file that holds it, instead of SIGNET_CHECKPOINT_KEY",
  ),
  checkpointName: setting(
    "SIGNET_CHECKPOINT_NAME",
    logName,
    "signet/compliance",
    "name of the log in its checkpoints; best a host and a path of your own. Decided once: it is part of the verifier key",
  ),
  checkpointDir: setting(
    "SIGNET_CHECKPOINT_DIR",
    resolve,
    undefined,
    "worker: where signed checkpoints are kept, out of the database's reach; one directory for all workers. Development: under SIGNET_HOME",
  ),
  checkpointPreviousKeys: setting(
    "SIGNET_CHECKPOINT_PREVIOUS",
    list,
    "",
    "verifier keys of earlier checkpoint keys, comma-separated: their checkpoints may be extended",
  ),
} as const;
