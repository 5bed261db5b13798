/** Traces cost nothing while they are off. test/integration/observability/promise-tracking.test.ts has the rest. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ConfigError, loadConfig } from "../../../src/config/config.ts";
import { traceCollector } from "../../../src/config/tracing-settings.ts";

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

it("traces are on if one of OpenTelemetry's own variables sets an exporter", () => {
  const development = { SIGNET_ENV: "development" };
  expect(traceCollector(loadConfig(development))).toBeUndefined();
  const endpoint = { ...development, OTEL_EXPORTER_OTLP_ENDPOINT: "http://collector:4318/" };
  expect(traceCollector(loadConfig(endpoint))).toBe("http://collector:4318/v1/traces");
  const traces = { ...endpoint, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "https://traces.example/in" };
  expect(traceCollector(loadConfig(traces))).toBe("https://traces.example/in");
  for (const share of ["2", "-1", "half", "1.5"]) {
    expect(() => loadConfig({ ...development, OTEL_TRACES_SAMPLER_ARG: share })).toThrow(ConfigError);
  }
});
