import { beforeAll, describe, expect, test } from "vitest";
import { setTenantHold } from "#database/repositories/tenants.ts";
import type { Delivery } from "#database/repositories/webhooks/deliveries.ts";
import { attemptNowUpdate, statusQuery } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { failedTasks, fetchRuns, textOf } from "../support/histories.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { signalByCli, temporalCli } from "../support/temporal-cli.ts";
import { LIST_SIZES, TEST_CALLER, useWorld, type World } from "../support/world.ts";

const worlds = {
  1: useWorld({ retryWindowMs: 1_000, listMax: 1 }),
  64: useWorld({ retryWindowMs: 1_000, listMax: 64 }),
} as const;

/** Its attempts are far apart. */
const slow = useWorld({ retryWindowMs: 259_200_000 });

beforeAll(async () => {
  await Promise.all(Object.values(worlds).map(async ({ current }) => await current.startWorker()));
});

interface DeadLetter {
  readonly world: World;
  readonly receiver: Receiver;
  readonly tenant: string;
  readonly endpoint: string;
  readonly ids: readonly string[];
  /** Id of the first delivery. */
  readonly id: string;
  /** Workflow of the first delivery. */
  readonly carrier: string;
  /** Workflows of all deliveries. */
  readonly carriers: ReadonlySet<string>;
  readonly until: (wanted: (delivery: Delivery) => boolean) => Promise<Delivery>;
}

/** Creates deliveries whose receiver has failed 17 times and accepts the next attempt. */
async function makeDeadLetter(count = 1, world = worlds[64].current): Promise<DeadLetter> {
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  const tenant = await world.createTenant();
  const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
  const published = await Promise.all(Array.from({ length: count }, async () => await world.publish(tenant)));
  const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
  const carriers = await Promise.all(ids.map(async (id) => await untilQuiet(world, tenant, id)));
  receiver.answer([{ kind: "answer" }]);
  const [id = ""] = ids;
  const until: DeadLetter["until"] = async (wanted) => await world.untilDelivery(tenant, id, wanted);
  const [carrier = ""] = carriers;
  return { world, receiver, tenant, endpoint, ids, id, carrier, carriers: new Set(carriers), until };
}

/** A dead letter's workflow continues as new once, and Temporal rejects signals at that moment. */
async function untilQuiet(world: World, tenant: string, id: string): Promise<string> {
  const { workflow_id: carrier } = await world.untilDelivery(
    tenant,
    id,
    ({ state }) => state === "DEAD_LETTERED",
  );
  const handle = world.temporal.workflow.getHandle(carrier ?? "");
  await eventually(async () => {
    const { workflowExecutionInfo: info } = (await handle.describe()).raw;
    return info?.firstRunId !== info?.execution?.runId;
  }, "the quiet run");
  return handle.workflowId;
}

const delivered = ({ state }: Delivery): boolean => state === "DELIVERED";

/** Checks the result of a replay, however it was requested. */
async function expectReplayed({ world, receiver, tenant, id, until }: DeadLetter): Promise<void> {
  const replayed = await until(delivered);
  expect(replayed).toMatchObject({ cycle: 2, attempt_count: 1, reason: null, expires_at: null });
  expect(replayed.workflow_id).toMatch(/^bat_/);
  expect(receiver.requests).toHaveLength(18);
  expect(receiver.requests.at(-1)?.headers["x-service-attempt"]).toBe("1");
  const attempts = await world.attempts(tenant, id);
  expect(attempts.map(({ cycle, attempt }) => `${cycle}/${attempt}`)).toEqual([
    ...Array.from({ length: 17 }, (_, index) => `1/${index + 1}`),
    "2/1",
  ]);
}

async function expectStatus({ world }: DeadLetter, workflowId: string, name: string): Promise<void> {
  await eventually(
    async () => (await world.temporal.workflow.getHandle(workflowId).describe()).status.name === name,
    `${workflowId} to be ${name}`,
  );
}

/** Waits until a workflow of dead letters carries the delivery under its own id. */
async function untilCarriedAlone({ temporal, deliveries }: World, tenant: string, id: string): Promise<void> {
  await eventually(async () => {
    const { workflow_id: carrier } = await deliveries.find(tenant, id);
    const { type, status } = await temporal.workflow
      .getHandle(carrier ?? "none")
      .describe()
      .catch(() => ({ type: "", status: { name: "" } }));
    return carrier === id && type === "deadLetter" && status.name === "RUNNING";
  }, `a workflow of dead letter ${id}`);
}

