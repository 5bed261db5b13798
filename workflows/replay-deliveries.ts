/**
 * Replays many deliveries, or missed events of an endpoint, page by page at a limited rate. The job's row stores its
 * progress and state. These workflows control the pace and receive the signals.
 */
import {
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { ReplayActivities, ReplayJobStatus } from "#activities/types.ts";
import { REPLAY_HANDLERS, signalCommands } from "./descriptions.ts";
import {
  cancelReplaySignal,
  pauseSignal,
  type ReplayInput,
  type ReplayJobResult,
  type ReplaySignal,
  replayStatusQuery,
  resumeSignal,
  rowChangedSignal,
} from "./messages.ts";

// Retried without limit, because they fail only if our own database or worker does.
const { replayPage, replayDeliveriesPage, changeReplay } = proxyActivities<ReplayActivities>({
  startToCloseTimeout: "30 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
});

/** Maximum number of items per transaction. */
const PAGE_MAX = 500;
/** A paused job is checked again after this time, because a signal may be lost while Temporal is unavailable. */
const LOOK_AGAIN_MS = 600_000;
const HELD_MS = 30_000;
/** Number of events before a run is continued as new, unless the input sets another. */
const HISTORY_MAX = 1_000;

interface Message {
  /** Undefined if the row has the new state. */
  readonly to?: "RUNNING" | "PAUSED" | "CANCELLED";
  readonly by?: string;
}

/** Carries jobs of dead letters and of missed events. */
export async function replayDeadLetters(input: ReplayInput): Promise<ReplayJobResult> {
  return await carry(input, replayPage);
}

/** Carries jobs of deliveries in any state. A worker that does not know them has no such activity. */
export async function replayDeliveries(input: ReplayInput): Promise<ReplayJobResult> {
  return await carry(input, replayDeliveriesPage);
}

async function carry(input: ReplayInput, page: typeof replayPage): Promise<ReplayJobResult> {
  try {
    return await run(input, page);
  } catch (error) {
    if (isCancellation(error)) {
      await CancellationScope.nonCancellable(
        async () => await changeReplay({ job_id: input.job_id, to: "CANCELLED", by: "Temporal" }),
      );
    }
    throw error;
  }
}

async function run(input: ReplayInput, page: typeof replayPage): Promise<ReplayJobResult> {
  const { job_id, rate_per_second: rate } = input;
  const size = Math.min(PAGE_MAX, rate);
  const everyMs = (size / rate) * 1_000;
  const inbox: Message[] = [];
  let status: ReplayJobStatus = input.status;
  let dueMs = Date.now();
  listen(inbox, () => status);

  for (;;) {
    for (let message = inbox.shift(); message !== undefined; message = inbox.shift()) {
      if (message.to !== undefined) {
        const by = message.by === undefined ? {} : { by: message.by };
        status = await changeReplay.executeWithOptions({ summary: `becomes ${message.to}` }, [
          { job_id, to: message.to, ...by },
        ]);
      }
    }
    if (status.state !== "COMPLETED" && status.state !== "CANCELLED") {
      status = await page.executeWithOptions({ summary: `from ${status.position} of ${status.total}` }, [
        { job_id, after: status.position, size },
      ]);
    }
    describe(input, status);
    if (inbox.length > 0) {
      continue;
    }
    if (status.state === "COMPLETED" || status.state === "CANCELLED") {
      const { state, total, done, failed, skipped } = status;
      return { state, total, done, failed, skipped };
    }
    // The next page makes up for a slow page, but for no more than one.
    dueMs = Math.max(dueMs, Date.now() - everyMs) + everyMs;
    await rest(inbox, pauseOf(status) ?? { ms: dueMs - Date.now(), summary: `at most ${rate} a second` });
    await continueLong(input, status, inbox);
  }
}

function listen(inbox: Message[], status: () => ReplayJobStatus): void {
  const push = (to: Message["to"]) => (signal: unknown) => {
    const by = byOf(signal);
    inbox.push({ ...(to === undefined ? {} : { to }), ...(by === undefined ? {} : { by }) });
  };
  setHandler(pauseSignal, push("PAUSED"), REPLAY_HANDLERS.pause);
  setHandler(resumeSignal, push("RUNNING"), REPLAY_HANDLERS.resume);
  setHandler(cancelReplaySignal, push("CANCELLED"), REPLAY_HANDLERS.cancel);
  setHandler(rowChangedSignal, push(undefined), REPLAY_HANDLERS.rowChanged);
  setHandler(replayStatusQuery, status, REPLAY_HANDLERS.status);
}

/** Reads who signalled. Operators type signal inputs by hand. */
function byOf(signal: unknown): string | undefined {
  const by = typeof signal === "object" && signal !== null ? (signal as ReplaySignal).by : undefined;
  return typeof by === "string" ? by : undefined;
}

interface Pause {
  readonly ms: number;
  readonly summary: string;
}

function pauseOf(status: ReplayJobStatus): Pause | undefined {
  if (status.state === "PAUSED") {
    return { ms: LOOK_AGAIN_MS, summary: "paused" };
  }
  return status.held === true ? { ms: HELD_MS, summary: "the tenant is held" } : undefined;
}

async function rest(inbox: readonly Message[], { ms, summary }: Pause): Promise<void> {
  if (ms > 0) {
    await condition(() => inbox.length > 0, ms, { summary });
  }
}

async function continueLong(
  input: ReplayInput,
  status: ReplayJobStatus,
  inbox: readonly Message[],
): Promise<void> {
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  const long = historyLength > (input.history_max ?? HISTORY_MAX) || continueAsNewSuggested;
  if (long && inbox.length === 0) {
    // Under the same type.
    await continueAsNew<typeof replayDeliveries>({ ...input, status });
  }
}

function describe({ job_id: id, rate_per_second: rate }: ReplayInput, status: ReplayJobStatus): void {
  const { state, total, done, failed, skipped, held, listing } = status;
  const waits = `${listing === true ? " Items are still being listed." : ""}${held === true ? " The tenant is held." : ""}`;
  const signals = state === "PAUSED" ? ["resume", "cancel"] : ["pause", "cancel"];
  const ended = state === "COMPLETED" || state === "CANCELLED";
  setCurrentDetails(
    [
      `**${id}** is ${state}, at most ${rate} a second: ${done} of ${total} replayed, ${skipped} skipped, ${failed} could not be.${waits}`,
      ...(ended ? [] : ["", ...signalCommands(workflowInfo(), signals)]),
    ].join("\n"),
  );
}
