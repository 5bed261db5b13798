import { afterEach, describe, expect, it } from "vitest";
import { loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { withMetrics } from "#processes/with-metrics.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";

const lines: string[] = [];
const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
const closers: (() => Promise<void>)[] = [];

afterEach(async () => {
  lines.length = 0;
  for (const close of closers.splice(0)) {
    await close();
  }
});

interface Answer {
  readonly status: number;
  readonly body: unknown;
}

async function get(port: number, path: string, method = "GET"): Promise<Answer> {
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { method });
  const text = await response.text();
  return { status: response.status, body: text.startsWith("{") ? JSON.parse(text) : text };
}

/** A process that is healthy while `works` returns true, and whose start and end wait for the test. */
async function start(works: () => boolean, port: number) {
  const started = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  const running = withMetrics(
    "api",
    { ...loadConfig({ SIGNET_ENV: "development" }), metricsListen: { host: "127.0.0.1", port } },
    log,
    async () => {
      await started.promise;
      return {
        readiness: [
          {
            name: "engine",
            check: async () => await (works() ? Promise.resolve() : Promise.reject(new Error("no steam"))),
          },
        ],
        close: async () => await ended.promise,
      };
    },
  );
  return { running, started, ended };
}

describe("the metrics listener of a process", () => {
  it("serves the process's metrics in Prometheus' text format", async () => {
    const port = await freePort();
    const { running, started, ended } = await start(() => true, port);
    started.resolve();
    const process = await running;
    closers.push(async () => await process.close());
    ended.resolve();

    const response = await fetch(`http://127.0.0.1:${port}/metrics`);
    expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0\.0\.4/);
    const text = await response.text();
    expect(text).toMatch(/^process_cpu_seconds_total \d/m);
    expect(text).toMatch(/^nodejs_eventloop_lag_seconds \d/m);
  });

  it("is alive but not ready while the process starts and while it ends", async () => {
    const port = await freePort();
    const { running, started, ended } = await start(() => true, port);
    await eventually(async () => (await get(port, "/healthz")).status === 200, "the listener");
    const notReady = { status: 503, body: { status: "not ready", failing: ["process"] } };
    expect(await get(port, "/readyz")).toEqual(notReady);

    started.resolve();
    const process = await running;
    expect(await get(port, "/readyz")).toEqual({ status: 200, body: { status: "ready" } });

    const closing = process.close();
    expect(await get(port, "/healthz")).toEqual({ status: 200, body: { status: "ok" } });
    expect(await get(port, "/readyz")).toEqual(notReady);
    ended.resolve();
    await closing;
    await expect(get(port, "/healthz")).rejects.toThrow("fetch failed");
  });

  it("names what fails, gives the reason in the log only, and recovers", async () => {
    let works = false;
    const port = await freePort();
    const { running, started, ended } = await start(() => works, port);
    started.resolve();
    const process = await running;
    closers.push(async () => await process.close());
    ended.resolve();

    expect(await get(port, "/readyz")).toEqual({
      status: 503,
      body: { status: "not ready", failing: ["engine"] },
    });
    expect(lines.join("")).toContain("no steam");
    works = true;
    expect(await get(port, "/readyz")).toEqual({ status: 200, body: { status: "ready" } });
  });

  it("serves three paths and one method", async () => {
    const port = await freePort();
    const { running, started, ended } = await start(() => true, port);
    started.resolve();
    const process = await running;
    closers.push(async () => await process.close());
    ended.resolve();

    expect((await get(port, "/")).status).toBe(404);
    expect((await get(port, "/metrics?x=1")).status).toBe(404);
    expect((await get(port, "/metrics", "POST")).status).toBe(405);
  });

  it("frees its port when the process cannot start", async () => {
    const port = await freePort();
    const { running, started } = await start(() => true, port);
    started.reject(new Error("no database"));
    await expect(running).rejects.toThrow("no database");
    await expect(get(port, "/healthz")).rejects.toThrow("fetch failed");
  });
});
