/** Replay jobs in a worker process. */
import { randomBytes } from "node:crypto";
import type { Client } from "@temporalio/client";
import type { Pool } from "#database/pool.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import type { Clock } from "#domain/clock.ts";
import type { Logger } from "#observability/logger.ts";
import { createReplayRunner, type ReplayRunner } from "#webhooks/replay/replay-runner.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export interface WorkerReplays {
  readonly runner: ReplayRunner;
  /** Resolves when no signal to a former carrier is in flight. */
  drain(): Promise<void>;
}

export interface WorkerReplaysOptions {
  /** Role signet_worker. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly temporal: Client;
  readonly log: Logger;
  /** Wakes the dispatcher after a delivery was queued. */
  readonly onQueued: () => void;
}

export function createWorkerReplays({
  pool,
  clock,
  temporal,
  log,
  onQueued,
}: WorkerReplaysOptions): WorkerReplays {
  const releaser = new Releaser(temporal, machineTimers, log);
  return {
    runner: createReplayRunner({ pool, releaser, clock, randomBytes, log, onQueued }),
    drain: async () => await releaser.drain(),
  };
}
