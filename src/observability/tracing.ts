/**
 * Traces. Without a collector they are off, and OpenTelemetry is not even loaded. Parents are passed explicitly: an
 * `AsyncLocalStorage`, which follows every promise, would cost a fifth of the worker (decision 7).
 */
import type { Config } from "#config/config.ts";
import type { TRACING_SETTINGS } from "#config/tracing-settings.ts";
import type { ProcessName } from "./metrics.ts";
import type { Tracer, TracingOptions } from "./tracer.ts";

export type TracingConfig = Pick<Config, keyof typeof TRACING_SETTINGS>;

let current: Tracer | undefined;

/** Returns the process's tracer; undefined if traces are off. */
export function tracer(): Tracer | undefined {
  return current;
}

/** Returns how the process traces; undefined: not at all. */
export function tracingOptions(
  config: TracingConfig,
  process: ProcessName | "serve" | "all",
  version: string,
): TracingOptions | undefined {
  const { otlpEndpoint, otlpTracesEndpoint = otlpEndpoint && `${otlpEndpoint}/v1/traces` } = config;
  if (config.otelDisabled || otlpTracesEndpoint === undefined) {
    return undefined;
  }
  return {
    collector: otlpTracesEndpoint,
    protocol: config.otlpTracesProtocol ?? config.otlpProtocol,
    sampler: config.traceSampler,
    share: config.traceShare,
    // OTEL_SERVICE_NAME has precedence over service.name in OTEL_RESOURCE_ATTRIBUTES.
    resource: {
      "service.name": `signet-${process}`,
      "service.version": version,
      ...config.otelResource,
      ...(config.otelServiceName === undefined ? {} : { "service.name": config.otelServiceName }),
    },
  };
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
