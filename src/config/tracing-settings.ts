/** Settings of traces. The names and their meanings are OpenTelemetry's. */
import { oneOf, type Parser, setting, text, url } from "./setting.ts";

const share: Parser<number> = Object.assign(
  (value: string) => {
    const number = Number(value);
    if (!/^[01](?:\.\d{1,9})?$/.test(value) || number > 1) {
      throw new Error("must be a number from 0 to 1");
    }
    return number;
  },
  { maximum: "1" },
);

/** OpenTelemetry writes truth in any case. */
const flag: Parser<boolean> = (value) => oneOf("true", "false")(value.toLowerCase()) === "true";

const ATTRIBUTES_MAX = 128;

/** Parses `key=value` pairs with percent-encoded values, separated by commas. */
const attributes: Parser<Readonly<Record<string, string>>> = (value) => {
  const pairs = value.split(",").map((pair) => /^\s*([^\s=]{1,256})\s*=\s*([^=]*?)\s*$/.exec(pair) ?? []);
  try {
    const entries = pairs.map(([, key = "", encoded = ""]) => [key, decodeURIComponent(encoded)] as const);
    if (entries.length <= ATTRIBUTES_MAX && entries.every(([key]) => key !== "")) {
      return Object.fromEntries(entries);
    }
  } catch {
    // A malformed percent-encoding.
  }
  throw new Error(
    `must be pairs such as deployment.environment.name=production, separated by commas, ${ATTRIBUTES_MAX} at most; values are percent-encoded`,
  );
};

/** How traces are sent. gRPC is not supported. */
const PROTOCOLS = ["http/protobuf", "http/json"] as const;
export type OtlpProtocol = (typeof PROTOCOLS)[number];

/** Which traces are kept. */
const SAMPLERS = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
export type SamplerName = (typeof SAMPLERS)[number];

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
    "share of requests that the samplers `traceidratio` and `parentbased_traceidratio` trace, 0 to 1",
  ),
  traceSampler: setting(
    "OTEL_TRACES_SAMPLER",
    oneOf(...SAMPLERS),
    "parentbased_traceidratio",
    "which requests are traced; with the `parentbased` ones a caller's `traceparent` decides for its own request",
  ),
  otlpProtocol: setting(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    oneOf(...PROTOCOLS),
    "http/protobuf",
    "`http/protobuf` or `http/json`; `grpc` is not supported, so name the collector's HTTP port, usually 4318",
  ),
  otlpTracesProtocol: setting(
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
    oneOf(...PROTOCOLS),
    undefined,
    "the same for traces only",
  ),
  otelServiceName: setting(
    "OTEL_SERVICE_NAME",
    text,
    undefined,
    "`service.name` of the traces; default: `signet-` and the process, such as `signet-api`",
  ),
  otelResource: setting(
    "OTEL_RESOURCE_ATTRIBUTES",
    attributes,
    undefined,
    "further attributes of the process in traces: `k8s.pod.name=api-0,deployment.environment.name=production`",
  ),
  otelDisabled: setting("OTEL_SDK_DISABLED", flag, "false", "`true` turns traces off, even with a collector"),
} as const;
