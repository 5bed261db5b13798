/**
 * `deliver` carries 1 to 64 deliveries through one cycle of 17 attempts. Dead letters go on as a
 * `deadLetter`, until each is replayed, cancelled or expired: its open runs *are* the dead-letter queue
 * (docs/decisions/0001).
 */
import {
  allHandlersFinished,
  ApplicationFailure,
  CancellationScope,
  condition,
  makeContinueAsNewFunc,
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
import type { AttemptResult, DeliverActivities } from "#activities/types.ts";
import { DeliveryLedger, type Due, fromLetters, type Wave } from "./delivery-ledger.ts";
import { describe, type Notes, publish, publishAttempt } from "./carrier-visibility.ts";
import {
  attemptSummary,
  changeSummary,
  DELIVER_HANDLERS,
  outcomeWords,
  unknownSignalNote,
} from "./descriptions.ts";
import {
  cancelMembers,
  expire,
  handBack,
  handleAll,
  judge,
  leaveRequests,
  listenForRequests,
  type MemberRequest,
  mustLeave,
  refusedAnswer,
  rethrowCancellation,
} from "./member-requests.ts";
import {
  type Continued,
  DELIVERY_EXPIRED,
  type DeadLetterInput,
  type DeliverInput,
  type DeliverResult,
  statusQuery,
  TASK_QUEUES,
  WORKFLOW_TYPES,
} from "./messages.ts";

// Waits at most a second for responses and writes once. `settle` does what fails at the first try.
const { attemptFirst } = proxyLocalActivities<DeliverActivities>({
  startToCloseTimeout: "5 seconds",
  retry: { maximumAttempts: 1 },
});

// Retried without limit, because an activity here fails only if our own database or worker does.
const lasting = {
  taskQueue: TASK_QUEUES.slow,
  startToCloseTimeout: "60 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
} as const;
const { attempt, settle } = proxyActivities<DeliverActivities>({ ...lasting, heartbeatTimeout: "4 seconds" });

// A request that times out is leased for 15 s, and no other worker sends it sooner. Each heartbeat is a write in Temporal.
const { attempt: attemptSilent } = proxyActivities<DeliverActivities>({
  ...lasting,
  heartbeatTimeout: "16 seconds",
});

const POSTPONE_MS = 30_000;
const WAITS_PATCH = "retry-after-is-not-brought-forward";
const EXACTLY_PATCH = "attempt-now-means-the-next-attempt";
const APART_PATCH = "dead-letters-are-carried-apart";
/** Most carriers never get another description. */
const FIRST_UNDER_WAY = "The first attempts are under way.";
/** Runs of 0.3.0 with a longer history are continued as new before the dead-letter week, to keep little history. */
const LONG_HISTORY = 40;

export async function deliver(input: DeliverInput): Promise<DeliverResult> {
  return await carryUncancelled(input);
}

/** A type of its own, so that every list of workflows shows what is in the dead-letter queue. */
export async function deadLetter(input: DeadLetterInput): Promise<DeliverResult> {
  return await carryUncancelled(fromLetters(input));
}

/** A cancellation of the workflow is a request to cancel its deliveries, so nothing else here is cancelled by it. */
async function carryUncancelled(input: DeliverInput): Promise<DeliverResult> {
  const inbox: MemberRequest[] = [...(input.requests ?? [])];
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
  const work: Work = { begun: 0, ended: 0 };
  let cancellation: unknown;
  asked.catch((error: unknown) => {
    cancellation = error;
  });
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
    await handleAll(inbox, ledger, notes);
    beginWaves(ledger, work, input.slow === true);
    await expireOverdue(ledger);
    const seen = work.ended;
    if (work.begun === work.ended && ledger.strayLetters.length > 0 && patched(APART_PATCH)) {
      begin(work, letGo(ledger));
    }
    if (work.begun === work.ended && (inbox.length === 0 || mustLeave())) {
      await rest(ledger, notes, inbox);
    }
    if (!fresh || work.ended > 0 || notes.last !== undefined) {
      describe(ledger, notes);
    }
    await waitUntil(
      ledger,
      () => inbox.length > 0 || work.ended > seen || ledger.open === 0 || cancellation !== undefined,
    );
  }
  return await end(ledger, inbox);
}

