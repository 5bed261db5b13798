/** Opens the signer of the compliance log from the settings. */
import { join } from "node:path";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey, type VerifierKey } from "#lib/transparency-log/signed-note.ts";
import { type Config, ConfigError } from "#config/config.ts";
import { LONG_STATEMENT_TIMEOUT_MS } from "#database/bounded-client.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { isSigningKey } from "#database/repositories/tokens/signing-keys.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { Logger } from "#observability/logger.ts";
import { messageOf } from "#runtime/thrown.ts";
import { openBucketSink } from "./bucket-sink.ts";
import type { CheckpointKey } from "./checkpoint-key.ts";
import { type CheckpointSink, createFileSink, SinkUnusableError } from "./checkpoint-sink.ts";
import { loadCheckpointKey } from "./load-checkpoint-key.ts";
import type { CheckpointSigner } from "./sign-checkpoint.ts";

/** One connection reads, one waits for its turn. */
const CONNECTIONS_MAX = 2;
const DEVELOPMENT_DIRECTORY = "checkpoints";

/** The parts of the signer that come from settings only. */
export interface CheckpointSigning {
  readonly key: CheckpointKey;
  readonly trusted: readonly VerifierKey[];
  readonly sink: CheckpointSink;
}

export interface CheckpointServices extends Pick<CheckpointSigner, "pool" | "clock"> {
  readonly config: { readonly databaseUrl: string };
  /** Role signet_operator, which sees the token signing keys. */
  readonly operatorPool: Pool;
  readonly log: Logger;
}

export interface SinkServices {
  /** Dates how long a bucket keeps checkpoints. */
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

async function verifierKey(text: string): Promise<VerifierKey> {
  try {
    return await parseVerifierKey(text, NODE_CRYPTO);
  } catch (error) {
    throw new ConfigError([`SIGNET_CHECKPOINT_PREVIOUS: ${(error as Error).message}`]);
  }
}

/** Opens the configured sink, unchecked. @throws ConfigError if production has none */
export async function openSink(
  config: Config,
  { clock, randomBytes }: SinkServices,
): Promise<CheckpointSink> {
  const { checkpointDir, checkpointBucket: place, checkpointLockMode, checkpointLockMs } = config;
  if (place !== undefined) {
    const lock = { mode: checkpointLockMode, forMs: checkpointLockMs };
    return await openBucketSink({ place, lock, clock });
  }
  if (checkpointDir === undefined && !config.development) {
    throw new ConfigError([
      "SIGNET_CHECKPOINT_DIR or SIGNET_CHECKPOINT_S3_URL must be set in production, for the worker",
    ]);
  }
  return createFileSink(checkpointDir ?? join(config.home, DEVELOPMENT_DIRECTORY), randomBytes);
}

/** A bucket that does not answer delays checkpoints, not deliveries: each checkpoint checks it again. */
async function openCheckedSink(config: Config, services: SinkServices, log: Logger): Promise<CheckpointSink> {
  const variable =
    config.checkpointBucket === undefined ? "SIGNET_CHECKPOINT_DIR" : "SIGNET_CHECKPOINT_S3_URL";
  try {
    const sink = await openSink(config, services);
    await sink.check().catch((error: unknown) => {
      if (error instanceof SinkUnusableError) {
        throw error;
      }
      log.warn({ err: error }, "the place of checkpoints does not answer yet");
    });
    return sink;
  } catch (error) {
    throw error instanceof SinkUnusableError
      ? new ConfigError([`${variable} cannot be used: ${messageOf(error)}`])
      : error;
  }
}

/** @throws ConfigError if key or sink is unusable; production has no defaults for them */
export async function loadCheckpointSigning(
  config: Config,
  services: SinkServices,
  log: Logger,
): Promise<CheckpointSigning> {
  const key = await loadCheckpointKey(config, services.randomBytes);
  const trusted = await Promise.all([key.verifierKey, ...config.checkpointPreviousKeys].map(verifierKey));
  return { key, trusted, sink: await openCheckedSink(config, services, log) };
}

/** @throws Error if the key also signs tokens */
export async function openCheckpointSigner(
  { key, trusted, sink }: CheckpointSigning,
  { config, pool, operatorPool, clock, log }: CheckpointServices,
): Promise<CheckpointSigner & { close(): Promise<void> }> {
  if (await isSigningKey(operatorPool, key.publicKey)) {
    throw new Error("the checkpoint key must not be one of the keys that sign tokens");
  }
  const auditPool = createPool({
    url: config.databaseUrl,
    role: "signet_audit",
    max: CONNECTIONS_MAX,
    log,
    statementMs: LONG_STATEMENT_TIMEOUT_MS,
  });
  log.info({ verifier_key: key.verifierKey, directory: sink.place }, "signing the compliance log");
  return { key, trusted, sink, auditPool, pool, clock, close: async () => await auditPool.end() };
}
