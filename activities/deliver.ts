/** Activities of the `deliver` workflow. They take ids and return outcomes by index. */
import { activityInfo, ApplicationFailure } from "@temporalio/activity";
import { ApplicationFailureCategory } from "@temporalio/common";
import type { AttemptRun, AttemptService } from "#webhooks/engine/attempt-service.ts";
import type { AttemptRequest, MemberOutcome } from "#webhooks/engine/member-outcome.ts";
import type { CarrierService } from "#webhooks/engine/carrier-service.ts";
import { WorkerEndsError } from "#webhooks/engine/running-work.ts";
import { heartbeating } from "./heartbeating.ts";
import type {
  AttemptInput,
  AttemptResult,
  DeliverActivities,
  FailedMember,
  IndexedDelay,
  IndexedReservation,
} from "./types.ts";

export interface DeliverServices {
  readonly attempts: AttemptService;
  readonly carriers: CarrierService;
}

export function createDeliverActivities({ attempts, carriers }: DeliverServices): DeliverActivities {
  async function run(input: AttemptInput, firstPass: boolean): Promise<AttemptResult> {
    const request: AttemptRequest = {
      carrier: carrier(),
      members: input.members,
      plan: {
        attempt: input.attempt,
        offsetsMs: input.offsets_ms,
        anchorMs: input.anchor_ms,
        dueMs: input.due_ms,
        deadLetterMs: input.dead_letter_ms,
        leaves: () => input.part === true,
      },
      firstPass,
      ...(input.places === undefined
        ? undefined
        : {
            reservations: new Map(
              input.places.map(([index, atMs, rateLimit]) => [index, { atMs, rateLimit }]),
            ),
          }),
    };
    return exceptions(await attempts.run(request).catch(handOver));
  }

  return {
    attemptFirst: async (input) => await run(input, true),
    settle: async (input) => await heartbeating(async () => await run(input, false)),
    attempt: async (input) => await heartbeating(async () => await run(input, false)),
    replay: async ({ members, ...by }) => await carriers.replay(carrier(), members, by),
    cancel: async ({ members, ...by }) => await carriers.cancel(carrier(), members, by),
    handBack: async ({ members, by }) => await carriers.handBack(carrier(), members, by),
    recordAttemptNow: async ({ members, ...by }) => await carriers.recordAttemptNow(carrier(), members, by),
    expire: async ({ members }) => await carriers.expire(carrier(), members),
  };
}

/** A worker that ends is not a failure. Temporal gives the attempt to another worker and logs nothing. */
function handOver(error: unknown): never {
  if (error instanceof WorkerEndsError) {
    const { message, name: type } = error;
    throw ApplicationFailure.create({ message, type, category: ApplicationFailureCategory.BENIGN });
  }
  throw error;
}

/** Returns the carrier: the workflow that runs the activity. So no caller can name another one. */
function carrier(): string {
  const { workflowExecution } = activityInfo();
  if (workflowExecution === undefined) {
    throw new Error("delivery activities run inside a workflow");
  }
  return workflowExecution.workflowId;
}

/** An answer that came this long before the end is reported with its time. Below, the workflow tolerates the difference. */
const ANSWERED_BEFORE_MS = 20;

function failedMember(
  index: number,
  { dueMs, answeredMs }: Extract<MemberOutcome, { kind: "failed" }>,
  endedAtMs: number,
): FailedMember {
  const beforeMs = endedAtMs - (answeredMs ?? endedAtMs);
  const delayMs = dueMs - endedAtMs;
  return beforeMs > ANSWERED_BEFORE_MS ? [index, delayMs, beforeMs] : [index, delayMs];
}

/** Leaves the indexes out if all members that failed have one answer, as most lists do. */
function shortened(
  answers: ReadonlyMap<string, readonly number[]>,
  failures: number,
): NonNullable<AttemptResult["answers"]> {
  return [...answers].map(([answer, indexes]) =>
    indexes.length === failures ? [answer] : [answer, ...indexes],
  );
}

/** Lists only members that were not delivered, because every listed member adds to the history. */
function exceptions({ startedAtMs, endedAtMs, outcomes }: AttemptRun): AttemptResult {
  const failed: FailedMember[] = [];
  const postponed: IndexedDelay[] = [];
  const reservations: IndexedReservation[] = [];
  const notEarlier: number[] = [];
  const answers = new Map<string, number[]>();
  const lists = { dead: [] as number[], moved: [] as number[], unsettled: [] as number[] };
  outcomes.forEach((outcome, index) => {
    if ("answer" in outcome) {
      answers.set(outcome.answer, [...(answers.get(outcome.answer) ?? []), index]);
    }
    switch (outcome.kind) {
      case "delivered":
        break;
      case "failed":
        failed.push(failedMember(index, outcome, endedAtMs));
        if (outcome.asked) {
          notEarlier.push(index);
        }
        break;
      case "postponed":
        postponed.push([index, outcome.dueMs - endedAtMs]);
        if (outcome.reservation !== undefined) {
          reservations.push([index, outcome.reservation.atMs, outcome.reservation.rateLimit]);
        }
        break;
      case "dead":
      case "moved":
      case "unsettled":
        lists[outcome.kind].push(index);
        break;
    }
  });
  return {
    started_at: startedAtMs,
    ended_at: endedAtMs,
    ...(failed.length > 0 ? { failed } : {}),
    ...(answers.size > 0 ? { answers: shortened(answers, failed.length + lists.dead.length) } : {}),
    ...(notEarlier.length > 0 ? { not_earlier: notEarlier } : {}),
    ...(postponed.length > 0 ? { postponed } : {}),
    ...(reservations.length > 0 ? { places: reservations } : {}),
    ...(lists.dead.length > 0 ? { dead: lists.dead } : {}),
    ...(lists.moved.length > 0 ? { moved: lists.moved } : {}),
    ...(lists.unsettled.length > 0 ? { unsettled: lists.unsettled } : {}),
  };
}
