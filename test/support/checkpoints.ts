/** Checkpoints for the service under test, with their own key and directory, signed without waiting for the schedule. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { inject } from "vitest";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { createFileSink } from "#compliance/checkpoint-sink.ts";
import { signCheckpoint } from "#compliance/sign-checkpoint.ts";
import type { Environment } from "#config/config.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";

export function checkpointSettings(): {
  readonly SIGNET_CHECKPOINT_KEY: string;
  readonly SIGNET_CHECKPOINT_DIR: string;
} {
  return {
    SIGNET_CHECKPOINT_KEY: randomBytes(32).toString("base64"),
    SIGNET_CHECKPOINT_DIR: join(inject("runDirectory"), "checkpoints", randomBytes(6).toString("hex")),
  };
}

/** The service to sign for: an api of test/support/api.ts. */
interface Signed {
  readonly database: { readonly url: string };
  readonly environment: Environment;
}

export interface TestSigner {
  readonly key: CheckpointKey;
  /** Signs the current state of the log. */
  sign(): Promise<void>;
  close(): Promise<void>;
}

/** Creates a signer like the service's worker, with its key and directory. */
export function openTestSigner({ database, environment }: Signed, name = "signet/compliance"): TestSigner {
  const open = (role: "signet_audit" | "signet_worker"): Pool =>
    createPool({ url: database.url, role, max: 2, log: createLogger({ level: "silent" }) });
  const [auditPool, pool] = [open("signet_audit"), open("signet_worker")];
  const seed = Buffer.from(environment["SIGNET_CHECKPOINT_KEY"] ?? "", "base64");
  const key = new CheckpointKey(name, seed);
  const sink = createFileSink(environment["SIGNET_CHECKPOINT_DIR"] ?? "", randomBytes);
  return {
    key,
    sign: async () => {
      const trusted = [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)];
      await signCheckpoint({ key, trusted, sink, auditPool, pool, clock: systemClock });
    },
    close: async () => void (await Promise.all([auditPool.end(), pool.end()])),
  };
}
