import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { createLogger } from "../../../../src/observability/logger.ts";
import { Dispatcher } from "../../../../src/webhooks/engine/dispatcher.ts";

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
});

function createDispatcher(): Dispatcher {
  return new Dispatcher({
    worker: "key_me",
    pool: undefined as never,
    starter: undefined as never,
    health: undefined as never,
    attempts: undefined as never,
    clock: { now: () => 0, isRight: true } as never,
    randomBytes,
    log: createLogger({ level: "silent" }),
    claimsPerSecond: 60,
    retentionDays: 30,
    batchMax: 64,
    underWayMax: 256,
  });
}

test("a notification picks one of the live workers; the others look later, once for many notifications", async () => {
  const workers = [0, 1, 2].map((rank) => {
    const dispatcher = createDispatcher();
    dispatcher.shareWith({ live: 3, rank });
    return { dispatcher, hint: vi.spyOn(dispatcher, "hint") };
  });
  const hinted = (): number[][] => workers.map(({ hint }) => hint.mock.calls.map(([count]) => count));
  for (const payload of ["5 0", "7 4", "9 3"]) {
    workers.forEach(({ dispatcher }) => dispatcher.notified(payload));
  }
  expect(hinted()).toEqual([[5, 9], [7], []]);
  await vi.advanceTimersByTimeAsync(250);
  expect(hinted()).toEqual([[5, 9, 1], [7, 1], [1]]);
});

test("a lone worker takes every notification, also those of an earlier version, which pick nobody", () => {
  const dispatcher = createDispatcher();
  const hint = vi.spyOn(dispatcher, "hint");
  for (const payload of ["5 731", "2", ""]) {
    dispatcher.notified(payload);
  }
  expect(hint.mock.calls).toEqual([[5], [2], [1]]);
});
