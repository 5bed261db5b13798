import { randomBytes } from "node:crypto";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { LetterReconciler } from "#webhooks/engine/letter-reconciler.ts";
import { Reconciler } from "#webhooks/engine/reconciler.ts";
import { SEARCH_ATTRIBUTES } from "#workflows/messages.ts";
import { createPool } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { type Behaviour, type Receiver, startReceiver } from "../support/receiver-server.ts";
import { eventually } from "../support/eventually.ts";
import { pauseAtOnce, pauseWorkflow } from "../support/paused-workflow.ts";
import { useWorld } from "../support/world.ts";
import type { WorkerProcess } from "#processes/worker.ts";

const world = useWorld({ retryWindowMs: 259_200_000 });
const receivers: Receiver[] = [];

let worker: WorkerProcess;

beforeAll(async () => {
  worker = await world.current.startWorker();
});

afterEach(async () => {
  await Promise.all(receivers.splice(0).map(async (receiver) => await receiver.close()));
});

/** Returns a reconciler whose clock is more than a minute ahead, and the lines that it logs. */
function later(): {
  readonly reconciler: Reconciler;
  readonly lines: readonly { readonly level: string; readonly msg: string }[];
  readonly close: () => Promise<void>;
} {
  const { config, temporal } = world.current;
  const lines: { level: string; msg: string }[] = [];
  const log = createLogger({
    level: "info",
    destination: { write: (line) => void lines.push(JSON.parse(line) as { level: string; msg: string }) },
  });
  const pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 2, log });
  const clock = { now: () => Date.now() + 120_000 };
  return {
    reconciler: new Reconciler({ pool, client: temporal, clock, log }),
    lines,
    close: async () => await pool.end(),
  };
}

const OK = { kind: "answer", status: 200 } as const;
const FAILED = { kind: "answer", status: 500 } as const;

async function failedOnce(
  script: Behaviour[] = [FAILED, OK],
): Promise<{ tenant: string; id: string; receiver: Receiver }> {
  const { current } = world;
  const receiver = await startReceiver({ script });
  receivers.push(receiver);
  const tenant = await current.createTenant();
  await current.createEndpoint(tenant, receiver.url);
  const { deliveries } = await current.publish(tenant);
  const id = deliveries[0]?.id ?? "";
  await current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
  return { tenant, id, receiver };
}

/** Starts a workflow by the name of a delivery that it does not carry. */
async function occupy(workflowId: string): Promise<void> {
  await world.current.temporal.workflow.start("deliver", {
    workflowId,
    taskQueue: "nobody-polls-here",
    args: [],
    typedSearchAttributes: [{ key: SEARCH_ATTRIBUTES.delivery, value: ["dlv_of_another_list"] }],
  });
}

/** Accepts a second delivery of an event that has been delivered, with a carrier that has claimed it or none. */
async function accepted(
  receiver: Receiver,
  carrier: string | null,
  id = newId("delivery", Date.now(), randomBytes),
): Promise<{ readonly tenant: string; readonly id: string }> {
  const { current } = world;
  const tenant = await current.createTenant();
  await current.createEndpoint(tenant, receiver.url);
  const { deliveries } = await current.publish(tenant);
  await current.untilDelivery(tenant, deliveries[0]?.id ?? "", ({ state }) => state === "DELIVERED");
  await current.sql.query(
    `INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, carrier, claimed_at, created_at)
      SELECT day, $1, tenant_id, event_id, event_type, endpoint_id, 'QUEUED', $2,
        CASE WHEN $2::text IS NOT NULL THEN now() END, created_at
      FROM deliveries WHERE id = $3`,
    [id, carrier, deliveries[0]?.id],
  );
  return { tenant, id };
}

