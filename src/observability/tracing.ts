/**
 * Traces: off unless a collector is set, and then nothing of OpenTelemetry is even loaded. Parents are passed by hand,
 * never by an `AsyncLocalStorage`: following every promise would cost a fifth of the worker (decision 0007).
 */
import type { ProcessName } from "./metrics.ts";

/** What a span says of what it stands for; never an address or a payload. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface TracedSpan {
  /** W3C Trace Context: what a child names as its parent. */
  readonly traceparent: string;
  /** @param error why what it stands for failed by us or by a receiver; a class, no message */
  end(attributes?: SpanAttributes, error?: string): void;
}

export type SpanKind = "server" | "internal" | "client";

export interface SpanStart {
  readonly name: string;
  readonly kind: SpanKind;
  readonly attributes: SpanAttributes;
  /** The first is its parent, the others are linked; what is no traceparent is left out. */
  readonly parents: readonly (string | null | undefined)[];
}

export interface Tracer {
  start(span: SpanStart): TracedSpan;
  /** Sends what is waiting to be sent. */
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

/** The process's tracer; undefined: traces are off. */
export function tracer(): Tracer | undefined {
  return current;
}

/** Switches traces on. @returns what switches them off, after all have been sent */
export async function startTracing(options: TracingOptions): Promise<() => Promise<void>> {
  const { createTracer } = await import("./open-telemetry.ts");
  const started = createTracer(options);
  current = started;
  return async () => {
    current = undefined;
    await started.close();
  };
}
