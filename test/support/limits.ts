/** Time limits of tests. */
import { vi } from "vitest";

const MINUTE_MS = 60_000;

/**
 * Sets the limit of every test and hook of the calling file, for files whose tests take long on a busy machine: they
 * start processes, build, or wait for real time. Vitest takes it back at the end of the file. Call it before the first
 * hook.
 */
export function allowMinutes(minutes: number): void {
  vi.setConfig({ testTimeout: minutes * MINUTE_MS, hookTimeout: minutes * MINUTE_MS });
}
