/** The tracer on OpenTelemetry's SDK. Only tracing.ts loads it, and only if traces are on. */
import {
  type Context,
  isSpanContextValid,
  ROOT_CONTEXT,
  type SpanContext,
  SpanKind,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Tracer, TracingOptions } from "./tracer.ts";

/** W3C Trace Context 2.2. Later versions may append more after the flags; `ff` is invalid. */
const TRACEPARENT = /^(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const KINDS = { server: SpanKind.SERVER, internal: SpanKind.INTERNAL, client: SpanKind.CLIENT } as const;
const LINKS_MAX = 64;
/** Maximum number of queued spans while the collector is unavailable. Further spans are dropped. */
const QUEUE_MAX = 4_096;

function parse(traceparent: string): SpanContext | undefined {
  const [, version = "", traceId = "", spanId = "", flags = "", rest] = TRACEPARENT.exec(traceparent) ?? [];
  if (version === "00" && rest !== undefined) {
    return undefined;
  }
  const context = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true };
  return isSpanContextValid(context) ? context : undefined;
}

function format({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-0${traceFlags & 1}`;
}

function samplerOf({ sampler, share }: TracingOptions): Sampler {
  const root = sampler.endsWith("always_on")
    ? new AlwaysOnSampler()
    : sampler.endsWith("always_off")
      ? new AlwaysOffSampler()
      : new TraceIdRatioBasedSampler(share);
  return sampler.startsWith("parentbased_") ? new ParentBasedSampler({ root }) : root;
}

export function createTracer(options: TracingOptions): Tracer {
  const Exporter = options.protocol === "http/json" ? JsonExporter : ProtobufExporter;
  const provider = new TracerProvider({
    resource: resourceFromAttributes(options.resource),
    sampler: samplerOf(options),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new Exporter({ url: options.collector }),
        maxQueueSize: QUEUE_MAX,
      }),
    ],
  });
  const spans = provider.getTracer("signet", options.resource["service.version"]);
  return {
    start: ({ name, kind, attributes, parents }) => {
      const known = parents
        .slice(0, LINKS_MAX)
        .map((parent) => (typeof parent === "string" ? parse(parent) : undefined))
        .filter((parent) => parent !== undefined);
      const [parent, ...linked] = known;
      const context: Context =
        parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
      const links = linked.map((of) => ({ context: of }));
      const span = spans.startSpan(name, { kind: KINDS[kind], attributes, links }, context);
      return {
        traceparent: format(span.spanContext()),
        end: (ended, error) => {
          if (ended !== undefined) {
            span.setAttributes(ended);
          }
          if (error !== undefined) {
            span.setAttribute("error.type", error);
            span.setStatus({ code: SpanStatusCode.ERROR });
          }
          span.end();
        },
      };
    },
    close: async () => await provider.shutdown(),
  };
}
