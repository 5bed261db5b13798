/** Pauses workflows as `temporal workflow pause` does; the CLI that Go builds has no such command. */
import { randomUUID } from "node:crypto";
import type { Client } from "@temporalio/client";
import { statusQuery } from "#workflows/messages.ts";

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
  // The server fails to pause a workflow before its first task. An answer comes after that.
  await client.workflow.getHandle(workflowId).query(statusQuery);
  return await pauseAtOnce(client, workflowId);
}
