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
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
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

export function createTracer({ collector, process, version, share }: TracingOptions): Tracer {
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ "service.name": `signet-${process}`, "service.version": version }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(share) }),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter({ url: collector }),
        maxQueueSize: QUEUE_MAX,
      }),
    ],
  });
  const spans = provider.getTracer("signet", version);
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
