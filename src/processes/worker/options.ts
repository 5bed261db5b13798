import type { WorkflowBundleOption } from "@temporalio/worker";
import type { HandOverTo } from "#webhooks/ingest/hand-over.ts";
import type { Config } from "#config/config.ts";
import type { Logger } from "#observability/logger.ts";

/** What a worker process is started with. */
export interface WorkerProcessOptions {
  readonly config: Config & { readonly databaseUrl: string; readonly temporalAddress: string };
  readonly log: Logger;
  /** Aborts the wait for Temporal, and the start. */
  readonly stopping?: AbortSignal;
  /** The workflow code (default: the build's, or the sources', bundled now). */
  readonly workflowBundle?: WorkflowBundleOption;
  /** Where the api of the same process offers new deliveries. */
  readonly handOver?: HandOverTo;
}
