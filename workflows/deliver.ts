/**
 * Carries 1 to 64 deliveries through one cycle of 17 attempts and the dead-letter week (architecture 3). Open runs
 * whose members are dead letters *are* the dead-letter queue (docs/decisions/0001).
 */
import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  log,
  patched,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { AttemptResult, DeliverActivities } from "../activities/types.ts";
import { DeliveryLedger, type Wave } from "./delivery-ledger.ts";
import { describe, type Notes, publish, publishAttempt } from "./carrier-visibility.ts";
import {
  attemptSummary,
  changeSummary,
  DELIVER_HANDLERS,
  outcomeWords,
  requestNote,
  requestSummary,
  unknownSignalNote,
} from "./descriptions.ts";
import {
  isOwn,
  type Judged,
  judge,
  listenForRequests,
  type MemberRequest,
  refusedAnswer,
} from "./member-requests.ts";
import {
  DELIVERY_EXPIRED,
  type DeliverInput,
  type DeliverResult,
  type MemberAnswer,
  statusQuery,
  TASK_QUEUES,
} from "./messages.ts";

// Waits at most a second for responses and writes once. `settle` does what fails at the first try.
const { attemptFirst } = proxyLocalActivities<DeliverActivities>({
  startToCloseTimeout: "5 seconds",
  retry: { maximumAttempts: 1 },
});

// Retried without limit, because an activity here fails only if our own database or worker does.
const { attempt, settle } = proxyActivities<DeliverActivities>({
  taskQueue: TASK_QUEUES.slow,
  startToCloseTimeout: "60 seconds",
  heartbeatTimeout: "4 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
});

// On a separate queue, so that an operator's replay does not wait behind hanging receivers.
const { replay, cancel, handBack, expire, recordAttemptNow } = proxyActivities<DeliverActivities>({
  taskQueue: TASK_QUEUES.control,
  startToCloseTimeout: "30 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
});

const POSTPONE_MS = 30_000;
const WAITS_PATCH = "retry-after-is-not-brought-forward";
const REQUESTS_PATCH = "requests-mean-what-they-name";
const RECORDED_PATCH = "attempt-now-is-recorded";
const EXACTLY_PATCH = "attempt-now-means-the-next-attempt";
const CANCELLATION_PATCH = "cancellation-cancels-deliveries";
/** The button of Temporal's UI. */
const REQUEST_CANCELLATION = "Request Cancellation";
/** Most carriers never get another description. */
const FIRST_UNDER_WAY = "The first attempts are under way.";
/** A run with a longer history is continued as new before the dead-letter week, to keep little history. */
const LONG_HISTORY = 40;

/** A cancellation of the workflow is a request to cancel its deliveries, so nothing else here is cancelled by it. */
export async function deliver(input: DeliverInput): Promise<DeliverResult> {
  const inbox: MemberRequest[] = [];
  const asked = CancellationScope.current().cancelRequested;
  return await CancellationScope.nonCancellable(async () => await carry(input, inbox, asked));
}

async function carry(
  input: DeliverInput,
  inbox: MemberRequest[],
  asked: Promise<never>,
): Promise<DeliverResult> {
  const ledger = new DeliveryLedger(input, Date.now());
  const notes: Notes = { last: input.last_request };
  let cancellation: unknown;
  asked.catch((error: unknown) => {
    cancellation = error;
  });
  let waves = 0;
  let landed = 0;
  listenForRequests(inbox, ledger, (name) => {
    notes.last = unknownSignalNote(name);
    describe(ledger, notes);
  });
  setHandler(statusQuery, () => ({ open: ledger.open, members: ledger.status() }), DELIVER_HANDLERS.status);
  decideWaits(ledger);
  const fresh = input.progress === undefined;
  if (fresh) {
    setCurrentDetails(FIRST_UNDER_WAY);
  }

  while (ledger.open > 0) {
    if (cancellation !== undefined) {
      await cancelMembers(ledger, notes, cancellation);
      cancellation = undefined;
    }
    for (let request = inbox.shift(); request !== undefined; request = inbox.shift()) {
      await handle(request, ledger, notes);
    }
    for (
      let wave = ledger.takeDueWave(Date.now());
      wave !== undefined;
      wave = ledger.takeDueWave(Date.now())
    ) {
      waves += 1;
      publishAttempt(ledger, wave.input.attempt);
      void carryOut(wave, ledger, input.slow === true).finally(() => {
        landed += 1;
      });
    }
    await expireOverdue(ledger);
    const seen = landed;
    if (waves === landed && inbox.length === 0) {
      await rest(ledger, notes);
    }
    if (!fresh || landed > 0 || notes.last !== undefined) {
      describe(ledger, notes);
    }
    await waitUntil(
      ledger,
      () => inbox.length > 0 || landed > seen || ledger.open === 0 || cancellation !== undefined,
    );
  }
  for (const { answer, ...request } of inbox) {
    answer?.(refusedAnswer(judge(request, ledger)));
  }
  await condition(allHandlersFinished);
  const result = ledger.result;
  setCurrentDetails(`Ended: ${outcomeWords(result)}.`);
  if (result.expired > 0) {
    throw ApplicationFailure.create({
      type: DELIVERY_EXPIRED,
      message: `${result.expired} of ${summed(result)} expired in the dead-letter queue`,
      nonRetryable: true,
      details: [result],
    });
  }
  return result;
}