describe("an overdue delivery", () => {
  test("whose workflow is gone gets a new one from its row, and keeps its attempts", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    await (await current.workflowOf(tenant, id)).terminate("lost");
    const { reconciler, close } = later();
    expect(await reconciler.reconcile()).toEqual({ moved: 1, late: 0 });
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1 });
    // Alone, it goes on under its own id.
    expect(delivered.workflow_id).toBe(id);
    expect(receiver.requests).toHaveLength(2);
    expect(await reconciler.reconcile()).toEqual({ moved: 0, late: 0 });
    await close();
  });

  test("whose workflow is open is nudged and stays there", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const { workflowId } = await current.workflowOf(tenant, id);
    await current.sql.query("DELETE FROM endpoint_health");
    const { reconciler, close } = later();
    expect(await reconciler.reconcile()).toEqual({ moved: 0, late: 1 });
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, workflow_id: workflowId });
    expect(receiver.requests).toHaveLength(2);
    await close();
  });

  test("whose workflow is paused stays there unsent, also if it is asked for, and goes on once", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const handle = await current.workflowOf(tenant, id);
    await current.sql.query("DELETE FROM endpoint_health");
    const unpause = await pauseWorkflow(current.temporal, handle.workflowId);
    await current.deliveries.retry(tenant, id);
    const { reconciler, close } = later();
    for (let round = 0; round < 2; round += 1) {
      expect(await reconciler.reconcile()).toEqual({ moved: 0, late: 1 });
    }
    const { events } = await handle.fetchHistory();
    const signals = events?.filter(({ workflowExecutionSignaledEventAttributes: signal }) => signal != null);
    // The signal of the retry; the reconciler sends none.
    expect(signals).toHaveLength(1);
    expect(receiver.requests).toHaveLength(1);
    await unpause();
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1, workflow_id: handle.workflowId });
    await handle.result();
    expect(receiver.requests).toHaveLength(2);
    await close();
  });

  test("whose workflow no worker can replay since a pause goes on in it", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const handle = await current.workflowOf(tenant, id);
    await current.sql.query("DELETE FROM endpoint_health");
    await worker.close();
    await handle.signal("attemptNow");
    const unpause = await pauseAtOnce(current.temporal, handle.workflowId);
    await unpause();
    worker = await current.startWorker();
    await eventually(
      async () => ((await handle.describe()).raw.pendingWorkflowTask?.attempt ?? 0) > 1,
      "a failed task",
    );
    const { reconciler, close } = later();
    expect(await reconciler.reconcile()).toEqual({ moved: 0, late: 1 });
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1, workflow_id: handle.workflowId });
    expect(receiver.requests).toHaveLength(2);
    await close();
  });

  test("that is cancelled while its workflow is paused is cancelled at once, and never sent", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const handle = await current.workflowOf(tenant, id);
    const unpause = await pauseWorkflow(current.temporal, handle.workflowId);
    expect(await current.deliveries.cancel(tenant, id)).toMatchObject({ state: "CANCELLED" });
    await unpause();
    await handle.result();
    expect(receiver.requests).toHaveLength(1);
  });

  test("that is a dead letter of a paused workflow stays there, without a warning", async () => {
    const { current } = world;
    const { tenant, id } = await failedOnce();
    await current.sql.query("UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'tenant'");
    await current.deliveries.retry(tenant, id);
    await current.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED");
    const list = async (status: string): Promise<number> => {
      const query = `WorkflowType="deadLetter" AND WorkflowId="${id}" AND ExecutionStatus="${status}"`;
      return (await current.temporal.workflow.count(query)).count;
    };
    await eventually(async () => (await list("Running")) === 1, "the workflow of the dead letter");
    const unpause = await pauseWorkflow(current.temporal, id);
    await eventually(async () => (await list("Paused")) === 1, "visibility to show the pause");
    const lines: string[] = [];
    const { config, temporal } = current;
    const log = createLogger({ level: "debug", destination: { write: (line) => void lines.push(line) } });
    const pool = createPool({ url: config.databaseUrl, role: "signet_worker", max: 2, log });
    const clock = { now: () => Date.now() + 120_000 };
    const letters = new LetterReconciler({ pool, client: temporal, clock, log });
    expect(await letters.differences()).toEqual([]);
    expect(lines.filter((line) => line.includes(id))).toEqual([]);
    await unpause();
    await pool.end();
  });

  test("that its open workflow takes for a dead letter, because PostgreSQL was put back, gets another one", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const before = await current.deliveries.find(tenant, id);
    const setEndpoint = async (state: string): Promise<unknown> =>
      await current.sql.query("UPDATE endpoints SET state = $2 WHERE id = $1", [before.endpoint_id, state]);
    await setEndpoint("DISABLED");
    await (await current.workflowOf(tenant, id)).signal("attemptNow");
    await current.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED");
    const handle = current.temporal.workflow.getHandle(before.workflow_id ?? "");
    await eventually(
      async () => (await handle.describe()).type === "deadLetter",
      "the workflow of a dead letter",
    );
    await setEndpoint("ACTIVE");
    await current.sql.query("DELETE FROM endpoint_health");
    await current.sql.query(
      "UPDATE deliveries SET state = 'RETRYING', reason = NULL, dead_lettered_at = NULL, expires_at = NULL, next_attempt_at = $2 WHERE id = $1",
      [id, before.next_attempt_at],
    );
    const { reconciler, close } = later();
    await eventually(
      async () => (await reconciler.reconcile()).moved === 1,
      "its workflow to be a dead letter's",
    );
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1 });
    expect(receiver.requests).toHaveLength(2);
    await close();
  });

  test("whose id is the name of another open workflow gets one of another name", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    const handle = await current.workflowOf(tenant, id);
    await handle.terminate("lost");
    await current.temporal.workflow.start("deliver", {
      workflowId: id,
      taskQueue: "nobody-polls-here",
      args: [],
    });
    await current.sql.query(
      "UPDATE deliveries SET carrier = NULL, epoch = epoch + 1, claimed_at = NULL, next_attempt_at = now() WHERE id = $1",
      [id],
    );
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered.workflow_id).toMatch(/^bat_/);
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1 });
    expect(receiver.requests).toHaveLength(2);
    await current.temporal.workflow.getHandle(id).terminate("done");
  });

  test("whose open workflow does not know it gets another one, although its endpoint is slow", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce();
    await (await current.workflowOf(tenant, id)).terminate("lost");
    await occupy(id);
    await current.sql.query(
      `INSERT INTO endpoint_health (endpoint_id, latency_ms, slow_until)
        SELECT endpoint_id, 1, now() + interval '1 hour' FROM deliveries WHERE id = $1
        ON CONFLICT (endpoint_id) DO UPDATE SET slow_until = excluded.slow_until`,
      [id],
    );
    const { reconciler, close } = later();
    expect(await reconciler.reconcile()).toEqual({ moved: 1, late: 0 });
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1 });
    expect(receiver.requests).toHaveLength(2);
    await current.temporal.workflow.getHandle(id).terminate("done");
    await close();
  });

  test("that was claimed and whose workflow ended before its first attempt gets a new one", async () => {
    const { current } = world;
    const receiver = await startReceiver();
    receivers.push(receiver);
    const carrier = newId("batch", Date.now(), randomBytes);
    const handle = await current.temporal.workflow.start("deliver", {
      workflowId: carrier,
      taskQueue: "nobody-polls-here",
      args: [],
    });
    await handle.terminate("lost");
    const { tenant, id } = await accepted(receiver, carrier);
    const { reconciler, close } = later();
    expect(await reconciler.reconcile()).toEqual({ moved: 1, late: 0 });
    await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(receiver.requests).toHaveLength(2);
    await close();
  });

  test("whose workflow may still be starting stays there, and is carried again once no start goes on", async () => {
    const { current } = world;
    const { tenant, id } = await failedOnce();
    await (await current.workflowOf(tenant, id)).terminate("lost");
    // The job that brings future instants back leaves those of a limited endpoint, which are the times of their places.
    await current.sql.query(
      "UPDATE endpoints SET rate_limit = 100 WHERE id = (SELECT endpoint_id FROM deliveries WHERE id = $1)",
      [id],
    );
    const claim = async (secondsAhead: number): Promise<void> => {
      await current.sql.query(
        `UPDATE deliveries SET carrier = $2, state = 'QUEUED', claimed_at = now() + $3 * interval '1 second'
          WHERE id = $1`,
        [id, newId("batch", Date.now(), randomBytes), secondsAhead],
      );
    };
    const { reconciler, lines, close } = later();
    await claim(60);
    expect(await reconciler.reconcile()).toEqual({ moved: 0, late: 0 });
    expect(lines).toEqual([]);
    await claim(50);
    expect(await reconciler.reconcile()).toEqual({ moved: 1, late: 0 });
    expect(lines).toMatchObject([
      { level: "warn", msg: "Temporal does not know a carrier; its first attempts are carried again" },
    ]);
    await close();
  });

  test("that two workers take from a lost carrier at once is moved and logged once", async () => {
    const { current } = world;
    const { tenant, id } = await failedOnce();
    await (await current.workflowOf(tenant, id)).terminate("lost");
    const reconcilers = [later(), later()];
    await current.sql.query("BEGIN");
    await current.sql.query("SELECT FROM deliveries WHERE id = $1 FOR UPDATE", [id]);
    const rounds = reconcilers.map(async ({ reconciler }) => await reconciler.reconcile());
    await eventually(async () => {
      await current.sql.query("SELECT pg_stat_clear_snapshot()");
      const { rows } = await current.sql.query<{ count: number }>(
        `SELECT count(*)::int FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%epoch = d.epoch + 1%'`,
      );
      return rows[0]?.count === 2;
    }, "both reconcilers to wait for the row");
    await current.sql.query("COMMIT");
    expect((await Promise.all(rounds)).map(({ moved }) => moved).toSorted((a, b) => a - b)).toEqual([0, 1]);
    expect(reconcilers.flatMap(({ lines }) => lines)).toMatchObject([
      { level: "error", msg: "a carrier is gone or does not know its deliveries; they are carried again" },
    ]);
    await Promise.all(reconcilers.map(async ({ close }) => await close()));
  });
});

