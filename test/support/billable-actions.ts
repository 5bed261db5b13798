/** Counts what Temporal Cloud bills (https://docs.temporal.io/cloud/actions), from histories. */
import type { HistoryEvent, RunHistory } from "./histories.ts";

export interface BillableActions {
  readonly starts: number;
  readonly activities: number;
  /** Tasks with local activities. */
  readonly localActivities: number;
  readonly timers: number;
  readonly searchAttributes: number;
  readonly signals: number;
}

interface Attributes {
  readonly attempt?: number;
  readonly workflowTaskCompletedEventId?: string;
  readonly markerName?: string;
  readonly searchAttributes?: { readonly indexedFields?: Readonly<Record<string, unknown>> };
  readonly meteringMetadata?: { readonly nonfirstLocalActivityExecutionAttempts?: number };
}

const attributesOf = (event: HistoryEvent, name: string): Attributes => event[`${name}EventAttributes`] ?? {};

/** Counts the actions in all runs of a workflow. Heartbeats of activities are in no history. */
export function billableActions(runs: readonly RunHistory[]): BillableActions {
  const events = runs.flatMap((run, index) => run.events.map((event) => ({ ...event, index })));
  const of = (type: string): typeof events =>
    events.filter(({ eventType }) => eventType === `EVENT_TYPE_${type}`);
  const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);
  // The markers of one workflow task are one action.
  const tasks = new Set(
    of("MARKER_RECORDED")
      .map((event) => ({ ...attributesOf(event, "markerRecorded"), run: event.index }))
      // Those of patches are free.
      .filter(({ markerName }) => markerName === "core_local_activity")
      .map(({ run, workflowTaskCompletedEventId }) => `${run}/${workflowTaskCompletedEventId ?? ""}`),
  );
  return {
    starts: of("WORKFLOW_EXECUTION_STARTED").length,
    activities:
      of("ACTIVITY_TASK_SCHEDULED").length +
      sum(
        of("ACTIVITY_TASK_STARTED").map(
          (event) => (attributesOf(event, "activityTaskStarted").attempt ?? 1) - 1,
        ),
      ),
    localActivities:
      tasks.size +
      sum(
        of("WORKFLOW_TASK_COMPLETED").map(
          (event) =>
            attributesOf(event, "workflowTaskCompleted").meteringMetadata
              ?.nonfirstLocalActivityExecutionAttempts ?? 0,
        ),
      ),
    timers: of("TIMER_STARTED").length,
    searchAttributes: of("UPSERT_WORKFLOW_SEARCH_ATTRIBUTES").filter((event) => {
      const { searchAttributes } = attributesOf(event, "upsertWorkflowSearchAttributes");
      return searchAttributes?.indexedFields?.["TemporalChangeVersion"] === undefined;
    }).length,
    signals: of("WORKFLOW_EXECUTION_SIGNALED").length,
  };
}

/** Adds up the actions. */
export function totalOf(actions: BillableActions): number {
  return Object.values(actions).reduce((total, count) => total + count, 0);
}
