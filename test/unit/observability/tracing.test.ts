/** Traces cost nothing while they are off. test/integration/observability/promise-tracking.test.ts has the rest. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ConfigError, loadConfig } from "#config/config.ts";
import { traceFields } from "#observability/tracer.ts";
import { tracingOptions } from "#observability/tracing.ts";

const SOURCE = join(import.meta.dirname, "..", "..", "..", "src");

/** Returns the lines of src that match, each after its path. */
async function linesOfSource(pattern: RegExp): Promise<string[]> {
  const names = (await readdir(SOURCE, { recursive: true })).filter((name) => name.endsWith(".ts"));
  const found = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(SOURCE, name), "utf8");
      return text
        .split("\n")
        .filter((line) => pattern.test(line))
        .map((line) => `${name}: ${line.trim()}`);
    }),
  );
  return found.flat();
}

it("traces load no part of OpenTelemetry while they are off: only starting them imports it", async () => {
  const importing = await linesOfSource(/from "@opentelemetry\/|import\("@opentelemetry\//);
  expect([...new Set(importing.map((line) => line.split(":")[0]))]).toEqual([
    join("observability", "open-telemetry.ts"),
  ]);
  expect(await linesOfSource(/"[^"]*\/open-telemetry\.ts"/)).toEqual([
    expect.stringMatching(
      /tracing\.ts: const \{ createTracer \} = await import\("\.\/open-telemetry\.ts"\);$/,
    ),
  ]);
});

function optionsOf(environment: Readonly<Record<string, string>>) {
  return tracingOptions(loadConfig({ SIGNET_ENV: "development", ...environment }), "api", "1.2.3");
}

const ENDPOINT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };

it("traces are on if one of OpenTelemetry's own variables sets an exporter, and OTEL_SDK_DISABLED is not true", () => {
  expect(optionsOf({})).toBeUndefined();
  expect(optionsOf(ENDPOINT)).toEqual({
    collector: "http://collector:4318/v1/traces",
    protocol: "http/protobuf",
    sampler: "parentbased_traceidratio",
    share: 1,
    resource: { "service.name": "signet-api", "service.version": "1.2.3" },
  });
  expect(
    optionsOf({ ...ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://traces.example/in" }),
  ).toMatchObject({
    collector: "https://traces.example/in",
  });
  expect(optionsOf({ ...ENDPOINT, OTEL_SDK_DISABLED: "True" })).toBeUndefined();
  expect(optionsOf({ ...ENDPOINT, OTEL_SDK_DISABLED: "false" })).toBeDefined();
});

it("OpenTelemetry's variables name the service, its attributes, the protocol and the sampler", () => {
  const attributes = "k8s.pod.name=api-0, service.name=ours ,team=a%20b%2Cc,service.version=9";
  expect(
    optionsOf({
      ...ENDPOINT,
      OTEL_RESOURCE_ATTRIBUTES: attributes,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
      OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: "http/json",
      OTEL_TRACES_SAMPLER: "traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0.25",
    }),
  ).toMatchObject({
    protocol: "http/json",
    sampler: "traceidratio",
    share: 0.25,
    resource: { "service.name": "ours", "service.version": "9", "k8s.pod.name": "api-0", team: "a b,c" },
  });
  const named = { ...ENDPOINT, OTEL_RESOURCE_ATTRIBUTES: attributes, OTEL_SERVICE_NAME: "first" };
  expect(optionsOf(named)?.resource["service.name"]).toBe("first");
});

it.each([
  ["OTEL_TRACES_SAMPLER_ARG", ["2", "-1", "half", "1.5"]],
  ["OTEL_TRACES_SAMPLER", ["jaeger_remote", "on"]],
  ["OTEL_EXPORTER_OTLP_PROTOCOL", ["grpc"]],
  ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", ["grpc"]],
  ["OTEL_SDK_DISABLED", ["yes", "1"]],
  ["OTEL_RESOURCE_ATTRIBUTES", ["a", "a=b,,", "=b", "a=%zz", "a=b=c"]],
])("%s refuses what the service does not support, by name", (variable, values) => {
  for (const value of values) {
    const load = () => loadConfig({ SIGNET_ENV: "development", [variable]: value });
    expect(load, value).toThrow(ConfigError);
    expect(load, value).toThrow(new RegExp(`${variable} must be `));
  }
});

it("log fields are those of the span, and none without one", () => {
  const traceparent = `00-${"a".repeat(32)}-${"b".repeat(16)}-01`;
  expect(traceFields({ traceparent })).toEqual({ trace_id: "a".repeat(32), span_id: "b".repeat(16) });
  expect(traceFields(undefined)).toEqual({});
});
