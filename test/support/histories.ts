/** Fetches workflow histories and extracts their parts. */
import { temporalCli } from "./temporal-cli.ts";
import type { SharedWorld } from "./world.ts";

/** Temporal's code of an error in a worker's log: a workflow does something else in a replay than before. */
export const NONDETERMINISM = "TMPRL1100";

/** One run's history, as Temporal's tools save it and `Worker.runReplayHistory` takes it. */
export interface RunHistory {
  readonly events: readonly HistoryEvent[];
}

export type HistoryEvent = { readonly eventType: string } & Readonly<Record<string, unknown>>;

interface ContinuedAsNew {
  readonly newExecutionRunId?: string;
}

/** Returns the histories of all runs of a workflow, oldest first. */
export async function fetchRuns(world: SharedWorld, workflowId: string): Promise<RunHistory[]> {
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

/** Returns an event's summary in the UI: of a workflow, an activity or a timer. */
function summaryOf({ eventType, ...event }: HistoryEvent): string[] {
  const { summary } = (event["userMetadata"] ?? {}) as { summary?: { data: string } };
  const text = Buffer.from(summary?.data ?? "", "base64").toString("utf8");
  return text === "" ? [] : [`${eventType.replace("EVENT_TYPE_", "")}: ${String(JSON.parse(text))}`];
}

/** Returns all summaries of a history as `EVENT TYPE: words`. Omits their repetition by cancelled timers. */
export function summariesOf({ events }: RunHistory): string[] {
  return events.filter(({ eventType }) => !eventType.endsWith("_CANCELED")).flatMap(summaryOf);
}

/** Returns the current details of a workflow, as the UI shows them. */
export async function detailsOf(world: SharedWorld, workflowId: string): Promise<string> {
  const handle = world.temporal.workflow.getHandle(workflowId);
  const { currentDetails } = await handle.query<{ currentDetails: string }, []>(
    "__temporal_workflow_metadata",
  );
  return currentDetails;
}

/** Counts the events of a type, e.g. `WORKFLOW_EXECUTION_SIGNALED`. */
export function countEvents(events: readonly HistoryEvent[], type: string): number {
  return events.filter(({ eventType }) => eventType === `EVENT_TYPE_${type}`).length;
}

const SETTLED = /^ACTIVITY_TASK_SCHEDULED: attempt 1 of \d+.*, not answered at once$/;
/** How long a first attempt waits for its response, less what clocks may round. */
const FIRST_WAIT_MS = 990;

interface TaskEnd {
  readonly startedEventId?: string;
}

function timeOf(event: HistoryEvent): number {
  return Date.parse(String(event["eventTime"]));
}

/** Returns the events of all runs as `TIME TYPE`, to read why a count of them is not what it should be. */
export function eventsOf(runs: readonly RunHistory[]): string {
  return runs
    .flatMap(({ events }) => events)
    .map((event) => `${String(event["eventTime"])} ${event.eventType.replace("EVENT_TYPE_", "")}`)
    .join("\n");
}

/**
 * Returns how many first attempts have a further activity: each that was not answered within a second. Checks that the
 * workflow's task did take that long, as it does on a busy machine.
 */
export function lateFirstAttempts(events: readonly HistoryEvent[]): number {
  const late = summariesOf({ events }).filter((summary) => SETTLED.test(summary)).length;
  const ended = events.flatMap((event) =>
    ["Completed", "Failed", "TimedOut"].flatMap((end) => {
      const attributes = event[`workflowTask${end}EventAttributes`] as TaskEnd | undefined;
      const started = events.find(({ eventId }) => eventId === attributes?.startedEventId);
      return started === undefined ? [] : [timeOf(event) - timeOf(started)];
    }),
  );
  const slow = ended.filter((ms) => ms >= FIRST_WAIT_MS);
  return Math.min(late, slow.length);
}

/**
 * Returns the causes of failed workflow tasks. Omits UNHANDLED_COMMAND, which is no fault: a signal arrived while a run
 * completed or continued as new.
 */
export function failedTasks(events: readonly HistoryEvent[]): string[] {
  return events.flatMap((event) => {
    const failed = event["workflowTaskFailedEventAttributes"] as { readonly cause?: string } | undefined;
    return failed?.cause === undefined || failed.cause.endsWith("UNHANDLED_COMMAND") ? [] : [failed.cause];
  });
}

/** Returns all text in a history, with payloads decoded from base64, as an operator can read it in Temporal's UI. */
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
