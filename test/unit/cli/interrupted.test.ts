/** When a long-running command ends. test/integration/cli/interrupted.test.ts has one under a real shell. */
import { afterEach, expect, test, vi } from "vitest";
import { untilInterrupted } from "#cli/client/interrupted.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const parent = Object.getOwnPropertyDescriptor(process, "ppid") as PropertyDescriptor;

const listeners = (): number[] => SIGNALS.map((signal) => process.listenerCount(signal));

afterEach(() => {
  Object.defineProperty(process, "ppid", parent);
  vi.unstubAllEnvs();
  vi.useRealTimers();
});

test.each(SIGNALS)("a command ends on %s, and leaves no listener", async (signal) => {
  const before = listeners();
  const { interrupted, forget } = untilInterrupted();
  expect(listeners()).toEqual(before.map((count) => count + 1));
  // Only the command's own listener: others would end the test's process.
  process.listeners(signal).at(-1)?.(signal);
  await interrupted;
  forget();
  expect(listeners()).toEqual(before);
});

test.each([
  ["under npx", "exec", true],
  ["elsewhere, as a daemon may outlive its parent", "", false],
] as const)("a command ends with its parent: %s", async (_where, command, ends) => {
  vi.stubEnv("npm_command", command);
  vi.useFakeTimers();
  let ended = false;
  const { interrupted, forget } = untilInterrupted();
  void interrupted.then(() => (ended = true));
  await vi.advanceTimersByTimeAsync(60_000);
  expect(ended).toBe(false);
  // A value would not replace Node's own.
  Object.defineProperty(process, "ppid", { configurable: true, get: () => (parent.value as number) + 1 });
  await vi.advanceTimersByTimeAsync(1_000);
  expect(ended).toBe(ends);
  forget();
});
