/** Each row of docs/temporal.md, "Which button does what", on a real server. */
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cancelUpdate, statusQuery } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";
import { createGate, type Gate } from "../support/gate.ts";
import { pauseWorkflow } from "../support/paused-workflow.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { signalByCli, temporalCli } from "../support/temporal-cli.ts";
import { TEST_CALLER, useWorld, type World } from "../support/world.ts";

/** Attempts are far apart. */
const made = useWorld({ retryWindowMs: 259_200_000 });
/** Its 17 attempts take a second. */
const short = useWorld({ retryWindowMs: 1_000 });
const FAILURE = { kind: "answer", status: 500 } as const;
const receivers: Receiver[] = [];

beforeAll(async () => {
  await Promise.all([made.current.startWorker(), short.current.startWorker()]);
});

afterAll(async () => {
  await Promise.all(receivers.splice(0).map(async (receiver) => await receiver.close()));
});

/** A delivery in its workflow. */
interface Subject {
  readonly tenant: string;
  readonly id: string;
  readonly workflowId: string;
  readonly receiver: Receiver;
}

/** Publishes to a receiver that fails. */
async function publishFailing(world: World): Promise<Omit<Subject, "workflowId">> {
  const receiver = await startReceiver({ script: [FAILURE] });
  receivers.push(receiver);
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  return { tenant, id: (await world.publish(tenant)).deliveries[0]?.id ?? "", receiver };
}

/** A delivery whose first attempt failed. */
async function retrying(): Promise<Subject> {
  const world = made.current;
  const { tenant, id, receiver } = await publishFailing(world);
  await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 1);
  return { tenant, id, workflowId: (await world.workflowOf(tenant, id)).workflowId, receiver };
}

/** A delivery whose second attempt is under way until the gate opens. */
async function attempting(): Promise<
  Subject & { readonly gate: Gate; readonly activity: readonly string[] }
> {
  const subject = await retrying();
  const { workflowId, receiver } = subject;
  const gate = createGate();
  receiver.answer([{ ...FAILURE, after: gate.opened }]);
  await signalByCli(made.current, workflowId, "attemptNow");
  await receiver.waitFor(2);
  const { raw } = await made.current.temporal.workflow.getHandle(workflowId).describe();
  const activityId = raw.pendingActivities?.find(
    ({ activityType }) => activityType?.name === "attempt",
  )?.activityId;
  return { ...subject, gate, activity: ["--workflow-id", workflowId, "--activity-id", activityId ?? ""] };
}

/** The next attempt is the third, whatever was done to the second. */
async function expectThird({ tenant, id, workflowId, receiver }: Subject): Promise<void> {
  const world = made.current;
  const handle = world.temporal.workflow.getHandle(workflowId);
  await world.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
  const numbers = (): unknown[] => receiver.requests.map(({ headers }) => headers["x-service-attempt"]);
  expect(numbers()).toEqual(["1", "2"]);
  receiver.answer([{ kind: "answer" }]);
  await signalByCli(world, workflowId, "attemptNow");
  await eventually(async () => {
    const { members } = await handle.query(statusQuery);
    return members.every(({ attempts }) => attempts >= 2);
  }, "the workflow to know of the second attempt");
  await signalByCli(world, workflowId, "attemptNow").catch(() => "the third attempt has ended it");
  await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  expect(numbers()).toEqual(["1", "2", "3"]);
}

async function deadLetter(): Promise<Subject> {
  const world = short.current;
  const { tenant, id, receiver } = await publishFailing(world);
  await world.untilDelivery(tenant, id, ({ state }) => state === "DEAD_LETTERED");
  await untilOpen(id);
  return { tenant, id, workflowId: id, receiver };
}

/** Waits until a run of dead letters is open that is not the given one. */
async function untilOpen(workflowId: string, but?: string): Promise<string> {
  const handle = short.current.temporal.workflow.getHandle(workflowId);
  return await eventually(async () => {
    const described = await handle.describe().catch(() => undefined);
    const isOpen = described?.type === "deadLetter" && described.status.name === "RUNNING";
    return isOpen && described.runId !== but ? described.runId : undefined;
  }, "the workflow of the dead letter");
}

/** Ends the workflow of a dead letter, which gets another one. */
async function expectAnother(end: readonly string[]): Promise<void> {
  const { tenant, id, workflowId } = await deadLetter();
  const runId = await untilOpen(workflowId);
  await temporalCli(short.current, "workflow", ...end, "--workflow-id", workflowId);
  await untilOpen(workflowId, runId);
  expect(await short.current.deliveries.find(tenant, id)).toMatchObject({
    state: "DEAD_LETTERED",
    workflow_id: id,
    cycle: 1,
  });
}

/** A dead letter of a paused workflow is replayed under another one at once, and once. */
async function expectReplayed(): Promise<void> {
  const world = short.current;
  const { tenant, id, workflowId, receiver } = await deadLetter();
  const sent = receiver.requests.length;
  const unpause = await pauseWorkflow(world.temporal, workflowId);
  receiver.answer([{ kind: "answer" }]);
  await world.deliveries.replay(tenant, id, TEST_CALLER);
  const delivered = await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  expect(delivered).toMatchObject({ cycle: 2, attempt_count: 1 });
  await unpause();
  await world.temporal.workflow.getHandle(workflowId).result();
  expect(receiver.requests).toHaveLength(sent + 1);
}

