/** What code that traces sees of a tracer, whichever library is behind it. */
import type { OtlpProtocol, SamplerName } from "#config/tracing-settings.ts";

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
  /** URL of the collector. */
  readonly collector: string;
  readonly protocol: OtlpProtocol;
  readonly sampler: SamplerName;
  /** Share that the samplers by ratio keep, 0 to 1. */
  readonly share: number;
  /** Attributes of the process; `service.name` is one of them. */
  readonly resource: Readonly<Record<string, string>>;
}

/** Fields of a line of the log, by which the span is found. */
export interface TraceFields {
  readonly trace_id?: string;
  readonly span_id?: string;
}

/** Returns the log fields of a span; none if there is no span. */
export function traceFields(span: Pick<TracedSpan, "traceparent"> | undefined): TraceFields {
  const [, traceId, spanId] = span?.traceparent.split("-") ?? [];
  return traceId === undefined || spanId === undefined ? {} : { trace_id: traceId, span_id: spanId };
}
