/** The service never makes Node track every promise, which costs a fifth of the worker (decision 7). */
import { expect, it } from "vitest";
import { imageEnvironment, productionImage, runProcess } from "#test/support/processes.ts";

/** Prints what is observed after each step. Once Node tracks promises, their continuations have an id. */
const PROGRAM = `
  import { AsyncLocalStorage, createHook, executionAsyncId } from "node:async_hooks";
  import { registerHooks } from "node:module";
  let loaded = false;
  registerHooks({
    load(url, context, next) {
      loaded ||= url.includes("/@opentelemetry/sdk-trace/");
      return next(url, context);
    },
  });
  const { startTracing, tracer } = await import("./dist/src/observability/tracing.js");
  const { useSynchronousContext } = await import("./dist/src/temporal/call-context.js");
  await import("./dist/src/processes/api/public-api.js");
  await import("./dist/src/processes/engine.js");
  const look = () => new Promise((resolve) => {
    setImmediate(async () => {
      await undefined;
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
    environment: imageEnvironment(),
  });
  expect(JSON.parse(printed)).toEqual({
    off: { loaded: false, tracked: false },
    on: { loaded: true, tracked: false },
    inContext: { loaded: true, tracked: false },
    // Proves that tracking would be noticed.
    hooked: { loaded: true, tracked: true },
  });
});
