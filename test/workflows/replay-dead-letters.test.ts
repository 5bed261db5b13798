/** Operators' view of a replay job's workflow: signals by `temporal`, query, end, and sweep. */
import { describe, expect, test } from "vitest";
import type { ReplayJob } from "#database/repositories/webhooks/replay-jobs.ts";
import { kickReplay } from "#webhooks/replay/replay-starter.ts";
import { replayStatusQuery, replayWorkflowId, TASK_QUEUES, WORKFLOW_TYPES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { failedTasks, fetchRuns } from "../support/histories.ts";
import { pauseWorkflow } from "../support/paused-workflow.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { signalByCli, temporalCli } from "../support/temporal-cli.ts";
import { useSharedWorld } from "../support/world.ts";

const made = useSharedWorld();

interface Made {
  readonly tenant: string;
  readonly ids: readonly string[];
  readonly job: ReplayJob;
  readonly workflowId: string;
  readonly until: (wanted: (job: ReplayJob) => boolean) => Promise<ReplayJob>;
}

async function makeJob(count: number, ratePerSecond: number): Promise<Made> {
  const world = made.current;
  const tenant = await world.createTenant();
  const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
  const ids = await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count });
  const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond });
  const until: Made["until"] = async (wanted) =>
    await eventually(async () => {
      const found = await world.replays.find(tenant, job.id);
      return wanted(found) ? found : undefined;
    }, `replay ${job.id}`);
  return { tenant, ids, job, workflowId: replayWorkflowId(job.id), until };
}

describe.concurrent("an operator", () => {
  test("pauses, resumes and cancels with `temporal workflow signal`, and reads its state with a query", async () => {
    const world = made.current;
    const { job, workflowId, until } = await makeJob(500, 4);
    world.replays.kick(job);
    await until(({ done }) => done >= 4);
    await signalByCli(world, workflowId, "pause", "--input", '{"by":"ada"}');
    const paused = await until(({ state }) => state === "PAUSED");
    const query = ["workflow", "query", "--workflow-id", workflowId, "--name", "status"];
    // The row changes first.
    await eventually(
      async () => (await temporalCli(world, ...query)).includes('"state":"PAUSED"'),
      "the workflow to report it",
    );
    await signalByCli(world, workflowId, "resume");
    await until(({ done, state }) => state === "RUNNING" && done > paused.done);
    await signalByCli(world, workflowId, "cancel", "--input", '{"by":"ada"}');
    const cancelled = await until(({ state }) => state === "CANCELLED");
    expect(cancelled.done).toBeLessThan(500);
    expect(await world.temporal.workflow.result(workflowId)).toMatchObject({
      state: "CANCELLED",
      total: 500,
      done: cancelled.done,
    });
  });

  test("cancels the job by cancelling or terminating the workflow", async () => {
    const world = made.current;
    const one = await makeJob(500, 1);
    world.replays.kick(one.job);
    await one.until(({ done }) => done >= 1);
    await world.temporal.workflow.getHandle(one.workflowId).cancel();
    await one.until(({ state }) => state === "CANCELLED");

    const two = await makeJob(500, 1);
    world.replays.kick(two.job);
    await two.until(({ done }) => done >= 1);
    await world.temporal.workflow.getHandle(two.workflowId).terminate("by hand");
    // The sweep detects its silence.
    await two.until(({ state }) => state === "CANCELLED");
  });
});

test.concurrent("a job whose workflow is paused is not signalled again and again, and goes on", async () => {
  const { temporal, replays } = made.current;
  const { tenant, job, workflowId, until } = await makeJob(500, 1);
  replays.kick(job);
  await until(({ done }) => done >= 1);
  const unpause = await pauseWorkflow(temporal, workflowId);
  for (let round = 0; round < 3; round += 1) {
    expect(await kickReplay(temporal, job)).toBe(true);
  }
  const { events } = await temporal.workflow.getHandle(workflowId).fetchHistory();
  expect(events?.filter(({ workflowExecutionSignaledEventAttributes: signal }) => signal != null)).toEqual(
    [],
  );
  const { done: before } = await replays.find(tenant, job.id);
  await unpause();
  await until(({ done }) => done > before);
  await temporal.workflow.getHandle(workflowId).cancel();
  await until(({ state }) => state === "CANCELLED");
});

describe.concurrent("the workflow", () => {
  test("of a job that was not started at once is started by the sweep", async () => {
    const { until } = await makeJob(3, 500);
    expect(await until(({ state }) => state === "COMPLETED")).toMatchObject({ done: 3 });
  });

  test("continues as new and loses nothing", async () => {
    const world = made.current;
    const { job, workflowId, ids, until } = await makeJob(60, 20);
    const { total } = job;
    await world.temporal.workflow.start(WORKFLOW_TYPES.replayDeadLetters, {
      workflowId,
      taskQueue: TASK_QUEUES.control,
      args: [
        {
          v: 1,
          job_id: job.id,
          rate_per_second: 20,
          history_max: 10,
          status: { state: "RUNNING", total, done: 0, failed: 0, skipped: 0, position: 0 },
        },
      ],
    });
    expect(await until(({ state }) => state === "COMPLETED")).toMatchObject({ done: 60, skipped: 0 });
    const runs = await fetchRuns(world, workflowId);
    expect(runs.length).toBeGreaterThan(1);
    expect(runs.flatMap(({ events }) => failedTasks(events))).toEqual([]);
    const { rows } = await world.sql.query("SELECT DISTINCT cycle FROM deliveries WHERE id = ANY ($1)", [
      ids,
    ]);
    expect(rows).toEqual([{ cycle: 2 }]);
    const handle = world.temporal.workflow.getHandle(workflowId);
    expect(await handle.query(replayStatusQuery)).toMatchObject({ state: "COMPLETED", done: 60 });
  });
});