/**
 * Does what a cancellation of the workflow means: cancels its deliveries, or hands them back if they belong to several
 * endpoints. Runs of 0.3.0 ended, and left them to the reconciler.
 */
async function cancelMembers(ledger: DeliveryLedger, notes: Notes, cancellation: unknown): Promise<void> {
  if (!patched(CANCELLATION_PATCH)) {
    throw cancellation;
  }
  const entries = ledger.named(undefined);
  if (!ledger.mixed) {
    await handle({ kind: "cancel", input: { by: REQUEST_CANCELLATION } }, ledger, notes);
    return;
  }
  const members = ledger.members(entries);
  const summary = requestSummary("handBack", entries.length);
  await handBack.executeWithOptions({ summary }, [{ members, by: REQUEST_CANCELLATION }]);
  ledger.close(entries, "moved");
}

/** Carries out a request, answers it, and notes what became of it. Never throws, except for a cancellation. */
async function handle(request: MemberRequest, ledger: DeliveryLedger, notes: Notes): Promise<void> {
  const judged = judgeAsRecorded(request, ledger);
  const answer =
    judged.entries.length === 0 ? refusedAnswer(judged) : await carryOutRequest(request, judged, ledger);
  request.answer?.(answer);
  if (!isOwn(request)) {
    notes.last = requestNote(request, answer, judged.problem);
  }
}

/** Runs of 0.3.0 took an input without ids for all members of any list, and read no reason. */
function judgeAsRecorded(request: MemberRequest, ledger: DeliveryLedger): Judged {
  const { kind, input } = request;
  const asBefore = input.reason === undefined && (input.delivery_ids !== undefined || !ledger.mixed);
  if (asBefore || request.problem !== undefined || patched(REQUESTS_PATCH)) {
    return judge(request, ledger);
  }
  const entries = input.reason === undefined && kind !== "release" ? ledger.named(undefined) : [];
  return {
    entries:
      kind === "replay" ? entries.filter((index) => ledger.phaseOf(index) === "DEAD_LETTERED") : entries,
    refused: [],
  };
}

async function carryOutRequest(
  request: MemberRequest,
  { entries, refused }: Judged,
  ledger: DeliveryLedger,
): Promise<MemberAnswer> {
  const { kind, input } = request;
  const members = ledger.members(entries);
  const ids = members.map(({ id }) => id);
  if (kind === "release" || (kind === "attemptNow" && (isOwn(request) || !patched(RECORDED_PATCH)))) {
    apply(kind, entries, ledger);
    return { changed: ids, refused };
  }
  const { delivery_ids: _, ...requested } = input;
  const activity = { replay, cancel, attemptNow: recordAttemptNow }[kind];
  const id = (index: number): string => ids[index] ?? "";
  try {
    const { changed, refused: kept = [] } = await activity.executeWithOptions(
      { summary: requestSummary(kind, entries.length) },
      [{ members, ...requested }],
    );
    apply(
      kind,
      changed.flatMap((index) => entries[index] ?? []),
      ledger,
    );
    return {
      changed: changed.map(id),
      refused: [...refused, ...kept.map(([index, reason]) => ({ id: id(index), reason }))],
    };
  } catch (error) {
    rethrowCancellation(error);
    log.warn("a request could not be carried out", { kind });
    return { changed: [], refused: [...refused, ...ids.map((each) => ({ id: each, reason: "failed" }))] };
  }
}

function apply(kind: MemberRequest["kind"], entries: readonly number[], ledger: DeliveryLedger): void {
  if (kind === "attemptNow") {
    ledger.attemptNow(entries, Date.now());
  } else {
    ledger.close(entries, ({ replay: "replayed", cancel: "cancelled", release: "moved" } as const)[kind]);
  }
}

