/** Requests a checkpoint soon after each revocation. The revocation does not wait for it. */
import { type Client, WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import { TASK_QUEUES, WORKFLOW_TYPES } from "#workflows/messages.ts";
import { listen } from "#database/listener.ts";
import type { Logger } from "#observability/logger.ts";
import { REVOCATION_CHANNEL } from "#revocation/follower.ts";
import { Sleeper } from "#runtime/sleeper.ts";
import type { Timers } from "#domain/clock.ts";

/** A burst of revocations gets one checkpoint at its start, and one for the rest. */
const PAUSE_MS = 500;

/**
 * The requests of a worker. Every worker that learns of a revocation makes one. The revocation's number in
 * the workflow id admits only one of them. The schedule covers missed revocations.
 */
export class CheckpointRequests {
  readonly #client: Client;
  readonly #sleeper: Sleeper;
  readonly #log: Logger;
  #wanted: string | undefined;
  #running: Promise<void> | undefined;

  constructor(client: Client, timers: Timers, log: Logger) {
    this.#client = client;
    this.#sleeper = new Sleeper(timers);
    this.#log = log;
  }

  /** @param sequence number of the new revocation; undefined if some may have been missed */
  request(sequence: number | undefined): void {
    if (sequence !== undefined && Number.isSafeInteger(sequence)) {
      this.#wanted = `${WORKFLOW_TYPES.signCheckpoint}/${sequence}`;
      this.#running ??= this.#run();
    }
  }

  async stop(): Promise<void> {
    this.#sleeper.stop();
    await this.#running;
  }

  async #run(): Promise<void> {
    while (this.#wanted !== undefined && !this.#sleeper.stopped) {
      const workflowId = this.#wanted;
      this.#wanted = undefined;
      await this.#start(workflowId);
      await this.#sleeper.sleep(PAUSE_MS);
    }
    this.#running = undefined;
  }

  async #start(workflowId: string): Promise<void> {
    try {
      await this.#client.workflow.start(WORKFLOW_TYPES.signCheckpoint, {
        workflowId,
        taskQueue: TASK_QUEUES.control,
        workflowIdReusePolicy: "REJECT_DUPLICATE",
        workflowExecutionTimeout: "3 hours",
        staticSummary: "checkpoint after a revocation",
        args: [],
      });
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
        this.#log.warn({ err: error }, "checkpoint could not be requested; the schedule will create one");
      }
    }
  }
}

/** Listens for revocations, and requests a checkpoint after each. */
export function requestCheckpoints(
  databaseUrl: string,
  client: Client,
  timers: Timers,
  log: Logger,
): { stop(): Promise<void> } {
  const requests = new CheckpointRequests(client, timers, log);
  const stopListening = listen({
    timers,
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
