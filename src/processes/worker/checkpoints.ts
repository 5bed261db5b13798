/** Wires the signer of the compliance log for the worker process. */
import type { Client } from "@temporalio/client";
import { access, constants, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { NODE_CRYPTO } from "../../lib/transparency-log/node-crypto.ts";
import { parseVerifierKey, type VerifierKey } from "../../lib/transparency-log/signed-note.ts";
import type { CheckpointKey } from "../../compliance/checkpoint-key.ts";
import { createFileSink } from "../../compliance/checkpoint-sink.ts";
import { loadCheckpointKey } from "../../compliance/load-checkpoint-key.ts";
import type { CheckpointSigner } from "../../compliance/sign-checkpoint.ts";
import { type Config, ConfigError } from "../../config/config.ts";
import { LONG_STATEMENT_TIMEOUT_MS } from "../../database/bounded-client.ts";
import { listen } from "../../database/listener.ts";
import { createPool, type Pool } from "../../database/pool.ts";
import { isSigningKey } from "../../database/repositories/tokens/signing-keys.ts";
import type { Clock } from "../../domain/clock.ts";
import type { RandomBytes } from "../../domain/ids.ts";
import type { Logger } from "../../observability/logger.ts";
import { REVOCATION_CHANNEL } from "../../revocation/follower.ts";
import { createCheckpointRequests } from "../../temporal/checkpoint-requests.ts";

/** One connection reads, one waits for its turn. */
const CONNECTIONS_MAX = 2;
const DEVELOPMENT_DIRECTORY = "checkpoints";

/** The parts of the signer that come from settings only. */
export interface CheckpointMeans {
  readonly key: CheckpointKey;
  readonly trusted: readonly VerifierKey[];
  readonly directory: string;
}

export interface CheckpointParts {
  readonly config: { readonly databaseUrl: string };
  /** Role signet_worker. */
  readonly pool: Pool;
  /** Role signet_operator, which sees the token signing keys. */
  readonly operatorPool: Pool;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

async function verifierKey(text: string): Promise<VerifierKey> {
  try {
    return await parseVerifierKey(text, NODE_CRYPTO);
  } catch (error) {
    throw new ConfigError([`SIGNET_CHECKPOINT_PREVIOUS: ${(error as Error).message}`]);
  }
}

/** Checked at start, not at the first checkpoint. */
async function openDirectory({ checkpointDir, development, home }: Config): Promise<string> {
  if (checkpointDir === undefined && !development) {
    throw new ConfigError(["SIGNET_CHECKPOINT_DIR must be set in production, for the worker"]);
  }
  const directory = checkpointDir ?? join(home, DEVELOPMENT_DIRECTORY);
  try {
    await mkdir(directory, { recursive: true });
    await access(directory, constants.R_OK | constants.W_OK);
  } catch (error) {
    throw new ConfigError([`SIGNET_CHECKPOINT_DIR cannot be used: ${(error as Error).message}`]);
  }
  return directory;
}

/** @throws ConfigError if key or directory is unusable; production has no defaults for them */
export async function loadCheckpointMeans(
  config: Config,
  randomBytes: RandomBytes,
): Promise<CheckpointMeans> {
  const key = await loadCheckpointKey(config, randomBytes);
  const trusted = await Promise.all([key.verifierKey, ...config.checkpointPreviousKeys].map(verifierKey));
  return { key, trusted, directory: await openDirectory(config) };
}

/** @throws Error if the key also signs tokens */
export async function openCheckpointSigner(
  { key, trusted, directory }: CheckpointMeans,
  { config, pool, operatorPool, clock, randomBytes, log }: CheckpointParts,
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
  log.info({ verifier_key: key.verifierKey, directory }, "signing the compliance log");
  const sink = createFileSink(directory, randomBytes);
  return { key, trusted, sink, auditPool, pool, clock, close: async () => await auditPool.end() };
}

/** Listens for revocations and triggers signing of the log. */
export function requestCheckpoints(
  databaseUrl: string,
  temporal: Client,
  log: Logger,
): { stop(): Promise<void> } {
  const requests = createCheckpointRequests(temporal, log);
  const listener = listen({
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
      await listener.stop();
      await requests.stop();
    },
  };
}
