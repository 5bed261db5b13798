import { beforeEach, expect, test } from "vitest";
import type { UsedVersion } from "#database/repositories/tokens/clients.ts";
import { createLogger } from "#observability/logger.ts";
import { LastUsedRecorder } from "#tokens/oauth/last-used.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

let time: SimulatedTime;

beforeEach(() => {
  time = new SimulatedTime();
});

test("a use is recorded with its own time, however late it is written, and once a minute", async () => {
  let nowMs = 1_000_000;
  const written: UsedVersion[] = [];
  const recorder = new LastUsedRecorder({
    timers: time,
    write: async (used) => void written.push(...used),
    clock: { now: () => nowMs },
    log: createLogger({ level: "silent" }),
  });
  const credential = { credential_id: "crd_a" };
  recorder.note(credential, { version: 1, last_used_at: null });
  nowMs += 86_400_000;
  recorder.note(credential, { version: 2, last_used_at: nowMs - 60_000 });
  recorder.note(credential, { version: 3, last_used_at: nowMs - 59_999 });
  nowMs += 86_400_000;
  await time.advance(1_000);
  expect(written).toEqual([
    { credential_id: "crd_a", version: 1, usedAtMs: 1_000_000 },
    { credential_id: "crd_a", version: 2, usedAtMs: 87_400_000 },
  ]);
  await recorder.close();
});
