/** Wires the signer of the compliance log for the worker process. */
import type { Client } from "@temporalio/client";
import { join } from "node:path";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey, type VerifierKey } from "#lib/transparency-log/signed-note.ts";
import type { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { openBucketSink } from "#compliance/bucket-sink.ts";
import { type CheckpointSink, createFileSink, SinkUnusableError } from "#compliance/checkpoint-sink.ts";
import { loadCheckpointKey } from "#compliance/load-checkpoint-key.ts";
import type { CheckpointSigner } from "#compliance/sign-checkpoint.ts";
import { type Config, ConfigError } from "#config/config.ts";
import { LONG_STATEMENT_TIMEOUT_MS } from "#database/bounded-client.ts";
import { listen } from "#database/listener.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { isSigningKey } from "#database/repositories/tokens/signing-keys.ts";
import type { Clock } from "#domain/clock.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import type { RandomBytes } from "#domain/ids.ts";
import type { Logger } from "#observability/logger.ts";
import { REVOCATION_CHANNEL } from "#revocation/follower.ts";
import { messageOf } from "#runtime/thrown.ts";
import { CheckpointRequests } from "#temporal/checkpoint-requests.ts";

/** One connection reads, one waits for its turn. */
const CONNECTIONS_MAX = 2;
const DEVELOPMENT_DIRECTORY = "checkpoints";

/** The parts of the signer that come from settings only. */
export interface CheckpointSigning {
  readonly key: CheckpointKey;
  readonly trusted: readonly VerifierKey[];
  readonly sink: CheckpointSink;
}

export interface CheckpointServices {
  readonly config: { readonly databaseUrl: string };
  /** Role signet_worker. */
  readonly pool: Pool;
  /** Role signet_operator, which sees the token signing keys. */
  readonly operatorPool: Pool;
  readonly clock: Clock;
  readonly log: Logger;
}

async function verifierKey(text: string): Promise<VerifierKey> {
  try {
    return await parseVerifierKey(text, NODE_CRYPTO);
  } catch (error) {
    throw new ConfigError([`SIGNET_CHECKPOINT_PREVIOUS: ${(error as Error).message}`]);
  }
}

/** Opens the configured sink, unchecked. @throws ConfigError if production has none */
export async function openSink(config: Config, randomBytes: RandomBytes): Promise<CheckpointSink> {
  const { checkpointDir, checkpointBucket: place, checkpointLockMode, checkpointLockMs } = config;
  if (place !== undefined) {
    const lock = { mode: checkpointLockMode, forMs: checkpointLockMs };
    return await openBucketSink({ place, lock, clock: systemClock });
  }
  if (checkpointDir === undefined && !config.development) {
    throw new ConfigError([
      "SIGNET_CHECKPOINT_DIR or SIGNET_CHECKPOINT_S3_URL must be set in production, for the worker",
    ]);
  }
  return createFileSink(checkpointDir ?? join(config.home, DEVELOPMENT_DIRECTORY), randomBytes);
}

/** A bucket that does not answer delays checkpoints, not deliveries: each checkpoint checks it again. */
async function openCheckedSink(
  config: Config,
  randomBytes: RandomBytes,
  log: Logger,
): Promise<CheckpointSink> {
  const variable =
    config.checkpointBucket === undefined ? "SIGNET_CHECKPOINT_DIR" : "SIGNET_CHECKPOINT_S3_URL";
  try {
    const sink = await openSink(config, randomBytes);
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
  randomBytes: RandomBytes,
  log: Logger,
): Promise<CheckpointSigning> {
  const key = await loadCheckpointKey(config, randomBytes);
  const trusted = await Promise.all([key.verifierKey, ...config.checkpointPreviousKeys].map(verifierKey));
  return { key, trusted, sink: await openCheckedSink(config, randomBytes, log) };
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

/** Listens for revocations and triggers signing of the log. */
export function requestCheckpoints(
  databaseUrl: string,
  temporal: Client,
  log: Logger,
): { stop(): Promise<void> } {
  const requests = new CheckpointRequests(temporal, machineTimers, log);
  const stopListening = listen({
    timers: machineTimers,
    url: databaseUrl,
    channels: {
      // `sequence:kind:target`
      [REVOCATION_CHANNEL]: (payload) =>
        requests.request(payload === undefined ? undefined : Number.parseInt(payload, 10)),
    },
    log,
  });
  return {
    stop: async () => {
      await stopListening();
      await requests.stop();
    },
  };
}
