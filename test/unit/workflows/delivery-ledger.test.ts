import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import { DeliveryLedger, type Wave } from "#workflows/delivery-ledger.ts";
import { atTheStart, carrier, DEAD_LETTER_MS, HOUR_MS, ledgerSteps, START_MS } from "./ledger-model.ts";
import { cases } from "#test/support/properties.ts";

test("a member is attempted by one wave at a time, never after it is done, and at most 17 times", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 8 }), ledgerSteps, (members, steps) => {
      fc.modelRun(() => atTheStart(members), steps);
    }),
    cases(100),
  );
});

function take(ledger: DeliveryLedger, nowMs: number): Wave {
  const wave = ledger.takeDueWave(nowMs);
  if (wave === undefined) {
    throw new Error("nothing is due");
  }
  return wave;
}

/** Every member of the wave fails; the next attempt is due after this delay. */
function fail(ledger: DeliveryLedger, wave: Wave, atMs: number, delayMs: (index: number) => number): void {
  ledger.apply(wave, {
    started_at: atMs,
    ended_at: atMs,
    failed: wave.entries.map((_, index) => [index, delayMs(index)]),
  });
}

describe("a carrier whose receiver accepts nothing", () => {
  test("makes 17 attempts, then holds a dead letter until its week ends", () => {
    const ledger = new DeliveryLedger(carrier(1), START_MS);
    let nowMs = START_MS;
    for (let attempt = 1; attempt < ATTEMPT_MAX; attempt += 1) {
      const wave = take(ledger, nowMs);
      expect(wave.input.attempt).toBe(attempt);
      fail(ledger, wave, nowMs, () => 60_000);
      nowMs = ledger.nextDue?.atMs ?? 0;
    }
    ledger.apply(take(ledger, nowMs), { started_at: nowMs, ended_at: nowMs, dead: [0] });
    expect(ledger.takeDueWave(nowMs + 100 * DEAD_LETTER_MS)).toBeUndefined();
    expect(ledger.onlyDeadLetters).toBe(true);
    expect(ledger.takeExpiring(nowMs + DEAD_LETTER_MS - 1)).toEqual([]);
    expect(ledger.takeExpiring(nowMs + DEAD_LETTER_MS)).toEqual([0]);
  });
});

describe("the anchor of the grid", () => {
  test("is the start of the first attempt, even if the run continued before it", () => {
    const fresh = new DeliveryLedger(carrier(1), START_MS);
    expect(fresh.successor().progress?.anchor_ms).toBeNull();
    const ledger = new DeliveryLedger(fresh.successor(), START_MS + 5);
    const wave = take(ledger, START_MS + 5);
    expect(wave.input.anchor_ms).toBeNull();
    fail(ledger, wave, START_MS + 7, () => 10);
    expect(take(ledger, START_MS + 17).input.anchor_ms).toBe(START_MS + 7);
  });

  test("moves by the delay of an attempt during our own outage", () => {
    const ledger = new DeliveryLedger(carrier(1), START_MS);
    fail(ledger, take(ledger, START_MS), START_MS, () => 7_000);
    const lateMs = START_MS + 7_000 + HOUR_MS;
    fail(ledger, take(ledger, lateMs), lateMs, () => 7_000);
    expect(take(ledger, lateMs + 7_000).input.anchor_ms).toBe(START_MS + HOUR_MS);
  });

  test("moves once for one outage, however many waves it delays", () => {
    const ledger = new DeliveryLedger(carrier(3), START_MS);
    // Retry-After has separated the members: three waves, due 5 s apart.
    fail(ledger, take(ledger, START_MS), START_MS, (index) => 10_000 + index * 5_000);
    const backMs = START_MS + HOUR_MS;
    // The earliest are taken first; one lands before the next is taken, as after a restart.
    for (const wave of [take(ledger, START_MS + 10_000), take(ledger, START_MS + 15_000)]) {
      fail(ledger, wave, backMs, () => 30_000);
    }
    const last = take(ledger, backMs);
    expect(last.input.anchor_ms).toBe(START_MS + HOUR_MS - 10_000);
    expect(last.input.due_ms).toBeGreaterThanOrEqual(backMs);
    fail(ledger, last, backMs, () => 30_000);
    expect(take(ledger, backMs + 30_000).input.anchor_ms).toBe(START_MS + HOUR_MS - 10_000);
  });
});