/** How operators end the workflow of a dead letter. Its last signal is internal, and typed all the same. */
const ENDINGS: Readonly<Record<string, (letter: DeadLetter) => Promise<unknown>>> = {
  terminated: async ({ world, carrier }) =>
    await world.temporal.workflow.getHandle(carrier).terminate("by hand"),
  deleted: async ({ world, carrier: workflowId }) =>
    await world.temporal.workflowService.deleteWorkflowExecution({
      namespace: world.config.temporalNamespace,
      workflowExecution: { workflowId },
    }),
  released: async ({ world, carrier, id }) =>
    await signalByCli(world, carrier, "release", "--input", JSON.stringify({ delivery_ids: [id] })),
};

describe.concurrent("a dead letter", () => {
  test("that dies beside retrying deliveries moves to a workflow of dead letters; the others stay", async () => {
    const world = slow.current;
    // The first one waits, as its receiver requested. The list has closed before it answers, so none leaves.
    const failure = { kind: "answer", status: 500 } as const;
    const late = { ...failure, delayMs: 2_000 };
    const waits = { ...late, headers: { "retry-after": "7200" } };
    const receiver = await startReceiver({ script: [waits, late, failure] });
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, receiver.url);
    // They wait together, so that one claim takes both.
    await setTenantHold(world.sql, tenant, new Date());
    const published = [await world.publish(tenant), await world.publish(tenant)];
    const worker = await world.startWorker();
    await setTenantHold(world.sql, tenant, null);
    const failed = await Promise.all(
      published.map(
        async ({ deliveries }) =>
          await world.untilDelivery(
            tenant,
            deliveries[0]?.id ?? "",
            ({ attempt_count: attemptCount }) => attemptCount === 1,
          ),
      ),
    );
    const [id = "", other = ""] = failed
      .toSorted((a, b) => Number(a.next_attempt_at) - Number(b.next_attempt_at))
      .map((delivery) => delivery.id);
    const { workflowId } = await world.workflowOf(tenant, id);
    expect((await world.workflowOf(tenant, other)).workflowId).toBe(workflowId);
    for (let attempts = 1; attempts < 17; attempts += 1) {
      await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === attempts);
      const handle = await world.workflowOf(tenant, id);
      await handle.executeUpdate(attemptNowUpdate, { args: [{ delivery_ids: [id], by: "ada" }] });
    }
    await untilCarriedAlone(world, tenant, id);
    const retried = await world.deliveries.find(tenant, other);
    expect(retried).toMatchObject({ state: "RETRYING", attempt_count: 1, workflow_id: workflowId });
    expect(workflowId).not.toBe(id);
    await worker.close();
    await receiver.close();
  });

  test.each(Object.keys(ENDINGS))(
    "whose workflow was %s gets another one, and can be replayed",
    async (how) => {
      const letter = await makeDeadLetter();
      const { world, tenant, id, carrier } = letter;
      const handle = world.temporal.workflow.getHandle(carrier);
      await ENDINGS[how]?.(letter);
      await eventually(
        async () =>
          ["TERMINATED", "COMPLETED", "gone"].includes(
            await handle.describe().then(
              ({ status }) => status.name,
              () => "gone",
            ),
          ),
        "the end of its workflow",
      );
      await untilCarriedAlone(world, tenant, id);
      await signalByCli(world, id, "replay");
      await expectReplayed(letter);
      await letter.receiver.close();
    },
  );

  test("is replayed by an operator's signal from the command line, in a new cycle under a new carrier", async () => {
    const letter = await makeDeadLetter();
    await signalByCli(letter.world, letter.carrier, "replay");
    await expectReplayed(letter);
    await expectStatus(letter, letter.carrier, "COMPLETED");
    expect(await letter.world.temporal.workflow.getHandle(letter.carrier).result()).toMatchObject({
      replayed: 1,
    });
    await expectStatus(letter, (await letter.until(delivered)).workflow_id ?? "", "COMPLETED");
    await letter.receiver.close();
  });

  test("records who requested the replay in its workflow's history", async () => {
    const letter = await makeDeadLetter();
    const input = JSON.stringify({ by: "ann@operators", delivery_ids: [letter.id] });
    await signalByCli(letter.world, letter.carrier, "replay", "--input", input);
    await expectReplayed(letter);
    const runs = await fetchRuns(letter.world, letter.carrier);
    expect(textOf(runs.at(-1))).toContain('"by":"ann@operators"');
    await letter.receiver.close();
  });

  test.each(LIST_SIZES)(
    "is found by state and endpoint, and all matches are replayed by one command, with at most %i in a workflow",
    async (listMax) => {
      const { current: world } = worlds[listMax];
      const [letter, other] = await Promise.all([makeDeadLetter(2, world), makeDeadLetter(1, world)]);
      const { tenant, receiver } = letter;
      const query = `SignetState="DEAD_LETTERED" AND SignetEndpoint="${letter.endpoint}"`;
      await eventually(async () => {
        const { count } = await world.temporal.workflow.count(`${query} AND CloseTime IS NULL`);
        return count === letter.carriers.size;
      }, "visibility to know the dead letters");
      const args = ["--query", query, "--name", "replay", "--yes", "--reason", "receiver fixed"];
      await temporalCli(world, "workflow", "signal", ...args);
      for (const id of letter.ids) {
        expect(await world.untilDelivery(tenant, id, delivered)).toMatchObject({
          cycle: 2,
          attempt_count: 1,
        });
      }
      expect(receiver.requests).toHaveLength(2 * 18);
      expect(await other.until(() => true)).toMatchObject({ state: "DEAD_LETTERED", cycle: 1 });
      await Promise.all([receiver.close(), other.receiver.close()]);
    },
  );

  test("is replayed once after many concurrent requests, through the api and by signals", async () => {
    const letter = await makeDeadLetter();
    const { world, tenant, id, carrier } = letter;
    const handle = world.temporal.workflow.getHandle(carrier);
    const asked = await Promise.allSettled([
      world.deliveries.replay(tenant, id, TEST_CALLER),
      handle.signal("replay", { by: "first" }),
      world.deliveries.replay(tenant, id, TEST_CALLER),
      handle.signal("replay"),
      world.deliveries.replay(tenant, id, TEST_CALLER),
    ]);
    const refused = [asked[0], asked[2], asked[4]].filter((each) => each?.status === "rejected");
    expect(refused.length).toBeGreaterThanOrEqual(2);
    for (const each of refused) {
      expect(each).toMatchObject({ reason: { code: "INVALID_STATE" } });
    }
    await expectReplayed(letter);
    await expectStatus(letter, carrier, "COMPLETED");
    expect(await letter.until(() => true)).toMatchObject({ state: "DELIVERED", cycle: 2 });
    await letter.receiver.close();
  });

  test("ignores invalid signals", async () => {
    const letter = await makeDeadLetter();
    const { world, id, carrier } = letter;
    const inputs = [
      '"all"',
      "42",
      "[]",
      "true",
      '{"delivery_ids":"all"}',
      '{"delivery_id":"all"}',
      '{"delivery_ids":{}}',
      '{"delivery_ids":[]}',
      '{"delivery_ids":[null,7,["x"]]}',
      '{"delivery_ids":[{"toString":1,"valueOf":2}]}',
      '{"delivery_ids":["dlv_00000000000000000000000000"],"by":{"toString":1}}',
    ];
    const handle = world.temporal.workflow.getHandle(carrier);
    for (const name of ["replay", "cancel", "attemptNow", "release"]) {
      for (const input of inputs) {
        await handle.signal(name, JSON.parse(input) as unknown);
      }
    }
    await signalByCli(world, carrier, "explode");
    const status = await handle.query(statusQuery);
    expect(status).toMatchObject({ open: 1, members: [{ delivery_id: id, state: "DEAD_LETTERED" }] });
    expect(await letter.until(() => true)).toMatchObject({ state: "DEAD_LETTERED", cycle: 1 });
    const runs = await fetchRuns(world, carrier);
    for (const { events } of runs) {
      expect(failedTasks(events)).toEqual([]);
    }
    await signalByCli(world, carrier, "replay");
    await expectReplayed(letter);
    await letter.receiver.close();
  });

  test("ignores signals whose input cannot be decoded", async () => {
    const letter = await makeDeadLetter();
    const { world, id, carrier } = letter;
    for (const encoding of ["json/plain", "binary/plain", "json/protobuf", "made/up", ""]) {
      const payload = { metadata: { encoding: Buffer.from(encoding) }, data: Buffer.from("not json") };
      await world.temporal.workflowService.signalWorkflowExecution({
        namespace: world.config.temporalNamespace,
        workflowExecution: { workflowId: carrier },
        signalName: "replay",
        input: { payloads: [payload] },
      });
    }
    const status = await world.temporal.workflow.getHandle(carrier).query(statusQuery);
    expect(status).toMatchObject({ open: 1, members: [{ delivery_id: id }] });
    expect(await letter.until(() => true)).toMatchObject({ state: "DEAD_LETTERED", cycle: 1 });
    await signalByCli(world, carrier, "replay");
    await expectReplayed(letter);
    await letter.receiver.close();
  });
});
