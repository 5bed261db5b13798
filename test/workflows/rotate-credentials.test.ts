/** The `rotateCredentials` schedule: runs by itself, and Temporal sees no secret. */
import { expect, test } from "vitest";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { fetchRuns, textOf } from "../support/histories.ts";
import { triggerSchedule } from "../support/temporal-cli.ts";
import { useWorld } from "../support/world.ts";

const made = useWorld();

test("the sweep runs every five minutes, and its history holds only numbers", async () => {
  const world = made.current;
  await world.startWorker();
  const schedule = world.temporal.schedule.getHandle(WORKFLOW_TYPES.rotateCredentials);
  const description = await eventually(
    async () => await schedule.describe().catch(() => undefined),
    "the schedule to be created",
  );
  expect(description.spec.intervals?.map(({ every }) => every)).toEqual([300_000]);
  await triggerSchedule(world, WORKFLOW_TYPES.rotateCredentials);
  const workflowId = await eventually(async () => {
    const { recentActions } = (await schedule.describe()).info;
    const action = recentActions.at(-1)?.action;
    return action?.type === "startWorkflow" ? action.workflow.workflowId : undefined;
  }, "the schedule to start a run");
  const result: unknown = await world.temporal.workflow.getHandle(workflowId).result();
  expect(result).toEqual({ due: 0, retired: 0, rescues_ended: 0, delivered: 0, overdue: 0, ended: 0 });
  expect(textOf(await fetchRuns(world, workflowId))).not.toMatch(/sgn_|v1\./);
});
