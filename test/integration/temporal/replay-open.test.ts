/** `signet doctor --replay` reads both ends of the open workflows of every type. */
import { beforeAll, expect, onTestFinished, test } from "vitest";
import { createLogger } from "#observability/logger.ts";
import { examineOpen, replayOpen } from "#processes/doctor/replay-open.ts";
import { createLazyClient } from "#temporal/client.ts";
import { installTemporalRuntime } from "#temporal/runtime.ts";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { eventually } from "#test/support/eventually.ts";
import { freePort } from "#test/support/free-port.ts";
import { useWorld } from "#test/support/world.ts";

const TYPES = ["replayDeadLetters", "replayDeliveries", "verifyEndpoint", "deadLetter", "deliver"] as const;
const EACH = 7;

// No worker: the workflows stay at their start.
const world = useWorld();

beforeAll(async () => {
  await installTemporalRuntime(createLogger({ level: "silent" }));
});

test("the newest and the oldest of each type are replayed, and the rest of a type's share goes to others", async () => {
  const { temporal } = world.current;
  const ids: string[] = [];
  for (let number = 1; number <= EACH; number += 1) {
    for (const type of TYPES) {
      const workflowId = `${type}/${number}`;
      await temporal.workflow.start(WORKFLOW_TYPES[type], {
        workflowId,
        taskQueue: "nobody-polls-here",
        args: [],
      });
      ids.push(workflowId);
    }
  }
  onTestFinished(async () => {
    await Promise.allSettled(ids.map(async (id) => await temporal.workflow.getHandle(id).terminate()));
  });
  await eventually(
    async () => (await temporal.workflow.count("CloseTime IS NULL")).count === ids.length,
    "visibility to know them",
  );

  const few = await replayOpen(temporal, 4 * TYPES.length);
  expect(few.failures).toEqual([]);
  expect(few.replayed.toSorted()).toEqual(
    TYPES.flatMap((type) => [1, 2, EACH - 1, EACH].map((number) => `${type}/${number}`)).toSorted(),
  );

  // Without open jobs, verifications, dead letters and deliveries have all places.
  await Promise.all(
    ids
      .filter((id) => id.startsWith("replay"))
      .map(async (id) => await temporal.workflow.getHandle(id).terminate()),
  );
  await eventually(
    async () => (await temporal.workflow.count("CloseTime IS NULL")).count === 3 * EACH,
    "visibility to know what is closed",
  );
  const rest = await replayOpen(temporal, 14);
  expect(rest.replayed.toSorted()).toEqual(
    [
      ...[1, 2, EACH - 1, EACH].map((number) => `verifyEndpoint/${number}`),
      ...[1, 2, EACH - 2, EACH - 1, EACH].flatMap((number) => [`deadLetter/${number}`, `deliver/${number}`]),
    ].toSorted(),
  );

  const all = await replayOpen(temporal, 1_000);
  expect(new Set(all.replayed).size).toBe(3 * EACH);
  expect(all.replayed).toHaveLength(3 * EACH);
  expect(hookedConstructors()).toBe(0);
});

/** Counts how often a promise's constructor is read when it settles. Some promises of WebCrypto have none. */
function hookedConstructors(): number {
  let reads = 0;
  const { promise, resolve } = Promise.withResolvers<undefined>();
  void Object.defineProperty(promise, "constructor", {
    get: () => {
      reads += 1;
      return Promise;
    },
  });
  resolve(undefined);
  return reads;
}

test("without Temporal, the doctor has a finding and does not fail", async () => {
  const address = `127.0.0.1:${await freePort()}`;
  const temporal = createLazyClient({
    address,
    namespace: "default",
    tls: false,
    metadata: {},
    compression: "none",
    patched: false,
  });
  onTestFinished(async () => await temporal.connection.close());
  expect(await examineOpen(temporal, 10)).toEqual({
    check: "replay",
    ok: false,
    detail: expect.stringMatching(/^[^\n]*: check Temporal first$/) as string,
  });
});