describe("a first attempt for whose workflow the id is taken", () => {
  const MOVED = "a carrier is gone";

  test("leaves a workflow that does not know it, and goes on at once", async () => {
    const { current } = world;
    const receiver = await startReceiver({ script: [OK, FAILED, OK] });
    receivers.push(receiver);
    const id = newId("delivery", Date.now(), randomBytes);
    await occupy(id);
    const { tenant } = await accepted(receiver, null, id);
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered).toMatchObject({ attempt_count: 2, cycle: 1 });
    expect(delivered.workflow_id).not.toBe(id);
    expect(receiver.requests).toHaveLength(3);
    // The reconciler would have found it a minute later.
    const moved = current.observed
      .log()
      .split("\n")
      .filter((line) => line.includes(MOVED));
    expect(moved.filter((line) => line.includes(id))).toEqual([]);
    await current.temporal.workflow.getHandle(id).terminate("done");
  });

  test("goes on if PostgreSQL lost the claims that its workflow was started for, as in a fail-over", async () => {
    const { current } = world;
    const { tenant, id, receiver } = await failedOnce([FAILED, FAILED, OK]);
    // Carried again, its workflow has a later fence than the row will have.
    await (await current.workflowOf(tenant, id)).terminate("lost");
    const { reconciler, close } = later();
    // Retries of earlier tests may be late on a slow machine.
    expect(await reconciler.reconcile()).toMatchObject({ moved: 1 });
    await current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
    await current.sql.query("DELETE FROM attempts WHERE delivery_id = $1", [id]);
    await current.sql.query(
      `UPDATE deliveries SET state = 'QUEUED', reason = NULL, carrier = NULL, epoch = 1, claimed_at = NULL,
        claimed_by = NULL, attempt_count = 0, cycle_started_at = NULL, next_attempt_at = NULL WHERE id = $1`,
      [id],
    );
    const delivered = await current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    expect(delivered.workflow_id).not.toBe(id);
    expect(receiver.requests).toHaveLength(3);
    await close();
  });
});
