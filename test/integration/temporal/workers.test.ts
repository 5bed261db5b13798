/** Workers of a process: their thread, and another connection to Temporal in place of a silent one. */
import { createRequire } from "node:module";
import type { Worker, WorkerOptions } from "node:worker_threads";
import { NativeConnection } from "@temporalio/worker";
import { expect, inject, test } from "vitest";
import { Workers } from "#temporal/workers.ts";
import { keepRuntime } from "#test/support/in-process-worker.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { workflowBundle } from "#test/support/processes.ts";
import { testNamespace } from "#test/support/services.ts";

// Workers finish what they have begun.
allowMinutes(2);

const NO_ACTIVITY = { none: async () => await Promise.resolve() };
const ACTIVITIES = {
  deliveries: NO_ACTIVITY,
  slow: NO_ACTIVITY,
  verification: NO_ACTIVITY,
  control: NO_ACTIVITY,
};

const connect = async (): Promise<NativeConnection> =>
  await NativeConnection.connect({ address: inject("temporalAddress") });

test("workers that get no further connection go on, and nothing uses the new one", async () => {
  await keepRuntime();
  const [first, fresh, last] = [await connect(), await connect(), await connect()];
  const workers = await Workers.start({
    connection: first,
    namespace: await testNamespace(),
    bundle: workflowBundle(),
    dataConverter: {},
    activities: ACTIVITIES,
    patched: false,
  });
  const refused = new Error("Temporal is away again");
  await expect(workers.use(fresh, async () => await Promise.reject(refused))).rejects.toBe(refused);
  // A connection that a worker uses cannot be closed.
  await fresh.close();

  // No worker can be created over a closed connection.
  await expect(workers.use(fresh, async () => await Promise.resolve(last))).rejects.toThrow(/closed/i);
  await expect(last.workflowService.getSystemInfo({})).rejects.toThrow(/closed/i);

  await expect(first.close()).rejects.toThrow("Workers");
  await workers.stop();
  await workers.run;
  await first.close();
});

/** Counts the workflow threads that the SDK starts from now on. */
function countThreads(): { readonly started: () => number; readonly ended: () => number } {
  const threads = createRequire(import.meta.url)("node:worker_threads") as { Worker: typeof Worker };
  let [started, ended] = [0, 0];
  threads.Worker = class extends threads.Worker {
    constructor(file: string | URL, options?: WorkerOptions) {
      super(file, options);
      started += 1;
      this.once("exit", () => (ended += 1));
    }
  };
  return { started: () => started, ended: () => ended };
}

test("all workers of a connection share one workflow thread, which ends with them", async () => {
  await keepRuntime();
  const threads = countThreads();
  const [first, fresh, last] = [await connect(), await connect(), await connect()];
  const workers = await Workers.start({
    connection: first,
    namespace: await testNamespace(),
    bundle: workflowBundle(),
    dataConverter: {},
    activities: ACTIVITIES,
    patched: true,
  });
  expect(threads.started()).toBe(1);
  await workers.use(fresh, async () => await Promise.resolve(last));
  expect(threads.started()).toBe(2);

  // No worker can be created over a closed connection; the thread of those that were not created ends, too.
  await first.close();
  const another = await connect();
  await expect(workers.use(first, async () => await Promise.resolve(another))).rejects.toThrow(/closed/i);
  await workers.stop();
  await workers.run;
  expect(threads.started()).toBe(3);
  expect(threads.ended()).toBe(3);
  await fresh.close();
});
