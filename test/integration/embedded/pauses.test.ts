/** The thread that watches for pauses of the machine, with a real one: another process stops this one. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { monotonicMs } from "#test/support/monotonic.ts";
import { withoutPause } from "#test/support/pauses.ts";

/** Lets another process stop this one for 400 ms, as a pause does. */
async function standStill(): Promise<void> {
  const script = `kill -STOP ${process.pid}; sleep 0.4; kill -CONT ${process.pid}`;
  await once(spawn("sh", ["-c", script], { stdio: "ignore" }), "close");
}

test("a bound that a process missed while it stood still is measured again", async () => {
  const tookMs: number[] = [];
  const last = await withoutPause(async () => {
    const begun = monotonicMs();
    if (tookMs.length === 0) {
      await standStill();
    }
    tookMs.push(monotonicMs() - begun);
    expect(tookMs.at(-1)).toBeLessThan(300);
    return tookMs.at(-1);
  });
  expect(tookMs[0]).toBeGreaterThan(300);
  expect(tookMs.at(-1)).toBe(last);
});
