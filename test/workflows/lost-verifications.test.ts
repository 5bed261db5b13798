/** Verifications whose workflow operators ended, or Temporal lost. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Client, Connection, type WorkflowHandle } from "@temporalio/client";
import { createPool } from "#database/pool.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { LostVerifications } from "#webhooks/endpoints/lost-verifications.ts";
import { createVerification } from "#webhooks/endpoints/verification.ts";
import { verifyWorkflowId } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { pauseWorkflow } from "../support/paused-workflow.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { TEST_CALLER, useWorld, type World } from "../support/world.ts";

// The worker looks for them every 15 seconds, and starts the next one 10 seconds later.
allowMinutes(3);
const PATIENCE_MS = 120_000;

const world = useWorld({ retryWindowMs: 259_200_000 });
const receivers: Receiver[] = [];

afterAll(async () => {
  await Promise.all(receivers.splice(0).map(async (receiver) => await receiver.close()));
});

interface Finder {
  readonly restart: (client?: Client) => Promise<number>;
  readonly close: () => Promise<void>;
}

/** Returns what every worker has, for rounds of `limit` verifications. */
function finder({ config, temporal }: World, limit = 100): Finder {
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 2, log });
  const rest = { pool, limit, clock: systemClock, log };
  const lost = new LostVerifications({ ...rest, client: temporal });
  return {
    restart: async (client) =>
      await (client === undefined ? lost : new LostVerifications({ ...rest, client })).restart(),
    close: async () => await pool.end(),
  };
}

/** Makes the next ping overdue. */
async function makeLate({ sql }: World, id: string, seconds: number): Promise<void> {
  const due = new Date(Date.now() - 1_000 * seconds);
  await sql.query("UPDATE endpoints SET verification_next_attempt_at = $2 WHERE id = $1", [id, due]);
}

interface Verifying {
  readonly tenant: string;
  readonly id: string;
  /** Waits for the verification after its first attempt. */
  readonly delivery: string;
  readonly receiver: Receiver;
  /** Its first run. */
  readonly run: WorkflowHandle;
  readonly find: () => Promise<Endpoint>;
}

/** Enables an endpoint again whose receiver answers 500, also to its first ping. */
async function reEnabled(): Promise<Verifying> {
  const { current } = world;
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  receivers.push(receiver);
  const tenant = await current.createTenant();
  const { id } = await current.createEndpoint(tenant, receiver.url);
  const find = async (): Promise<Endpoint> => await current.endpoints.find(tenant, id);
  const { deliveries } = await current.publish(tenant);
  const delivery = deliveries[0]?.id ?? "";
  await current.untilDelivery(tenant, delivery, ({ attempt_count: attemptCount }) => attemptCount === 1);
  await current.endpoints.disable(tenant, id, TEST_CALLER);
  const { generation } = await current.endpoints.enable(tenant, id, TEST_CALLER);
  await eventually(async () => (await find()).verification_attempts === 1, "the first ping");
  return {
    tenant,
    id,
    delivery,
    receiver,
    run: current.temporal.workflow.getHandle(verifyWorkflowId(id, generation)),
    find,
  };
}

const endings: Readonly<Record<string, (run: WorkflowHandle) => Promise<unknown>>> = {
  terminated: async (run) => await run.terminate("by hand"),
  cancelled: async (run) => await run.cancel(),
  deleted: async ({ client, workflowId }) =>
    await client.workflowService.deleteWorkflowExecution({
      namespace: world.current.config.temporalNamespace,
      workflowExecution: { workflowId },
    }),
};

