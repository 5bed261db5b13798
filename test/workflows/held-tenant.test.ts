/** A tenant whose deliveries are held: they wait, use up no attempt, and continue once it is released. */
import { expect, test } from "vitest";
import { setTenantHold } from "#database/repositories/tenants.ts";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { type SharedWorld, useSharedWorld, useWorld } from "../support/world.ts";

const made = useSharedWorld();
/** With the real schedule, in which a receiver may request a wait of minutes. */
const patient = useWorld({ retryWindowMs: 259_200_000 });

/** Whether an activity of that name has completed in any run of the chain; the run may have continued as new. */
async function hasCarriedOut(workflowId: string, activity: string): Promise<boolean> {
  let runId: string | undefined;
  do {
    const { events } = await made.current.temporal.workflow.getHandle(workflowId, runId).fetchHistory();
    const asked = new Set(
      events?.flatMap(({ eventId, activityTaskScheduledEventAttributes: task }) =>
        task?.activityType?.name === activity ? [String(eventId)] : [],
      ),
    );
    if (
      events?.some(({ activityTaskCompletedEventAttributes: done }) =>
        asked.has(String(done?.scheduledEventId)),
      ) === true
    ) {
      return true;
    }
    runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId ?? "";
  } while (runId !== "");
  return false;
}

async function hold(tenant: string, held: boolean, { sql }: SharedWorld = made.current): Promise<void> {
  expect(await setTenantHold(sql as never, tenant, held ? new Date() : null)).toBe(true);
}

test("new deliveries wait in the outbox while other tenants are served, and are delivered after the release", async () => {
  const world = made.current;
  const receiver = await startReceiver({});
  const [held, other] = [await world.createTenant(), await world.createTenant()];
  await world.createEndpoint(held, receiver.url);
  await world.createEndpoint(other, receiver.url);
  await hold(held, true);
  const [waiting] = (await world.publish(held)).deliveries;
  for (let count = 0; count < 3; count += 1) {
    const [served] = (await world.publish(other)).deliveries;
    await world.untilDelivery(other, served?.id ?? "", ({ state }) => state === "DELIVERED");
  }
  expect(await world.deliveries.find(held, waiting?.id ?? "")).toMatchObject({
    state: "QUEUED",
    attempt_count: 0,
    workflow_id: null,
  });
  await hold(held, false);
  await world.untilDelivery(held, waiting?.id ?? "", ({ state }) => state === "DELIVERED");
  expect(await world.attempts(held, waiting?.id ?? "")).toHaveLength(1);
  await receiver.close();
});

test("deliveries with a workflow wait there without an attempt, and continue after the release", async () => {
  const world = patient.current;
  await world.startWorker();
  // The next attempt by schedule is late, so that it does not precede the hold on a busy machine.
  const busy = { kind: "answer", status: 503, headers: { "retry-after": "600" } } as const;
  const receiver = await startReceiver({ script: [busy, { kind: "answer" }] });
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const [delivery] = (await world.publish(tenant)).deliveries;
  const id = delivery?.id ?? "";
  await world.untilDelivery(tenant, id, ({ state }) => state === "RETRYING");
  const workflow = await world.workflowOf(tenant, id);
  await hold(tenant, true, world);
  // Make it due now.
  await workflow.signal("attemptNow");
  await eventually(async () => {
    const { members } = await workflow.query<{ members: { next_attempt_at: string | null }[] }>("status");
    const inMs = Date.parse(members[0]?.next_attempt_at ?? "") - Date.now();
    return inMs > 0 && inMs < 300_000;
  }, "the workflow to put it off");
  expect(await world.attempts(tenant, id)).toHaveLength(1);
  await hold(tenant, false, world);
  await workflow.signal("attemptNow");
  await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  expect(await world.attempts(tenant, id)).toHaveLength(2);
  await receiver.close();
});

test("an operator's signal does not replay dead letters before the release", async () => {
  const world = made.current;
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, receiver.url);
  const [delivery] = (await world.publish(tenant)).deliveries;
  const id = delivery?.id ?? "";
  const { workflow_id: carrier } = await world.untilDelivery(
    tenant,
    id,
    ({ state }) => state === "DEAD_LETTERED",
  );
  await hold(tenant, true);
  receiver.answer([{ kind: "answer" }]);
  const workflow = world.temporal.workflow.getHandle(carrier ?? "");
  // The server may reject a signal while the run continues as new.
  const replay = async (): Promise<boolean> => await workflow.signal("replay").then(() => true);
  await eventually(replay, "the signal to be accepted");
  await eventually(async () => await hasCarriedOut(carrier ?? "", "replay"), "the signal to take effect");
  expect(await world.deliveries.find(tenant, id)).toMatchObject({ state: "DEAD_LETTERED", cycle: 1 });
  await hold(tenant, false);
  await eventually(replay, "the signal to be accepted");
  await world.untilDelivery(tenant, id, ({ state, cycle }) => state === "DELIVERED" && cycle === 2);
  await receiver.close();
});
