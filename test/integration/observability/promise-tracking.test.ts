/** The service never makes Node track every promise, which costs a fifth of the worker (decision 0007). */
import { expect, it } from "vitest";
import { IMAGE_ENVIRONMENT, productionImage, runProcess } from "../../support/processes.ts";

/** Prints what is observed after each step. Once Node tracks promises, their continuations have an id. */
const PROGRAM = `
  import { AsyncLocalStorage, createHook, executionAsyncId } from "node:async_hooks";
  import { createRequire } from "node:module";
  import { startTracing, tracer } from "./dist/src/observability/tracing.js";
  import { useSynchronousContext } from "./dist/src/temporal/call-context.js";
  await import("./dist/src/processes/api/public-api.js");
  await import("./dist/src/processes/engine.js");
  const { cache } = createRequire(import.meta.url);
  const look = () => new Promise((resolve) => {
    setImmediate(async () => {
      await undefined;
      const loaded = Object.keys(cache).some((path) => path.includes("@opentelemetry/sdk-trace/"));
      resolve({ loaded, tracked: executionAsyncId() > 0 });
    });
  });
  const off = await look();
  await startTracing({
    collector: "http://127.0.0.1:9/v1/traces",
    protocol: "http/protobuf",
    sampler: "always_on",
    share: 1,
    resource: { "service.name": "signet-worker" },
  });
  tracer().start({ name: "attempt", kind: "client", attributes: {}, parents: [] }).end();
  const on = await look();
  const context = new AsyncLocalStorage();
  useSynchronousContext(context);
  context.run("value", () => undefined);
  const inContext = await look();
  createHook({ init: () => undefined }).enable();
  const hooked = await look();
  process.stdout.write(JSON.stringify({ off, on, inContext, hooked }));
  process.exit();
`;

it("traces load nothing while off, and neither traces nor the SDK's contexts make Node track promises", async () => {
  const printed = await runProcess({
    command: ["node", "--input-type=module", "--eval", PROGRAM],
    cwd: productionImage(),
    environment: IMAGE_ENVIRONMENT,
  });
  expect(JSON.parse(printed)).toEqual({
    off: { loaded: false, tracked: false },
    on: { loaded: true, tracked: false },
    inContext: { loaded: true, tracked: false },
    // Proves that tracking would be noticed.
    hooked: { loaded: true, tracked: true },
  });
});
