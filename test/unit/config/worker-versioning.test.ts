import { expect, test } from "vitest";
import { type Environment, loadConfig } from "#config/config.ts";
import { workerVersion } from "#config/worker-versioning.ts";
import { VERSION } from "#runtime/package.ts";

const load = (environment: Environment): ReturnType<typeof loadConfig> =>
  loadConfig({ SIGNET_ENV: "development", ...environment });

test("Worker Versioning is off by default; a deployment's version is Signet's unless set", () => {
  expect(workerVersion(load({}))).toBeUndefined();
  expect(workerVersion(load({ SIGNET_WORKER_DEPLOYMENT: "signet" }))).toEqual({
    deploymentName: "signet",
    buildId: VERSION,
  });
  const tagged = { SIGNET_WORKER_DEPLOYMENT: "signet", SIGNET_WORKER_BUILD_ID: "2026-11-25.1+abc" };
  expect(workerVersion(load(tagged))).toEqual({ deploymentName: "signet", buildId: "2026-11-25.1+abc" });
});

test.for<[environment: Environment, problem: RegExp]>([
  [{ SIGNET_WORKER_BUILD_ID: "1" }, /SIGNET_WORKER_BUILD_ID needs SIGNET_WORKER_DEPLOYMENT/],
  [{ SIGNET_WORKER_DEPLOYMENT: "eu.signet" }, /SIGNET_WORKER_DEPLOYMENT must be at most 100 letters/],
  [
    { SIGNET_WORKER_DEPLOYMENT: "signet", SIGNET_WORKER_BUILD_ID: "a b" },
    /SIGNET_WORKER_BUILD_ID must be at most 200/,
  ],
])("%j is an error", ([environment, problem]) => {
  expect(() => load(environment)).toThrow(problem);
});
