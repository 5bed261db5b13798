/** Whether a workflow is still open. PostgreSQL's rows go on without one that is not. */
import { type Client, type WorkflowExecutionStatusName, WorkflowNotFoundError } from "@temporalio/client";

/** Every other status counts as open, also one that a later server adds: what is open must not run twice. */
const CLOSED: ReadonlySet<WorkflowExecutionStatusName> = new Set([
  "COMPLETED",
  "FAILED",
  "CANCELLED",
  "TERMINATED",
  "TIMED_OUT",
]);

/** Whether a workflow of this status goes on. A paused one does, later. */
export function isOpenStatus(status: WorkflowExecutionStatusName): boolean {
  return !CLOSED.has(status);
}

/**
 * Looks the workflow up by id, which is consistent; visibility is not. An unknown workflow is not open.
 *
 * @throws if Temporal does not answer
 */
export async function isOpen(client: Client, workflowId: string): Promise<boolean> {
  try {
    const { status } = await client.workflow.getHandle(workflowId).describe();
    return isOpenStatus(status.name);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return false;
    }
    throw error;
  }
}
