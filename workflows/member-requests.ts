/**
 * Requests about the members of a `deliver`: signals, and Updates, whose caller gets an answer. People type them by hand,
 * so each is judged before anything happens, and what became of the last one is shown in the current details.
 */
import {
  ApplicationFailure,
  isCancellation,
  log,
  patched,
  proxyActivities,
  setDefaultSignalHandler,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { DeliverActivities } from "#activities/types.ts";
import type { Notes } from "./carrier-visibility.ts";
import type { DeliveryLedger } from "./delivery-ledger.ts";
import { DELIVER_HANDLERS, requestNote, requestSummary } from "./descriptions.ts";
import {
  attemptNowSignal,
  attemptNowUpdate,
  cancelSignal,
  cancelUpdate,
  type MemberAnswer,
  type MemberSignal,
  type QueuedRequest,
  type Refusal,
  releaseSignal,
  replaySignal,
  replayUpdate,
  TASK_QUEUES,
} from "./messages.ts";

// On a separate queue, so that an operator's replay does not wait behind hanging receivers.
const control = proxyActivities<DeliverActivities>({
  taskQueue: TASK_QUEUES.control,
  startToCloseTimeout: "30 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "30 seconds" },
});
const { replay, cancel, recordAttemptNow } = control;
export const { handBack, expire } = control;

const REQUESTS_PATCH = "requests-mean-what-they-name";
const RECORDED_PATCH = "attempt-now-is-recorded";
const FLOOD_PATCH = "requests-do-not-hold-up-attempts";
const CANCELLATION_PATCH = "cancellation-cancels-deliveries";
/** The button of Temporal's UI. */
const REQUEST_CANCELLATION = "Request Cancellation";

export type RequestKind = QueuedRequest["kind"];

export interface MemberRequest extends QueuedRequest {
  /** Takes the answer, if the caller waits for one. */
  readonly answer?: (answer: MemberAnswer) => void;
}

/** What a request means. */
export interface Judged {
  /** Members that it may change. */
  readonly entries: readonly number[];
  readonly refused: readonly Refusal[];
  /** Why it may change none. */
  readonly problem?: string;
}

/** Failure type of an Update that is refused as a whole. */
const INVALID_REQUEST = "INVALID_REQUEST";
/** The service's own requests, which follow from something that is recorded elsewhere. */
const SERVICE: ReadonlySet<string> = new Set(["api", "reconciler"]);
const MEMBERS: ReadonlySet<string> = new Set(["delivery_ids", "by", "reason"]);
/** Characters of a name or a reason. */
const TEXT_MAX = 200;

/** Reads an input. What it does not understand means no member, never all of them. */
function readInput(kind: RequestKind, input: unknown): MemberRequest {
  if (input === undefined || input === null) {
    return { kind, input: {} };
  }
  if (typeof input !== "object" || Array.isArray(input)) {
    return { kind, input: {}, problem: "the input must be a JSON object" };
  }
  const { delivery_ids: ids, by, reason } = input as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(input).filter((name) => !MEMBERS.has(name));
  const texts = {
    ...(typeof by === "string" ? { by: by.slice(0, TEXT_MAX) } : {}),
    ...(typeof reason === "string" ? { reason: reason.slice(0, TEXT_MAX) } : {}),
  };
  if (unknown.length > 0) {
    return { kind, input: texts, problem: `unknown member of the input: ${unknown.join(", ")}` };
  }
  if (ids === undefined) {
    return { kind, input: texts };
  }
  if (!Array.isArray(ids) || !ids.every((id) => typeof id === "string")) {
    return { kind, input: texts, problem: "delivery_ids must be a list of ids" };
  }
  return { kind, input: { ...texts, delivery_ids: ids } };
}

/** Whether the service itself sent the request. */
function isOwn({ kind, input }: MemberRequest): boolean {
  return kind === "release" || SERVICE.has(input.by ?? "");
}

/** Judges a request by what the workflow carries at this moment. */
export function judge({ kind, input, problem }: MemberRequest, ledger: DeliveryLedger): Judged {
  const ids = input.delivery_ids;
  if (problem !== undefined) {
    return { entries: [], refused: [], problem };
  }
  if (ids === undefined && (kind === "release" || ledger.mixed)) {
    const why =
      kind === "release" ? "release names its deliveries" : "the deliveries belong to several endpoints";
    return { entries: [], refused: [], problem: `${why}: give delivery_ids` };
  }
  const refused: Refusal[] = [];
  const entries = ledger.find(ids).filter(([index, id]) => {
    const reason = index === undefined ? "not_carried" : reasonAgainst(kind, ledger, index);
    if (reason !== undefined) {
      refused.push({ id, reason });
    }
    return reason === undefined;
  });
  return { entries: entries.flatMap(([index]) => index ?? []), refused };
}

function reasonAgainst(kind: RequestKind, ledger: DeliveryLedger, index: number): string | undefined {
  const phase = ledger.phaseOf(index);
  if (phase === "DONE") {
    return "ended";
  }
  if (kind === "replay" && phase !== "DEAD_LETTERED") {
    return "not_in_queue";
  }
  return kind === "attemptNow" && phase === "DEAD_LETTERED" ? "in_queue" : undefined;
}

/** @throws ApplicationFailure if the request can have no answer by delivery */
function validate(request: MemberRequest, ledger: DeliveryLedger): void {
  const { problem, refused } = judge(request, ledger);
  const strangers = refused.filter(({ reason }) => reason === "not_carried").map(({ id }) => id);
  const why =
    problem ?? (strangers.length > 0 ? `this workflow does not carry ${strangers.join(", ")}` : undefined);
  if (why !== undefined) {
    throw ApplicationFailure.nonRetryable(why, INVALID_REQUEST);
  }
}

/**
 * Puts every request into the inbox.
 *
 * @param unknown called for a signal with an unknown name
 */
export function listenForRequests(
  inbox: MemberRequest[],
  ledger: DeliveryLedger,
  unknown: (name: string) => void,
): void {
  for (const [kind, signal, update] of [
    ["replay", replaySignal, replayUpdate],
    ["attemptNow", attemptNowSignal, attemptNowUpdate],
    ["cancel", cancelSignal, cancelUpdate],
  ] as const) {
    setHandler(
      signal,
      (input: unknown) => {
        inbox.push(readInput(kind, input));
      },
      DELIVER_HANDLERS[kind],
    );
    setHandler(
      update,
      async (input?: MemberSignal) =>
        await new Promise<MemberAnswer>((answer) => inbox.push({ ...readInput(kind, input), answer })),
      {
        ...DELIVER_HANDLERS[kind],
        validator: (input?: MemberSignal) => validate(readInput(kind, input), ledger),
      },
    );
  }
  setHandler(
    releaseSignal,
    (input: unknown) => {
      inbox.push(readInput("release", input));
    },
    DELIVER_HANDLERS.release,
  );
  setDefaultSignalHandler(unknown);
}

/** Most ids that signals leave to the next run: its input is limited to 2 MB. */
const QUEUED_IDS_MAX = 20_000;

/** Empties the inbox for the run that continues. Updates are answered here, so their caller asks again. */
export function leaveRequests(inbox: MemberRequest[], ledger: DeliveryLedger): readonly QueuedRequest[] {
  let ids = 0;
  const left: QueuedRequest[] = [];
  for (const { answer, ...request } of inbox.splice(0)) {
    ids += 1 + (request.input.delivery_ids?.length ?? 0);
    if (answer !== undefined) {
      const { entries, refused } = judge(request, ledger);
      answer({ changed: [], refused: [...refused, ...failed(ledger, entries)] });
    } else if (ids <= QUEUED_IDS_MAX) {
      left.push(request);
    } else {
      log.warn("a request is dropped, because too many are waiting", { kind: request.kind });
    }
  }
  return left;
}

function failed(ledger: DeliveryLedger, entries: readonly number[]): Refusal[] {
  return ledger.members(entries).map(({ id }) => ({ id, reason: "failed" }));
}

/** Returns the answer of a request that changed nothing. */
export function refusedAnswer({ refused }: Judged): MemberAnswer {
  return { changed: [], refused };
}

/**
 * Does what a cancellation of the workflow means: cancels its deliveries, or hands them back if they belong to several
 * endpoints. Runs of 0.3.0 ended, and left them to the reconciler.
 */
export async function cancelMembers(
  ledger: DeliveryLedger,
  notes: Notes,
  cancellation: unknown,
): Promise<void> {
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

/**
 * Handles what is in the inbox. Stops early if a member is due, or the history is long: however many requests there are,
 * they hold up no attempt, and no run grows without end. Runs of 0.3.0 emptied the inbox first.
 */
export async function handleAll(inbox: MemberRequest[], ledger: DeliveryLedger, notes: Notes): Promise<void> {
  for (let request = inbox.shift(); request !== undefined; request = inbox.shift()) {
    await handle(request, ledger, notes);
    const isDue = (ledger.nextDue?.atMs ?? Infinity) <= Date.now();
    if (inbox.length > 0 && (mustLeave() || (isDue && patched(FLOOD_PATCH)))) {
      return;
    }
  }
}

/** Whether the run should continue as new although requests are waiting. */
export function mustLeave(): boolean {
  return workflowInfo().continueAsNewSuggested && patched(FLOOD_PATCH);
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
    return { changed: [], refused: [...refused, ...failed(ledger, entries)] };
  }
}

function apply(kind: MemberRequest["kind"], entries: readonly number[], ledger: DeliveryLedger): void {
  if (kind === "attemptNow") {
    ledger.attemptNow(entries, Date.now());
  } else {
    ledger.close(entries, ({ replay: "replayed", cancel: "cancelled", release: "moved" } as const)[kind]);
  }
}

export function rethrowCancellation(error: unknown): void {
  if (isCancellation(error)) {
    throw error;
  }
}
