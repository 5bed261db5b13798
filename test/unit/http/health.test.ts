import { randomBytes } from "node:crypto";
import { afterEach, expect, test, vi } from "vitest";
import { registerHealthRoutes } from "#http/health.ts";
import { createServer } from "#http/server.ts";
import { createLogger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";

afterEach(() => {
  vi.useRealTimers();
});

async function ready(checks: readonly ReadinessCheck[], log: string[] = []) {
  const server = createServer({
    baseUrl: "http://service.example",
    guards: {},
    clock: { now: () => 0 },
    randomBytes,
    log: createLogger({ level: "error", destination: { write: (line) => void log.push(line) } }),
  });
  registerHealthRoutes(server, checks);
  return { ready: await server.inject("/readyz"), alive: await server.inject("/healthz") };
}

const READINESS_TIMEOUT_MS = 2_000;
const good: ReadinessCheck = { name: "database", check: async () => await Promise.resolve() };
const bad: ReadinessCheck = {
  name: "temporal",
  check: async () => await Promise.reject(new Error("reason-canary")),
};
/** Never answers. Its timeout passes as soon as it has been called. */
const hung: ReadinessCheck = {
  name: "keys",
  check: async () => {
    setImmediate(() => vi.advanceTimersByTime(READINESS_TIMEOUT_MS));
    return await new Promise(() => undefined);
  },
};

test("a process whose checks pass is ready", async () => {
  expect((await ready([good])).ready.json()).toEqual({ status: "ready" });
});

test("a process with failing checks names them, shows the reasons in the log only, and stays alive", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const log: string[] = [];
  const answers = await ready([good, bad, hung], log);
  expect(answers.ready.statusCode).toBe(503);
  expect(answers.ready.headers["retry-after"]).toBe("1");
  expect(answers.ready.json()).toMatchObject({ code: "UNAVAILABLE", failing: ["temporal", "keys"] });
  expect(answers.ready.body).not.toContain("reason-canary");
  expect(log.join("")).toContain("reason-canary");
  expect(answers.alive.statusCode).toBe(200);
});

test("a check that throws synchronously fails too", async () => {
  const thrown: ReadinessCheck = {
    name: "keys",
    check: () => {
      throw new Error("at once");
    },
  };
  expect((await ready([thrown])).ready.statusCode).toBe(503);
});
