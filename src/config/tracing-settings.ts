/** Settings of traces. The names are OpenTelemetry's. */
import { type Parser, setting, url } from "./setting.ts";

const share: Parser<number> = (value) => {
  const number = Number(value);
  if (!/^[01](?:\.\d{1,9})?$/.test(value) || number > 1) {
    throw new Error("must be a number from 0 to 1");
  }
  return number;
};

export const TRACING_SETTINGS = {
  otlpEndpoint: setting(
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    url("http:", "https:"),
    undefined,
    "collector of traces (OTLP over HTTP); `/v1/traces` is appended. Unset: no traces, at no cost",
  ),
  otlpTracesEndpoint: setting(
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    url("http:", "https:"),
    undefined,
    "the same for traces only, with the full path",
  ),
  traceShare: setting(
    "OTEL_TRACES_SAMPLER_ARG",
    share,
    "1",
    "share of requests that are traced, 0 to 1; a caller's `traceparent` overrides it",
  ),
} as const;

/** Returns the URL of the trace collector; undefined: no traces. */
export function traceCollector({
  otlpEndpoint,
  otlpTracesEndpoint,
}: {
  readonly otlpEndpoint?: string | undefined;
  readonly otlpTracesEndpoint?: string | undefined;
}): string | undefined {
  return otlpTracesEndpoint ?? (otlpEndpoint === undefined ? undefined : `${otlpEndpoint}/v1/traces`);
}
