/** A checkpoint key and a directory of its own for a service under test. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { inject } from "vitest";

export function checkpointSettings(): {
  readonly SIGNET_CHECKPOINT_KEY: string;
  readonly SIGNET_CHECKPOINT_DIR: string;
} {
  return {
    SIGNET_CHECKPOINT_KEY: randomBytes(32).toString("base64"),
    SIGNET_CHECKPOINT_DIR: join(inject("runDirectory"), "checkpoints", randomBytes(6).toString("hex")),
  };
}
