/** Workers that take another connection to Temporal in place of a silent one. */
import { NativeConnection } from "@temporalio/worker";
import { expect, inject, test } from "vitest";
import { startWorkers } from "../../../src/temporal/workers.ts";
import { keepRuntime } from "../../support/in-process-worker.ts";
import { allowMinutes } from "../../support/limits.ts";
import { workflowBundle } from "../../support/processes.ts";
import { testNamespace } from "../../support/services.ts";

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
  const workers = await startWorkers({
    connection: first,
    namespace: await testNamespace(),
    bundle: workflowBundle(false),
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