/** A reset runs the workflow of a dead letter again that was replayed and delivered. It ends without the letter. */
async function expectStaysDelivered(): Promise<void> {
  const world = short.current;
  const { tenant, id, workflowId, receiver } = await deadLetter();
  receiver.answer([{ kind: "answer" }]);
  await signalByCli(world, workflowId, "replay");
  const delivered = await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  const handle = world.temporal.workflow.getHandle(workflowId);
  await handle.result();
  const sent = receiver.requests.length;
  const reset = ["--type", "FirstWorkflowTask", "--reapply-exclude", "All", "--reason", "by hand"];
  await temporalCli(world, "workflow", "reset", "--workflow-id", workflowId, ...reset);
  await eventually(async () => {
    const { members } = await handle.query(statusQuery);
    return members.some(({ state }) => state === "DEAD_LETTERED");
  }, "the run to take it for a dead letter");
  expect(await handle.result()).toMatchObject({ moved: 1 });
  expect(await world.deliveries.find(tenant, id)).toEqual(delivered);
  expect(receiver.requests).toHaveLength(sent);
}

/** By the first column of the table. */
const BUTTONS: Readonly<Record<string, () => Promise<void>>> = {
  "*Request Cancellation*": async () => {
    const { tenant, id, workflowId } = await retrying();
    await temporalCli(made.current, "workflow", "cancel", "--workflow-id", workflowId);
    await made.current.untilDelivery(tenant, id, ({ state }) => state === "CANCELLED");

    const letter = await deadLetter();
    await temporalCli(short.current, "workflow", "cancel", "--workflow-id", letter.workflowId);
    await short.current.untilDelivery(letter.tenant, letter.id, ({ state }) => state === "CANCELLED");
  },
  "*Send a Signal*": async () => {
    const { tenant, id, workflowId } = await retrying();
    await signalByCli(made.current, workflowId, "attemptNow");
    await made.current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
  },
  "*Send an Update*": async () => {
    const { id, workflowId } = await retrying();
    const handle = made.current.temporal.workflow.getHandle(workflowId);
    expect(await handle.executeUpdate(cancelUpdate, { args: [{}] })).toEqual({ changed: [id], refused: [] });
  },
  "*Reset*": async () => {
    const subject = await retrying();
    const { tenant, id, workflowId } = subject;
    await signalByCli(made.current, workflowId, "attemptNow");
    await made.current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
    const reset = ["--workflow-id", workflowId, "--type", "FirstWorkflowTask", "--reason", "by hand"];
    await temporalCli(made.current, "workflow", "reset", ...reset);
    await expectThird(subject);
    await expectStaysDelivered();
  },
  "*Terminate*": async () => await expectAnother(["terminate", "--reason", "by hand"]),
  "`temporal workflow delete`": async () => await expectAnother(["delete"]),
  "*Start Workflow Like This One*": async () => {
    const { tenant, id, workflowId, receiver } = await retrying();
    const { events = [] } = await made.current.temporal.workflow.getHandle(workflowId).fetchHistory();
    const { input } = events?.[0]?.workflowExecutionStartedEventAttributes ?? {};
    const [payload] = input?.payloads ?? [];
    const copy = [
      "--workflow-id",
      `copy-${workflowId}`,
      "--type",
      "deliver",
      "--task-queue",
      "signet-deliveries",
    ];
    const text = Buffer.from(payload?.data ?? []).toString();
    await temporalCli(made.current, "workflow", "execute", ...copy, "--input", text);
    // The copy may wait as long as the original, whose second attempt may come before its end.
    await made.current.untilDelivery(tenant, id, ({ attempt_count: attemptCount }) => attemptCount === 2);
    expect(receiver.requests.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "2"]);
  },
  "`temporal activity complete`": async () => {
    const subject = await attempting();
    await temporalCli(made.current, "activity", "complete", ...subject.activity, "--result", "{}");
    subject.gate.open();
    await expectThird(subject);
  },
  "`temporal activity fail`": async () => {
    const subject = await attempting();
    await temporalCli(made.current, "activity", "fail", ...subject.activity, "--reason", "by hand");
    subject.gate.open();
    await expectThird(subject);
  },
  "*Pause Workflow*, `temporal workflow pause`": async () => {
    const subject = await retrying();
    const { workflowId, receiver } = subject;
    const world = made.current;
    const handle = world.temporal.workflow.getHandle(workflowId);
    const unpause = await pauseWorkflow(world.temporal, workflowId);
    await expect(handle.executeUpdate(cancelUpdate, { args: [{}] })).rejects.toMatchObject({
      cause: { details: expect.stringContaining("paused") },
    });
    await expect(handle.query(statusQuery)).rejects.toMatchObject({ name: "QueryRejectedError" });
    await signalByCli(world, workflowId, "attemptNow");
    expect(receiver.requests).toHaveLength(1);
    await unpause();
    await expectThird(subject);
    await expectReplayed();
  },
  "*Pause* of an activity": async () => {
    const subject = await attempting();
    await temporalCli(made.current, "activity", "pause", ...subject.activity);
    subject.gate.open();
    await made.current.untilDelivery(
      subject.tenant,
      subject.id,
      ({ attempt_count: attemptCount }) => attemptCount === 2,
    );
    await temporalCli(made.current, "activity", "unpause", ...subject.activity).catch(() => undefined);
    subject.gate.open();
    await expectThird(subject);
  },
};

const [, part = ""] =
  /^## Which button does what\n((?:(?!## ).*\n)*)/m.exec(
    readFileSync(new URL("../../docs/temporal.md", import.meta.url), "utf8"),
  ) ?? [];
const rows = [...part.matchAll(/^\| ([^|]+?) \| [^|]+ \|$/gm)].map(([, name = ""]) => name).slice(2);

test("the page has a row for each", () => {
  expect(rows.toSorted()).toEqual(Object.keys(BUTTONS).toSorted());
});

test.concurrent.each(Object.entries(BUTTONS))(
  "%s does what the page says",
  async (_name, press) => await press(),
);