describe("a member without a slot", () => {
  test("returns later without having used an attempt or moved the grid", () => {
    const ledger = new DeliveryLedger(carrier(1), START_MS);
    fail(ledger, take(ledger, START_MS), START_MS, () => 7_000);
    const dueMs = START_MS + 7_000;
    ledger.apply(take(ledger, dueMs), { started_at: dueMs, ended_at: dueMs, postponed: [[0, HOUR_MS]] });
    const wave = take(ledger, dueMs + HOUR_MS);
    expect(wave.input).toMatchObject({ attempt: 2, anchor_ms: START_MS });
    fail(ledger, wave, dueMs + HOUR_MS, () => 1_000);
    expect(take(ledger, dueMs + 2 * HOUR_MS).input).toMatchObject({ attempt: 3, anchor_ms: START_MS });
  });
});

test("a wave is silent if the last attempt of each of its members timed out", () => {
  const ledger = new DeliveryLedger(carrier(2), START_MS);
  const answered = (answers: readonly (readonly [string, ...number[]])[]): void => {
    const wave = take(ledger, START_MS);
    expect(wave.entries).toHaveLength(2);
    const ended = { started_at: START_MS, ended_at: START_MS };
    ledger.apply(wave, {
      ...ended,
      failed: [
        [0, 0],
        [1, 0],
      ],
      answers,
    });
  };
  const isSilent = (): boolean => {
    const wave = take(ledger, START_MS);
    ledger.free(wave.entries);
    return wave.silent;
  };
  expect(isSilent()).toBe(false);
  answered([
    ["timeout", 0],
    ["503", 1],
  ]);
  expect(isSilent()).toBe(false);
  answered([["timeout"]]);
  expect(isSilent()).toBe(true);
});

describe("a mixed list", () => {
  test("asks members to leave when their first attempt fails, and only then", () => {
    const ledger = new DeliveryLedger({ ...carrier(2), mixed: true }, START_MS);
    const wave = take(ledger, START_MS);
    expect(wave.input.part).toBe(true);
    fail(ledger, wave, START_MS, () => 7_000);
    expect(take(ledger, START_MS + 7_000).input.part).toBeUndefined();
    expect(take(new DeliveryLedger(carrier(2), START_MS), START_MS).input.part).toBeUndefined();
  });
});

describe("a signal's list of members", () => {
  test("names open members by id: all of them when absent, and no unknown ones", () => {
    const ledger = new DeliveryLedger(carrier(3), START_MS);
    ledger.close([1], "cancelled");
    expect(ledger.named(undefined)).toEqual([0, 2]);
    expect(ledger.named(["dlv_2", "dlv_1", "dlv_9", ""])).toEqual([2]);
    expect(ledger.named([])).toEqual([]);
  });

  test("starts no second attempt of a member that is being attempted", () => {
    const ledger = new DeliveryLedger(carrier(1), START_MS);
    const wave = take(ledger, START_MS);
    ledger.attemptNow([0], START_MS + 100);
    expect(ledger.takeDueWave(START_MS + 200)).toBeUndefined();
    fail(ledger, wave, START_MS + 300, () => 7_000);
    expect(ledger.nextDue?.atMs).toBe(START_MS + 7_300);
  });
});

describe("the state for the search attribute", () => {
  test("is that of the least finished open member", () => {
    const ledger = new DeliveryLedger(carrier(2), START_MS);
    expect(ledger.state).toBe("QUEUED");
    ledger.apply(take(ledger, START_MS), {
      started_at: START_MS,
      ended_at: START_MS,
      failed: [[0, 7_000]],
      dead: [1],
    });
    expect(ledger.state).toBe("RETRYING");
    ledger.close([0], "cancelled");
    expect(ledger.state).toBe("DEAD_LETTERED");
  });
});

test("a dead letter of a disabled endpoint keeps its attempts and its last answer", () => {
  const ledger = new DeliveryLedger(carrier(1), START_MS);
  ledger.apply(take(ledger, START_MS), {
    started_at: START_MS,
    ended_at: START_MS,
    failed: [[0, 7_000]],
    answers: [["410"]],
  });
  const nowMs = START_MS + 7_000;
  ledger.apply(take(ledger, nowMs), { started_at: nowMs, ended_at: nowMs, dead: [0] });
  expect(ledger.status()).toMatchObject([{ state: "DEAD_LETTERED", attempts: 1, last_answer: "410" }]);
  expect(ledger.letters().letters.map((letter) => letter.at(-1))).toEqual(["410"]);
});