describe("with a worker", () => {
  beforeAll(async () => {
    await world.current.startWorker();
  });

  describe.concurrent("a verification whose workflow is", () => {
    test.each(Object.entries(endings))(
      "%s goes on with the next one, and deliveries that waited for it are sent",
      async (_, end) => {
        const { current } = world;
        const { tenant, delivery, id, receiver, run, find } = await reEnabled();
        const { generation } = await find();
        await end(run);
        await run.result().catch(() => undefined);
        receiver.answer([{ kind: "answer" }]);
        await makeLate(current, id, 61);

        const active = await eventually(
          async () => await find().then((it) => (it.state === "ACTIVE" ? it : undefined)),
          "the verification",
          PATIENCE_MS,
        );
        expect(active).toMatchObject({ generation: generation + 1, verification_attempts: 2 });
        await current.untilDelivery(tenant, delivery, ({ state }) => state === "DELIVERED", PATIENCE_MS);
      },
    );
  });

  test("one whose workflow is paused is not signalled again and again, and goes on with its ping", async () => {
    const { current } = world;
    const { tenant, id, receiver, run, find } = await reEnabled();
    const unpause = await pauseWorkflow(current.temporal, run.workflowId);
    await makeLate(current, id, 3_600);
    const { restart, close } = finder(current);
    expect(await restart()).toBe(0);
    const { generation } = await current.endpoints.verify(tenant, id);
    const verification = createVerification(current.temporal, Math.random);
    for (let round = 0; round < 3; round += 1) {
      await verification.kick(
        { id, tenant_id: tenant, generation },
        async () => await Promise.resolve(undefined),
      );
    }
    const { events } = await run.fetchHistory();
    expect(events?.filter(({ workflowExecutionSignaledEventAttributes: signal }) => signal != null)).toEqual(
      [],
    );
    receiver.answer([{ kind: "answer" }]);
    await unpause();
    const active = async () => await find().then((it) => (it.state === "ACTIVE" ? it : undefined));
    expect(await eventually(active, "the verification", PATIENCE_MS)).toMatchObject({ generation });
    await close();
  });

  test("one whose workflow is open is left alone, however late its ping is", async () => {
    const { current } = world;
    const { tenant, id, run, find } = await reEnabled();
    await makeLate(current, id, 3_600);
    const before = await find();
    const { restart, close } = finder(current);
    expect(await restart()).toBe(0);
    expect(await find()).toEqual(before);
    expect((await run.describe()).status.name).toBe("RUNNING");
    await close();
    await current.endpoints.remove(tenant, id, TEST_CALLER);
  });
});

describe("a round", () => {
  const idle = useWorld();

  /** As a run leaves the row of its endpoint that was lost after its first ping. */
  async function lost(seconds: number): Promise<{ id: string; find: () => Promise<Endpoint> }> {
    const { current } = idle;
    const tenant = await current.createTenant();
    const { id } = await current.createEndpoint(tenant, "http://127.0.0.1:1/");
    await current.sql.query(
      "UPDATE endpoints SET state = 'PENDING', verification_state = 'RUNNING' WHERE id = $1",
      [id],
    );
    await makeLate(current, id, seconds);
    return { id, find: async () => await current.endpoints.find(tenant, id) };
  }

  test("moves nothing on a guess while Temporal is unreachable", async () => {
    const { find } = await lost(3_600);
    const before = await find();
    const connection = Connection.lazy({ address: "127.0.0.1:1" });
    const { restart, close } = finder(idle.current);
    await expect(
      connection.withDeadline(Date.now() + 500, async () => await restart(new Client({ connection }))),
    ).rejects.toMatchObject({ cause: { code: expect.any(Number) } });
    expect(await find()).toEqual(before);
    expect(await restart()).toBe(1);
    expect(await find()).toMatchObject({
      state: "PENDING",
      verification_state: "WANTED",
      generation: before.generation + 1,
      verification_next_attempt_at: null,
    });
    await Promise.all([close(), connection.close()]);
  });

  test("is bounded, and the next one goes on behind those whose workflow is open", async () => {
    const { temporal } = idle.current;
    const open = await lost(3_600);
    const handle = await temporal.workflow.start("verifyEndpoint", {
      workflowId: verifyWorkflowId(open.id, 1),
      taskQueue: "nobody-polls-here",
      args: [],
    });
    const gone = await lost(120);
    const recent = await lost(45);
    const { restart, close } = finder(idle.current, 1);
    expect(await restart()).toBe(0);
    expect(await restart()).toBe(1);
    expect(await restart()).toBe(0);
    expect(await gone.find()).toMatchObject({ verification_state: "WANTED", generation: 2 });
    for (const { find } of [open, recent]) {
      expect(await find()).toMatchObject({ verification_state: "RUNNING", generation: 1 });
    }
    await Promise.all([close(), handle.terminate()]);
  });
});
