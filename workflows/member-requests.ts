/**
 * Requests about the members of a `deliver`: signals, and Updates, whose caller gets an answer. People type them by hand,
 * so each is judged before anything happens, and what became of the last one is shown in the current details.
 */
import { ApplicationFailure, setDefaultSignalHandler, setHandler } from "@temporalio/workflow";
import type { DeliveryLedger } from "./delivery-ledger.ts";
import { DELIVER_HANDLERS } from "./descriptions.ts";
import {
  attemptNowSignal,
  attemptNowUpdate,
  cancelSignal,
  cancelUpdate,
  type MemberAnswer,
  type MemberSignal,
  type Refusal,
  releaseSignal,
  replaySignal,
  replayUpdate,
} from "./messages.ts";

export type RequestKind = "replay" | "attemptNow" | "cancel" | "release";

export interface MemberRequest {
  readonly kind: RequestKind;
  readonly input: MemberSignal;
  /** Why the input means nothing. */
  readonly problem?: string;
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
export function isOwn({ kind, input }: MemberRequest): boolean {
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

/** Returns the answer of a request that changed nothing. */
export function refusedAnswer({ refused }: Judged): MemberAnswer {
  return { changed: [], refused };
}
