/** Whether a workflow is still open. PostgreSQL's rows go on without one that is not. */
import {
  type Client,
  type WorkflowExecutionDescription,
  type WorkflowExecutionStatusName,
  WorkflowNotFoundError,
} from "@temporalio/client";
import { optionalTsToDate } from "@temporalio/common/lib/time.js";

/** Query of what is open. A paused workflow is, and servers before 1.30 refuse the name of that status. */
export const OPEN = "CloseTime IS NULL";

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

/** A pause of a workflow by an operator (servers from 1.30 on). */
export interface Pause {
  readonly namespace: string;
  /** Undefined if the server does not tell. */
  readonly since: Date | undefined;
  /** What the operator gave; empty if nothing. */
  readonly reason: string;
}

/** Returns the pause of a described workflow; undefined if it is not paused. */
function pauseOf({ status, raw }: WorkflowExecutionDescription, namespace: string): Pause | undefined {
  if (status.name !== "PAUSED") {
    return undefined;
  }
  const { pausedTime, reason } = raw.workflowExtendedInfo?.pauseInfo ?? {};
  return { namespace, since: optionalTsToDate(pausedTime), reason: reason ?? "" };
}

async function describe(
  client: Client,
  workflowId: string,
): Promise<WorkflowExecutionDescription | undefined> {
  try {
    return await client.workflow.getHandle(workflowId).describe();
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return undefined;
    }
    throw error;
  }
}

/** The end of a history, in events. A task that fails unstarted is followed by few. */
const LAST_EVENTS = 100;

/**
 * Resets a run that no worker can replay since a pause. Temporal's server 1.32 fails a task that is scheduled when the
 * pause begins. Its SDK 1.24 knows no failure of a task that has not started. The new run goes on after the last
 * completed task.
 */
async function resetUnreadable(
  client: Client,
  { workflowId, runId, status, raw }: WorkflowExecutionDescription,
): Promise<void> {
  if (status.name !== "RUNNING" || (raw.pendingWorkflowTask?.attempt ?? 1) === 1) {
    return;
  }
  const { namespace } = client.options;
  const { history } = await client.workflowService.getWorkflowExecutionHistoryReverse({
    namespace,
    execution: { workflowId, runId },
    maximumPageSize: LAST_EVENTS,
  });
  const events = history?.events ?? [];
  const at = events.findIndex((event) => event.workflowTaskCompletedEventAttributes);
  const failures = events.slice(0, at + 1).flatMap((event) => event.workflowTaskFailedEventAttributes ?? []);
  if (failures.some(({ startedEventId }) => Number(startedEventId ?? 0) === 0)) {
    await client.workflowService.resetWorkflowExecution({
      namespace,
      workflowExecution: { workflowId, runId },
      workflowTaskFinishEventId: events[at]?.eventId ?? null,
      reason: "Its pause left a history that no worker can replay.",
      // Another worker may find it at the same time.
      requestId: `unreadable ${runId}`,
    });
  }
}

/** What Temporal says about a workflow. */
interface LookUp {
  readonly isOpen: boolean;
  readonly pause?: Pause | undefined;
  /** Undefined if it is unknown. */
  readonly described?: WorkflowExecutionDescription;
}

/**
 * Looks the workflow up by id, which is consistent; visibility is not. An unknown workflow is not open. It was never
 * started, or Temporal's data was lost. An open one that no worker can replay is reset.
 *
 * @throws if Temporal does not answer
 */
export async function lookUp(client: Client, workflowId: string): Promise<LookUp> {
  const described = await describe(client, workflowId);
  if (described === undefined) {
    return { isOpen: false };
  }
  await resetUnreadable(client, described);
  return {
    isOpen: isOpenStatus(described.status.name),
    pause: pauseOf(described, client.options.namespace),
    described,
  };
}

/** Returns the pause of a workflow; undefined if it is not paused. Changes nothing. @throws if Temporal does not answer */
export async function findPause(client: Client, workflowId: string): Promise<Pause | undefined> {
  const described = await describe(client, workflowId);
  return described && pauseOf(described, client.options.namespace);
}

/** Whether the workflow is open. @throws if Temporal does not answer */
export async function isOpen(client: Client, workflowId: string): Promise<boolean> {
  return (await lookUp(client, workflowId)).isOpen;
}

/**
 * Signals a workflow if it is open. One that a sweep repeats must not reach a paused workflow: that would take each
 * repetition into its history, and get all of them at once when it is unpaused.
 *
 * @param signal `repeated`: whether the signal is sent again until it has an effect
 * @returns whether the workflow is open
 * @throws if Temporal does not answer
 */
export async function signalOpen(
  client: Client,
  workflowId: string,
  signal: { readonly name: string; readonly repeated: boolean },
): Promise<boolean> {
  if (signal.repeated) {
    const { isOpen: open, pause } = await lookUp(client, workflowId);
    if (!open || pause !== undefined) {
      return open;
    }
  }
  try {
    await client.workflow.getHandle(workflowId).signal(signal.name);
    return true;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) {
      return false;
    }
    throw error;
  }
}

/** Few, so that they do not hold up what is urgent. */
const LOOKUPS_AT_ONCE = 8;

/** Looks something up in Temporal for each item, a few at a time. Resolves to the results in the order of the items. */
export async function lookUpEach<T, R>(
  items: readonly T[],
  look: (item: T) => Promise<R>,
): Promise<readonly R[]> {
  const results: R[] = [];
  for (let from = 0; from < items.length; from += LOOKUPS_AT_ONCE) {
    results.push(...(await Promise.all(items.slice(from, from + LOOKUPS_AT_ONCE).map(look))));
  }
  return results;
}
