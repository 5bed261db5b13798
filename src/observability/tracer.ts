/** What code that traces sees of a tracer, whichever library is behind it. */
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
