import { type Client, WorkflowNotFoundError } from "@temporalio/client";
import { expect, test } from "vitest";
import { createLogger } from "#observability/logger.ts";
import { Releaser } from "#webhooks/engine/release.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

/** Returns a releaser whose carrier starts after `missing` signals, with what it was sent and how long it waited. */
function releaserOf(
  missing: number,
  pause: () => Promise<void> = async () => await Promise.resolve(),
): { releaser: Releaser; signals: string[]; waits: number[] } {
  const signals: string[] = [];
  const waits: number[] = [];
  const client = {
    workflow: {
      getHandle: (carrier: string) => ({
        signal: async ({ name }: { name: string }, { delivery_ids: ids }: { delivery_ids: string[] }) => {
          signals.push(`${carrier} ${name} ${ids.join(" ")}`);
          return signals.length <= missing
            ? await Promise.reject(new WorkflowNotFoundError("not found", carrier, undefined))
            : undefined;
        },
      }),
    },
  } as unknown as Client;
  const sleep = async (ms: number): Promise<void> => {
    waits.push(ms);
    await pause();
  };
  const timers = Object.assign(new SimulatedTime(), { sleep });
  return { releaser: new Releaser(client, timers, createLogger({ level: "silent" })), signals, waits };
}

test.each([
  ["is sent once to a workflow that runs", 0, []],
  ["is repeated until the workflow has started", 2, [200, 1_000]],
  ["is given up if there is no workflow after three seconds", 9, [200, 1_000, 2_000]],
])("a request for an immediate attempt %s", async (_, missing, waited) => {
  const { releaser, signals, waits } = releaserOf(missing);
  releaser.attemptNow({ id: "dlv_1", carrier: "bat_1" });
  await new Promise(setImmediate);
  await releaser.drain();
  expect(waits).toEqual(waited);
  expect(signals).toEqual(Array.from({ length: waited.length + 1 }, () => "bat_1 attemptNow dlv_1"));
});

test("a release is not repeated: a carrier that never started has nothing to release", async () => {
  const { releaser, signals, waits } = releaserOf(1);
  releaser.release([{ id: "dlv_1", carrier: "bat_1" }]);
  await releaser.drain();
  expect(waits).toEqual([]);
  expect(signals).toEqual(["bat_1 release dlv_1"]);
});

test("requests for many immediate attempts are one signal per carrier, beside releases", async () => {
  const { releaser, signals } = releaserOf(0);
  const carried = [1, 2, 3].map((id) => ({ id: `dlv_${id}`, carrier: id < 3 ? "bat_1" : "bat_2" }));
  releaser.attemptAllNow([...carried, { id: "dlv_4", carrier: null }]);
  releaser.release([{ id: "dlv_5", carrier: "bat_1" }]);
  await new Promise(setImmediate);
  expect(signals.sort()).toEqual([
    "bat_1 attemptNow dlv_1 dlv_2",
    "bat_1 release dlv_5",
    "bat_2 attemptNow dlv_3",
  ]);
});

test("a release does not wait for requests to workflows that do not run", async () => {
  const { releaser, signals } = releaserOf(Infinity, async () => await new Promise(() => undefined));
  for (let index = 0; index < 20; index += 1) {
    releaser.attemptNow({ id: "dlv_1", carrier: "bat_1" });
  }
  await new Promise(setImmediate);
  expect(signals).toHaveLength(20);
  releaser.release([{ id: "dlv_2", carrier: "bat_2" }]);
  await new Promise(setImmediate);
  expect(signals).toContain("bat_2 release dlv_2");
});
