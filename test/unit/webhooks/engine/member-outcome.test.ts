import { expect, test } from "vitest";
import type { LoadedDelivery } from "#database/repositories/webhooks/attempts.ts";
import {
  aligned,
  anchored,
  type AttemptPlan,
  type MemberOutcome,
  outcomeOf,
} from "#webhooks/engine/member-outcome.ts";
import { drawOffsets, nextDueMs, RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";

const NOW_MS = 1_763_650_000_000;
const offsetsMs = drawOffsets(RETRY_WINDOW_MS, () => 0.5);

test.each([600_000, 86_400_000])(
  "an anchor that a wrong clock put %i ms ahead delays the next attempt by its gap at most",
  (aheadMs) => {
    const plan: AttemptPlan = {
      attempt: 2,
      offsetsMs,
      anchorMs: NOW_MS + aheadMs,
      dueMs: NOW_MS + aheadMs + 20_000,
      deadLetterMs: 1,
      leaves: () => false,
    };
    const { anchorMs } = anchored(plan, NOW_MS);
    const { dueMs } = nextDueMs({
      offsets: offsetsMs,
      anchorMs: anchorMs ?? 0,
      attempt: 2,
      endedAtMs: NOW_MS + 10,
      retryAfterMs: null,
    });
    expect(dueMs).toBeLessThanOrEqual(NOW_MS + (offsetsMs[2] ?? 0) + 10_000);
  },
);

test("members that wait for a slot return together, however many wait before them", () => {
  const later = (dueMs: number): MemberOutcome => ({ kind: "postponed", dueMs, forSlot: true });
  const held: MemberOutcome = { kind: "postponed", dueMs: NOW_MS + 30_000 };
  const outcomes = aligned([held, later(NOW_MS + 10_600), later(NOW_MS + 10_000), later(NOW_MS + 60_000)]);
  expect(outcomes.map((outcome) => "dueMs" in outcome && outcome.dueMs - NOW_MS)).toEqual([
    30_000, 10_000, 10_000, 10_000,
  ]);
});

const clock = { now: () => NOW_MS };
const waiting = { state: "QUEUED", duration_ms: null, error: null, next_attempt_at: null } as const;
const failed = {
  state: "RETRYING",
  duration_ms: 5,
  error: "status",
  status: 503,
  next_attempt_at: new Date(NOW_MS + 9),
} as const;

test.each<readonly [string, Partial<LoadedDelivery> | undefined, unknown]>([
  ["that the carrier has lost is moved", undefined, { kind: "moved" }],
  ["that waits for this attempt is attempted", waiting, undefined],
  ["in mid-cycle is attempted", { ...waiting, state: "RETRYING" }, undefined],
  [
    "that this attempt delivered is delivered",
    { ...waiting, state: "DELIVERED", duration_ms: 5 },
    { kind: "delivered" },
  ],
  [
    "that failed waits for the next attempt",
    failed,
    { kind: "failed", dueMs: NOW_MS + 9, asked: true, answer: "503" },
  ],
  ["that is a dead letter is dead", { ...failed, state: "DEAD_LETTERED" }, { kind: "dead", answer: "503" }],
  [
    "that was cancelled before this attempt is not sent",
    { ...waiting, state: "CANCELLED" },
    { kind: "moved" },
  ],
  ["that was delivered otherwise is not sent", { ...waiting, state: "DELIVERED" }, { kind: "moved" }],
  ["that has expired is not sent", { ...waiting, state: "EXPIRED" }, { kind: "moved" }],
])("a delivery %s", (_what, delivery, outcome) => {
  expect(outcomeOf(delivery as LoadedDelivery | undefined, clock)).toEqual(outcome);
});