/** Carries out a wave and records its result. Never throws: a failed attempt is postponed. */
async function carryOut(wave: Wave, ledger: DeliveryLedger, slow: boolean): Promise<void> {
  let current = wave;
  try {
    // Rate-limited members must not block a local activity.
    if (wave.input.attempt === 1 && !slow && wave.input.places === undefined) {
      const first = await attemptFirst(wave.input).catch((error: unknown) => {
        rethrowCancellation(error);
        return undefined;
      });
      if (first === undefined) {
        book(ledger, wave, await settleWave(wave));
        return;
      }
      const rest = ledger.unsettled(wave, first);
      book(ledger, wave, first);
      if (rest !== undefined) {
        current = rest;
        book(ledger, rest, await settleWave(rest));
      }
    } else {
      book(ledger, wave, await attempt.executeWithOptions({ summary: summaryOf(wave) }, [wave.input]));
    }
  } catch (error) {
    if (!isCancellation(error)) {
      log.warn("attempt could not be carried out", { attempt: wave.input.attempt });
    }
    ledger.postpone(current.entries, Date.now() + POSTPONE_MS);
  }
}

/** Records the result of a wave. */
function book(ledger: DeliveryLedger, wave: Wave, result: AttemptResult): void {
  // Runs of 0.3.0 and before counted requests from the wave's end, and perhaps twice.
  ledger.apply(wave, result, ledger.mustAskExactly(wave, result) && patched(EXACTLY_PATCH));
  decideWaits(ledger);
}

/**
 * Runs of 0.2.0 brought attempts forward although their receiver had requested a wait. Each run decides once, at its
 * first such member, whether it does so.
 */
function decideWaits(ledger: DeliveryLedger): void {
  if (ledger.waits === undefined && ledger.askedToWait) {
    ledger.waits = patched(WAITS_PATCH);
  }
}

async function settleWave(wave: Wave): Promise<AttemptResult> {
  return await settle.executeWithOptions({ summary: `${summaryOf(wave)}, not answered at once` }, [
    wave.input,
  ]);
}

function summaryOf({ entries, input }: Wave): string {
  return attemptSummary(input.attempt, entries.length);
}

async function expireOverdue(ledger: DeliveryLedger): Promise<void> {
  const entries = ledger.takeExpiring(Date.now());
  if (entries.length === 0) {
    return;
  }
  try {
    const { expired, later = [] } = await expire.executeWithOptions(
      { summary: changeSummary("the dead-letter week is over", entries.length) },
      [{ members: ledger.members(entries) }],
    );
    const gone = new Set(entries);
    for (const [index, delayMs] of later) {
      const entry = entries[index];
      if (entry !== undefined) {
        gone.delete(entry);
        ledger.postpone([entry], Date.now() + delayMs);
      }
    }
    ledger.close(
      expired.flatMap((index) => entries[index] ?? []),
      "expired",
    );
    ledger.close([...gone], "moved");
  } catch (error) {
    rethrowCancellation(error);
    ledger.postpone(entries, Date.now() + POSTPONE_MS);
  }
}

/**
 * Runs while nothing is in progress. Continues a long run as new, once for the dead-letter week or if the server
 * suggests it.
 */
async function rest(ledger: DeliveryLedger, notes: Notes): Promise<void> {
  if (ledger.open === 0) {
    return;
  }
  const { historyLength, continueAsNewSuggested } = workflowInfo();
  if (ledger.onlyDeadLetters) {
    publish(ledger, undefined);
  }
  if ((ledger.onlyDeadLetters && historyLength > LONG_HISTORY) || continueAsNewSuggested) {
    describe(ledger, notes);
    await condition(allHandlersFinished);
    const { last } = notes;
    await continueAsNew<typeof deliver>({
      ...ledger.successor(),
      ...(last === undefined ? {} : { last_request: last }),
    });
  }
}

async function waitUntil({ nextDue }: DeliveryLedger, woken: () => boolean): Promise<void> {
  if (woken()) {
    return;
  }
  if (nextDue === undefined) {
    await condition(woken);
    return;
  }
  const waitMs = nextDue.atMs - Date.now();
  if (waitMs > 0) {
    const { attempt: next } = nextDue;
    const summary = next === undefined ? "the dead-letter week" : `until ${attemptSummary(next, 1)}`;
    await condition(woken, waitMs, { summary });
  }
}

function rethrowCancellation(error: unknown): void {
  if (isCancellation(error)) {
    throw error;
  }
}

function summed(result: DeliverResult): number {
  return Object.values(result).reduce((sum: number, count: number) => sum + count, 0);
}
