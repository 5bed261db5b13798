/** Traces cost nothing while they are off, and never make Node track every promise (decision 0007). */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { ConfigError, loadConfig } from "../../../src/config/config.ts";
import { traceCollector } from "../../../src/config/tracing-settings.ts";

const REPOSITORY = fileURLToPath(new URL("../../../", import.meta.url));

interface Seen {
  /** True if OpenTelemetry's SDK is loaded. */
  readonly loaded: boolean;
  /** True if Node tracks promises: their continuations then have an id. */
  readonly follows: boolean;
}

/** Runs `use` in a separate process and returns what was observed. */
async function after(use: string): Promise<Seen> {
  const program = `
    import { createRequire } from "node:module";
    import { executionAsyncId } from "node:async_hooks";
    import { startTracing, tracer } from "./src/observability/tracing.ts";
    await import("./src/processes/api/public-api.ts");
    await import("./src/processes/engine.ts");
    ${use}
    setImmediate(async () => {
      await undefined;
      const follows = executionAsyncId() > 0;
      const modules = Object.keys(createRequire(import.meta.url).cache);
      const loaded = modules.some((path) => path.includes("@opentelemetry/sdk-trace/"));
      process.stdout.write(JSON.stringify({ follows, loaded }));
      process.exit();
    });
  `;
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--import", "tsx", "--input-type=module", "--eval", program],
    { cwd: REPOSITORY },
  );
  return JSON.parse(stdout) as Seen;
}

it("traces load no part of OpenTelemetry while they are off", async () => {
  expect(await after("")).toEqual({ loaded: false, follows: false });
});

it("traces do not make Node track promises, even while they are on", async () => {
  const use = `
    await startTracing({ collector: "http://127.0.0.1:9/v1/traces", process: "worker", version: "1", share: 1 });
    tracer().start({ name: "attempt", kind: "client", attributes: {}, parents: [] }).end();
  `;
  expect(await after(use)).toEqual({ loaded: true, follows: false });
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
