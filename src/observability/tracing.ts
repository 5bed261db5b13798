/**
 * Traces. Without a collector they are off, and OpenTelemetry is not even loaded. Parents are passed explicitly: an
 * `AsyncLocalStorage`, which follows every promise, would cost a fifth of the worker (decision 0007).
 */
import type { ProcessName } from "./metrics.ts";

/** Attributes of a span; never an address or a payload. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface TracedSpan {
  /** W3C Trace Context, the parent of child spans. */
  readonly traceparent: string;
  /** @param error class of the failure, ours or the receiver's; not a message */
  end(attributes?: SpanAttributes, error?: string): void;
}

export type SpanKind = "server" | "internal" | "client";

export interface SpanStart {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: SpanAttributes;
  /** The first is the parent, the others are linked. Invalid traceparents are ignored. */
  readonly parents: readonly (string | null | undefined)[];
}

export interface Tracer {
  start(span: SpanStart): TracedSpan;
  /** Sends the pending spans. */
  close(): Promise<void>;
}

export interface TracingOptions {
  readonly collector: string;
  readonly process: ProcessName | "serve";
  readonly version: string;
  /** Share of traces without a parent that are kept, 0 to 1. */
  readonly share: number;
}

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
