/** Pauses workflows as `temporal workflow pause` does; the CLI that Go builds has no such command. */
import { randomUUID } from "node:crypto";
import type { Client } from "@temporalio/client";
import { statusQuery } from "#workflows/messages.ts";
import { eventually } from "./eventually.ts";

/** Pauses the workflow, also while its task waits for a worker. @returns what unpauses it */
export async function pauseAtOnce(client: Client, workflowId: string): Promise<() => Promise<void>> {
  const { namespace } = client.options;
  const request = { namespace, workflowId, identity: "ada", reason: "receiver moves" };
  await client.workflowService.pauseWorkflowExecution({ ...request, requestId: randomUUID() });
  return async () => {
    await client.workflowService.unpauseWorkflowExecution({ ...request, requestId: randomUUID() });
  };
}

/** Pauses the workflow. @returns what unpauses it */
export async function pauseWorkflow(client: Client, workflowId: string): Promise<() => Promise<void>> {
  // First attempts leave before their workflow starts. The server fails to pause one before its first task, and an answer
  // comes after that.
  await eventually(
    async () => await client.workflow.getHandle(workflowId).query(statusQuery),
    "the workflow's first task",
  );
  return await pauseAtOnce(client, workflowId);
}
