/** Replays open workflows on this build before its deployment, to find those that would fail in production. */
import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { Worker } from "@temporalio/worker";
import { WORKFLOW_TYPES } from "../../../workflows/messages.ts";
import { dataConverterOf } from "../../temporal/codec.ts";
import { loadWorkflowBundle } from "../../temporal/bundle.ts";

export interface ReplayFailure {
  readonly workflowId: string;
  readonly reason: string;
}

async function* openHistories(
  client: Client,
  limit: number,
): AsyncGenerator<{ workflowId: string; history: unknown }> {
  const types = [WORKFLOW_TYPES.deliver, WORKFLOW_TYPES.verifyEndpoint].map((type) => `"${type}"`).join(", ");
  let taken = 0;
  for await (const { workflowId, runId } of client.workflow.list({
    query: `ExecutionStatus = "Running" AND WorkflowType IN (${types})`,
  })) {
    if (taken === limit) {
      return;
    }
    taken += 1;
    yield { workflowId, history: await client.workflow.getHandle(workflowId, runId).fetchHistory() };
  }
}

/** Replays up to `limit` open workflows. Returns their number, and those that this build would break. */
export async function replayOpen(
  client: Client,
  limit: number,
  codec?: PayloadCodec,
): Promise<{ readonly replayed: number; readonly failures: readonly ReplayFailure[] }> {
  const bundle = await loadWorkflowBundle(codec !== undefined);
  const failures: ReplayFailure[] = [];
  let replayed = 0;
  const results = Worker.runReplayHistories(
    { workflowBundle: bundle, ...dataConverterOf(codec) },
    openHistories(client, limit),
  );
  for await (const { workflowId, error } of results) {
    replayed += 1;
    if (error !== undefined) {
      failures.push({ workflowId, reason: error.message });
    }
  }
  return { replayed, failures };
}
