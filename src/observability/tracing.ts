/**
 * Traces. Without a collector they are off, and OpenTelemetry is not even loaded. Parents are passed explicitly: an
 * `AsyncLocalStorage`, which follows every promise, would cost a fifth of the worker (decision 0007).
 */
import type { Tracer, TracingOptions } from "./tracer.ts";

let current: Tracer | undefined;

/** Returns the process's tracer; undefined if traces are off. */
export function tracer(): Tracer | undefined {
  return current;
}

/** Turns traces on. @returns a function that sends the pending spans and turns traces off */
export async function startTracing(options: TracingOptions): Promise<() => Promise<void>> {
  const { createTracer } = await import("./open-telemetry.ts");
  const started = createTracer(options);
  current = started;
  return async () => {
    current = undefined;
    await started.close();
  };
}
