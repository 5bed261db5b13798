import { expect, test } from "vitest";
import { anchored, type AttemptPlan } from "../../../../src/webhooks/engine/member-outcome.ts";
import { drawOffsets, nextDueMs, RETRY_WINDOW_MS } from "../../../../src/domain/retry-schedule.ts";

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
      part: false,
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