describe("an immediate attempt requested during another", () => {
  test("is that attempt if its request had not ended, and the next one if it had", () => {
    for (const [askedMs, dueMs] of [
      [START_MS + 1_000, START_MS + 2_000 + HOUR_MS],
      [START_MS + 2_001, START_MS + 2_000],
    ] as const) {
      const ledger = new DeliveryLedger(carrier(1), START_MS);
      const wave = take(ledger, START_MS);
      ledger.attemptNow([0], askedMs);
      fail(ledger, wave, START_MS + 2_000, () => HOUR_MS);
      expect(ledger.nextDue?.atMs).toBe(dueMs);
    }
  });
});

describe("an immediate attempt requested after a member's answer, while the wave continues", () => {
  const result = {
    started_at: START_MS,
    ended_at: START_MS + 9_000,
    failed: [
      [0, HOUR_MS, 8_000],
      [1, HOUR_MS],
    ],
  } as const;

  function requestedAt(askedMs: number): { readonly ledger: DeliveryLedger; readonly wave: Wave } {
    const ledger = new DeliveryLedger(carrier(2), START_MS);
    const wave = take(ledger, START_MS);
    ledger.attemptNow([0, 1], askedMs);
    return { ledger, wave };
  }

  test.each([
    ["the next attempt of that member only", START_MS + 1_001, true],
    ["the attempt in progress before the answer", START_MS + 900, false],
  ])("means %s", (_, askedMs, next) => {
    const { ledger, wave } = requestedAt(askedMs);
    expect(ledger.mustAskExactly(wave, result)).toBe(next);
    ledger.apply(wave, result, next);
    expect(ledger.status().map(({ next_attempt_at: at }) => Date.parse(at ?? "") - result.ended_at)).toEqual([
      next ? 0 : HOUR_MS,
      HOUR_MS,
    ]);
  });

  test("counts from the wave's end in runs that have begun so", () => {
    const { ledger, wave } = requestedAt(START_MS + 1_001);
    ledger.apply(wave, result);
    expect(ledger.nextDue?.atMs).toBe(result.ended_at + HOUR_MS);
  });

  test("is no special case once the wave has ended", () => {
    const { ledger, wave } = requestedAt(START_MS + 9_001);
    expect(ledger.mustAskExactly(wave, result)).toBe(false);
    ledger.apply(wave, result);
    expect(ledger.nextDue?.atMs).toBe(result.ended_at);
  });
});

test("an immediate attempt requested during another is made once, though it ends within the tolerance for clocks", () => {
  for (const exactly of [true, false]) {
    const ledger = new DeliveryLedger(carrier(1), START_MS);
    const first = take(ledger, START_MS);
    ledger.attemptNow([0], START_MS + 1_000);
    ledger.apply(first, { started_at: START_MS, ended_at: START_MS + 1_000, failed: [[0, HOUR_MS]] });
    const second = take(ledger, START_MS + 1_000);
    const result = {
      started_at: START_MS + 1_000,
      ended_at: START_MS + 1_040,
      failed: [[0, HOUR_MS]],
    } as const;
    expect(ledger.mustAskExactly(second, result)).toBe(true);
    ledger.apply(second, result, exactly);
    // Runs that have begun so make a third.
    expect(ledger.nextDue?.atMs).toBe(result.ended_at + (exactly ? HOUR_MS : 0));
  }
});

describe("a member whose receiver asked to wait", () => {
  test("is not attempted with those due shortly before, even after the run continued", () => {
    for (const continued of [false, true]) {
      const fresh = new DeliveryLedger(carrier(2), START_MS);
      fresh.waits = true;
      const wave = take(fresh, START_MS);
      const ended = START_MS + 10;
      fresh.apply(wave, {
        started_at: START_MS,
        ended_at: ended,
        failed: [
          [0, 20_000],
          [1, 20_500],
        ],
        not_earlier: [1],
      });
      const ledger = continued ? new DeliveryLedger(fresh.successor(), ended) : fresh;
      ledger.waits = true;
      expect(ledger.askedToWait).toBe(true);
      expect(take(ledger, ended + 20_000).input.members).toEqual([{ id: "dlv_0", epoch: 1 }]);
      expect(ledger.takeDueWave(ended + 20_499)).toBeUndefined();
      expect(take(ledger, ended + 20_500).input.members).toEqual([{ id: "dlv_1", epoch: 2 }]);
    }
  });
});
