import { expect, onTestFinished, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startOwnTemporal } from "../support/own-temporal.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { useStarted } from "../support/started.ts";
import { makeWorld, TEST_CALLER } from "../support/world.ts";

allowMinutes(6);

/** Deliveries flow again within this time of Temporal's return. */
const RECOVERY_MS = 45_000;
const EVENTS = 40;

const ownTemporal = useStarted("Temporal", startOwnTemporal);
const made = useStarted("the world", async () => await makeWorld({ temporal: ownTemporal.current }));

/** Starts a receiver that fails the first request to one of its paths. */
async function startFailingOnce(): Promise<Receiver> {
  let failures = 0;
  const receiver = await startReceiver({
    script: ({ path }) => ({
      kind: "answer",
      status: path === "/fails-once" && (failures += 1) === 1 ? 500 : 200,
    }),
  });
  onTestFinished(async () => await receiver.close());
  return receiver;
}

test("first attempts continue while Temporal is down; verifications, retries and workflows follow after its return", async () => {
  const [world, temporal] = [made.current, ownTemporal.current];
  await world.startWorker();
  const { tenant, receiver, ids } = await withoutPause(async () => {
    const receiver = await startFailingOnce();
    const tenant = await world.createTenant();
    await world.createEndpoint(tenant, `${receiver.url}/events`);
    await world.createEndpoint(tenant, `${receiver.url}/fails-once`, ["fails.once"]);
    const { deliveries: before } = await world.publish(tenant);
    await world.untilDelivery(tenant, before[0]?.id ?? "", ({ state }) => state === "DELIVERED");

    await temporal.stop();
    const published = await Promise.all(
      Array.from({ length: EVENTS }, async () => await world.publish(tenant)),
    );
    const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
    const registered = await world.endpoints.register(
      tenant,
      registrationOf(`${receiver.url}/new`, { event_types: ["other.kind"] }),
      TEST_CALLER,
    );
    const { deliveries: failing } = await world.publish(tenant, {}, "fails.once");
    const failed = failing[0]?.id ?? "";
    await Promise.all(
      ids.map(async (id) => await world.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED")),
    );
    await world.untilDelivery(tenant, failed, ({ attempt_count: attemptCount }) => attemptCount === 1);

    await temporal.start();
    const back = performance.now();
    await eventually(
      async () => {
        const { state } = await world.endpoints.find(tenant, registered.endpoint.id);
        const retried = await world.deliveries.find(tenant, failed);
        return retried.state === "DELIVERED" && state === "ACTIVE";
      },
      "the retry and the verification",
      RECOVERY_MS + 15_000,
    );
    expect(performance.now() - back).toBeLessThan(RECOVERY_MS);
    return { tenant, receiver, ids };
  });
  // Each delivery has its workflow, which knows it.
  for (const id of ids) {
    const { workflowId } = await world.workflowOf(tenant, id);
    await eventually(async () => {
      const { count } = await world.temporal.workflow.count(
        `WorkflowId = "${workflowId}" AND SignetDelivery = "${id}"`,
      );
      return count === 1;
    }, `the workflow of ${id} to be listed`);
  }
  const sent = receiver.requests.filter(({ path }) => path === "/events");
  expect(sent).toHaveLength(EVENTS + 1);
  expect(new Set(sent.map(({ headers }) => headers["x-service-delivery-id"])).size).toBe(EVENTS + 1);
});
