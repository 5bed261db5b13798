/** The texts of each workflow in Temporal's UI: they show its state, and their commands work as pasted. */
import { beforeAll, describe, expect, test } from "vitest";
import { replayWorkflowId, TASK_QUEUES, verifyWorkflowId, WORKFLOW_TYPES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { detailsOf, fetchRuns, summariesOf } from "../support/histories.ts";
import { withoutPause } from "../support/pauses.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { seedDeadLetters } from "../support/seeded-letters.ts";
import { paste, signalByCli, temporalCli } from "../support/temporal-cli.ts";
import { useWorld } from "../support/world.ts";

// The real schedule, so that the state stays the same while it is read.
// Each delivery has a workflow of its own, so that concurrent tests do not share one.
const made = useWorld({ retryWindowMs: 259_200_000, listMax: 1 });

beforeAll(async () => {
  await made.current.startWorker();
});

async function untilDetails(workflowId: string, wanted: RegExp): Promise<string> {
  return await eventually(async () => {
    const details = await detailsOf(made.current, workflowId);
    return wanted.test(details) ? details : undefined;
  }, `${workflowId} to say ${wanted}`);
}

async function summaries(workflowId: string): Promise<string[]> {
  return (await fetchRuns(made.current, workflowId)).flatMap(summariesOf);
}

/** Returns a signal's command from the details. */
function commandOf(details: string, signal: string): string {
  const [, code = ""] = /```sh\n([\s\S]*?)\n```/.exec(details) ?? [];
  return code.split(/\n(?=temporal )/).find((command) => command.endsWith(`--name ${signal}`)) ?? "exit 1";
}

describe.concurrent("in Temporal's UI", () => {
  test("a retrying delivery shows attempts, times and commands, and the commands work", async () => {
    await withoutPause(async () => {
      const world = made.current;
      // No attempt by schedule comes before the commands.
      const failure = { kind: "answer", status: 500, headers: { "retry-after": "3600" } } as const;
      const receiver = await startReceiver({ script: [failure] });
      const tenant = await world.createTenant();
      const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
      const { deliveries } = await world.publish(tenant);
      const id = deliveries[0]?.id ?? "";
      await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
      const { workflowId } = await world.workflowOf(tenant, id);

      const first = await untilDetails(workflowId, / 1 of 17 /);
      expect(first).toContain(`**1 delivery** for ${endpoint}: 1 retrying.`);
      expect(first).toMatch(
        new RegExp(
          `\\| \`${id}\` \\| 1 of 17 \\| \`500\` \\| 20\\d\\d-\\d\\d-\\d\\d \\d\\d:\\d\\d:\\d\\dZ \\|`,
        ),
      );
      expect(commandOf(first, "replay")).toBe("exit 1");

      await paste(world.config.temporalAddress, commandOf(first, "attemptNow"));
      const second = await untilDetails(workflowId, / 2 of 17 /);
      await paste(world.config.temporalAddress, commandOf(second, "cancel"));
      await world.untilDelivery(tenant, id, ({ state }) => state === "CANCELLED");
      expect(await untilDetails(workflowId, /^Ended/)).toBe("Ended: 1 cancelled.");
      expect(await summaries(workflowId)).toEqual([
        `WORKFLOW_EXECUTION_STARTED: 1 delivery to ${endpoint}`,
        "TIMER_STARTED: until attempt 2 of 17, last 500",
        "ACTIVITY_TASK_SCHEDULED: attempt now of 1 delivery",
        "ACTIVITY_TASK_SCHEDULED: attempt 2 of 17",
        "TIMER_STARTED: until attempt 3 of 17, last 500",
        "ACTIVITY_TASK_SCHEDULED: cancellation of 1 delivery",
      ]);
      await receiver.close();
    });
  });

  test("a verification shows its pings and the time of the next one", async () => {
    const world = made.current;
    const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
    const tenant = await world.createTenant();
    const { id } = await world.createEndpoint(tenant, receiver.url);
    await world.sql.query("UPDATE endpoints SET state = 'PENDING' WHERE id = $1", [id]);
    const workflowId = verifyWorkflowId(id, 1);
    await world.temporal.workflow.start(WORKFLOW_TYPES.verifyEndpoint, {
      workflowId,
      taskQueue: TASK_QUEUES.verification,
      args: [{ v: 2, endpoint_id: id, generation: 1, offsets_ms: [0, 3_600_000] }],
    });
    const details = await untilDetails(workflowId, /1 ping,/);
    expect(details).toMatch(new RegExp(`^\\*\\*${id}\\*\\*: 1 ping, none acknowledged. Next ping: 20.*Z\\.`));
    await paste(world.config.temporalAddress, commandOf(details, "attemptNow"));
    await untilDetails(workflowId, /2 pings,/);
    expect(await summaries(workflowId)).toEqual([
      "MARKER_RECORDED: ping 1",
      "TIMER_STARTED: until ping 2",
      "ACTIVITY_TASK_SCHEDULED: ping 2",
      "TIMER_STARTED: until ping 3",
    ]);
    await world.temporal.workflow.getHandle(workflowId).terminate();
    await receiver.close();
  });

  test("a replay job shows its counts and pace, and its possible actions", async () => {
    const world = made.current;
    const tenant = await world.createTenant();
    const { id: endpointId } = await world.createEndpoint(tenant, "http://127.0.0.1:9/never");
    await seedDeadLetters(world.sql, { tenantId: tenant, endpointId, count: 500 });
    const job = await world.makeReplay(tenant, { selection: { filter: {} }, ratePerSecond: 4 });
    world.replays.kick(job);
    const workflowId = replayWorkflowId(job.id);
    // On a slow machine a page takes a whole second, without a pause.
    await eventually(
      async () => (await summaries(workflowId)).includes("TIMER_STARTED: at most 4 a second"),
      "a page that was done in time",
    );
    const running = await untilDetails(workflowId, /RUNNING/);
    expect(running).toMatch(
      /is RUNNING, at most 4 a second: \d+ of 500 replayed, 0 skipped, 0 could not be\./,
    );
    await signalByCli(world, workflowId, "pause");
    const paused = await untilDetails(workflowId, /PAUSED/);
    expect(commandOf(paused, "resume")).not.toBe("exit 1");
    await paste(world.config.temporalAddress, commandOf(paused, "cancel"));
    expect(await untilDetails(workflowId, /CANCELLED/)).not.toContain("```");
    const said = await summaries(workflowId);
    expect(said[0]).toBe("WORKFLOW_EXECUTION_STARTED: replay of 500, at most 4 a second");
    for (const summary of [
      "ACTIVITY_TASK_SCHEDULED: from 0 of 500",
      "TIMER_STARTED: paused",
      "ACTIVITY_TASK_SCHEDULED: becomes PAUSED",
      "ACTIVITY_TASK_SCHEDULED: becomes CANCELLED",
    ]) {
      expect(said).toContain(summary);
    }
  });

  test.each([
    ["purgeExpired", /^Removed: \d+ days/],
    ["rotateCredentials", /^Client secrets: \d+ became due/],
    ["rotateSigningKeys", /signing key/i],
    ["signCheckpoint", /^Checkpoint \d+ covers \d+ entries/],
  ])("%s reports its changes", async (type, words) => {
    const world = made.current;
    const workflowId = `words/${type}`;
    await world.temporal.workflow.execute(type, { workflowId, taskQueue: TASK_QUEUES.control, args: [] });
    expect(await detailsOf(world, workflowId)).toMatch(words);
    expect(await summaries(workflowId)).toHaveLength(1);
    const schedule = await eventually(
      async () => await world.temporal.schedule.getHandle(type).describe(),
      "the schedule to be created",
    );
    expect(schedule.action).toMatchObject({ staticSummary: expect.any(String) as string });
  });

  test("`temporal workflow metadata` explains each of Signet's signals and queries", async () => {
    await withoutPause(async () => {
      const world = made.current;
      const receiver = await startReceiver();
      const tenant = await world.createTenant();
      const { id: endpoint } = await world.createEndpoint(tenant, receiver.url);
      const { deliveries } = await world.publish(tenant);
      const id = deliveries[0]?.id ?? "";
      const { workflow_id: carrier } = await world.untilDelivery(
        tenant,
        id,
        ({ state }) => state === "DELIVERED",
      );
      const printed = await eventually(async () => {
        const metadata = await temporalCli(world, "workflow", "metadata", "--workflow-id", carrier ?? "");
        return metadata.includes("Ended: 1 delivered.") ? metadata : undefined;
      }, "the end");
      for (const name of ["replay", "attemptNow", "cancel", "release", "status"]) {
        expect(printed).toMatch(new RegExp(`^ +${name} +\\S+ \\S+`, "m"));
      }
      // Summaries cost bytes: an immediate delivery has only that of its start.
      expect(await summaries(carrier ?? "")).toEqual([
        `WORKFLOW_EXECUTION_STARTED: 1 delivery to ${endpoint}`,
      ]);
      await receiver.close();
    });
  });
});