/** Numbers of activities that the loop does not wait for. */
interface Work {
  begun: number;
  ended: number;
}

function begin(work: Work, activity: Promise<void>): void {
  work.begun += 1;
  void activity.finally(() => {
    work.ended += 1;
  });
}

function beginWaves(ledger: DeliveryLedger, work: Work, slow: boolean): void {
  for (let wave = ledger.takeDueWave(Date.now()); wave !== undefined; wave = ledger.takeDueWave(Date.now())) {
    publishAttempt(ledger, wave.input.attempt);
    begin(work, carryOut(wave, ledger, slow));
  }
}

/** Answers what is left, and returns the outcomes. @throws ApplicationFailure if a member expired */
async function end(ledger: DeliveryLedger, inbox: readonly MemberRequest[]): Promise<DeliverResult> {
  for (const { answer, ...request } of inbox) {
    answer?.(refusedAnswer(judge(request, ledger)));
  }
  await condition(allHandlersFinished);
  const { result } = ledger;
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

/** Hands dead letters back, for a `deadLetter` of their endpoint. Never throws. Runs of 0.3.0 kept them. */
async function letGo(ledger: DeliveryLedger): Promise<void> {
  const entries = ledger.takeStrayLetters();
  try {
    await handBack.executeWithOptions({ summary: changeSummary("dead letters leave", entries.length) }, [
      { members: ledger.members(entries) },
    ]);
    ledger.close(entries, "moved");
  } catch {
    log.warn("dead letters could not be handed back");
    ledger.free(entries);
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
      const make = wave.silent || (slow && wave.input.attempt === 1) ? attemptSilent : attempt;
      book(ledger, wave, await make.executeWithOptions({ summary: summaryOf(wave) }, [wave.input]));
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
  requireResult(result);
  // Runs of 0.3.0 and before counted requests from the wave's end, and perhaps twice.
  ledger.apply(wave, result, ledger.mustAskExactly(wave, result) && patched(EXACTLY_PATCH));
  decideWaits(ledger);
}

/** An operator may complete an activity by hand, with anything. The attempt is made again then. @throws TypeError */
function requireResult(result: unknown): void {
  const { started_at: started, ended_at: ended } = (result ?? {}) as Partial<AttemptResult>;
  if (typeof started !== "number" || typeof ended !== "number") {
    throw new TypeError("the activity was completed with something else than a result");
  }
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
async function rest(ledger: DeliveryLedger, notes: Notes, inbox: MemberRequest[]): Promise<void> {
  if (ledger.open === 0) {
    return;
  }
  const { historyLength, continueAsNewSuggested, workflowType } = workflowInfo();
  const { onlyDeadLetters } = ledger;
  const apart = onlyDeadLetters && (workflowType === WORKFLOW_TYPES.deadLetter || patched(APART_PATCH));
  if (onlyDeadLetters) {
    publish(ledger, undefined, apart);
  }
  const becomesApart = apart && workflowType !== WORKFLOW_TYPES.deadLetter;
  const isLong = onlyDeadLetters && !apart && historyLength > LONG_HISTORY;
  if (becomesApart || isLong || continueAsNewSuggested) {
    const requests = leaveRequests(inbox, ledger);
    describe(ledger, notes);
    await condition(allHandlersFinished);
    const left: Continued = {
      ...(notes.last === undefined ? {} : { last_request: notes.last }),
      ...(requests.length === 0 ? {} : { requests }),
    };
    await (apart
      ? makeContinueAsNewFunc<typeof deadLetter>({ workflowType: WORKFLOW_TYPES.deadLetter })({
          ...ledger.letters(),
          ...left,
        })
      : continueAsNew<typeof deliver>({ ...ledger.successor(), ...left }));
  }
}

/** Returns the timer's summary, as what it waits for is found in the history. */
function waitSummary({ attempt, last }: Due): string {
  if (attempt === undefined) {
    return "the dead-letter week";
  }
  const next = `until ${attemptSummary(attempt, 1)}`;
  return last === undefined ? next : `${next}, last ${last}`;
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
    await condition(woken, waitMs, { summary: waitSummary(nextDue) });
  }
}

function summed(result: DeliverResult): number {
  return Object.values(result).reduce((sum: number, count: number) => sum + count, 0);
}
