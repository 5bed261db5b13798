/** Workflow histories for tests to look into. */
import { temporalCli } from "./temporal-cli.ts";
import type { World } from "./world.ts";

/** One run's history, as Temporal's own tools save it and `Worker.runReplayHistory` takes it. */
export interface RunHistory {
  readonly events: readonly HistoryEvent[];
}

export type HistoryEvent = { readonly eventType: string } & Readonly<Record<string, unknown>>;

interface ContinuedAsNew {
  readonly newExecutionRunId?: string;
}

/** The histories of all runs of a workflow, the first run first. */
export async function fetchRuns(world: World, workflowId: string): Promise<RunHistory[]> {
  const { raw } = await world.temporal.workflow.getHandle(workflowId).describe();
  const runs: RunHistory[] = [];
  let runId = raw.workflowExecutionInfo?.firstRunId ?? "";
  while (runId !== "") {
    const which = ["--workflow-id", workflowId, "--run-id", runId];
    const shown = await temporalCli(world, "workflow", "show", ...which, "--output", "json");
    const run = JSON.parse(shown) as RunHistory;
    runs.push(run);
    const last = run.events.at(-1)?.["workflowExecutionContinuedAsNewEventAttributes"];
    runId = (last as ContinuedAsNew | undefined)?.newExecutionRunId ?? "";
  }
  return runs;
}

/** What an event says of itself in the UI: the summary of a workflow, an activity or a timer. */
function summaryOf({ eventType, ...event }: HistoryEvent): string[] {
  const { summary } = (event["userMetadata"] ?? {}) as { summary?: { data: string } };
  const text = Buffer.from(summary?.data ?? "", "base64").toString("utf8");
  return text === "" ? [] : [`${eventType.replace("EVENT_TYPE_", "")}: ${String(JSON.parse(text))}`];
}

/** All summaries of a history, `EVENT TYPE: words`. A timer that is cancelled says it again; that is left out. */
export function summariesOf({ events }: RunHistory): string[] {
  return events.filter(({ eventType }) => !eventType.endsWith("_CANCELED")).flatMap(summaryOf);
}

/** The current details of a workflow, as the UI asks for them. */
export async function detailsOf(world: World, workflowId: string): Promise<string> {
  const handle = world.temporal.workflow.getHandle(workflowId);
  const { currentDetails } = await handle.query<{ currentDetails: string }, []>(
    "__temporal_workflow_metadata",
  );
  return currentDetails;
}

/** How many events of a type there are, e.g. `WORKFLOW_EXECUTION_SIGNALED`. */
export function countEvents(events: readonly HistoryEvent[], type: string): number {
  return events.filter(({ eventType }) => eventType === `EVENT_TYPE_${type}`).length;
}

/**
 * Causes of workflow tasks that failed. A signal that comes while a run ends or continues as new makes the server ask
 * again (UNHANDLED_COMMAND): that is no fault and is left out.
 */
export function failedTasks(events: readonly HistoryEvent[]): string[] {
  return events.flatMap((event) => {
    const failed = event["workflowTaskFailedEventAttributes"] as { readonly cause?: string } | undefined;
    return failed?.cause === undefined || failed.cause.endsWith("UNHANDLED_COMMAND") ? [] : [failed.cause];
  });
}

/** Every text in a history, with the payloads' base64 decoded: what an operator can read in Temporal's UI. */
export function textOf(value: unknown): string {
  if (Array.isArray(value)) {
    return value.map(textOf).join("\n");
  }
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([key, member]) => `${key}: ${textOf(member)}`)
      .join("\n");
  }
  const text = String(value);
  return typeof value === "string" && /^[A-Za-z0-9+/]+={0,2}$/.test(text)
    ? `${text}\n${Buffer.from(text, "base64").toString("utf8")}`
    : text;
}
