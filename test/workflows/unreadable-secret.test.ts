/** An undecryptable secret is our fault, not the receiver's: its deliveries wait, and are sent once it can be decrypted. */
import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { useStarted } from "../support/started.ts";
import { useWorld } from "../support/world.ts";

const made = useWorld({ retryWindowMs: 60_000 });
useStarted("a worker", async () => await made.current.startWorker());

async function setSecret(endpointId: string, secret: string): Promise<string> {
  const { rows } = await made.current.sql.query<{ before: string }>(
    `WITH before AS (SELECT endpoint_id, secret FROM endpoint_secrets WHERE endpoint_id = $1)
      UPDATE endpoint_secrets s SET secret = $2 FROM before WHERE s.endpoint_id = before.endpoint_id
      RETURNING before.secret AS before`,
    [endpointId, secret],
  );
  return rows[0]?.before ?? "";
}

test("deliveries with an undecryptable secret lose no attempt, delay no others, and are sent once it can be decrypted", async () => {
  const world = made.current;
  const receiver = await startReceiver();
  const tenant = await world.createTenant();
  const broken = await world.createEndpoint(tenant, receiver.url, ["broken.one"]);
  await world.createEndpoint(tenant, receiver.url, ["well.one"]);
  const sealed = await setSecret(broken.id, "broken");
  const waiting = (await world.publish(tenant, {}, "broken.one")).deliveries[0]?.id ?? "";
  const other = (await world.publish(tenant, {}, "well.one")).deliveries[0]?.id ?? "";
  await world.untilDelivery(tenant, other, ({ state }) => state === "DELIVERED");
  const carrier = await eventually(
    async () => (await world.deliveries.find(tenant, waiting)).workflow_id ?? undefined,
    "the carrier",
  );
  await eventually(async () => {
    const { pendingActivities } = (await world.temporal.workflow.getHandle(carrier).describe()).raw;
    return (pendingActivities?.[0]?.attempt ?? 0) >= 2;
  }, "the activity to be retried");
  expect(await world.deliveries.find(tenant, waiting)).toMatchObject({ attempt_count: 0, last_error: null });
  expect(receiver.requests).toHaveLength(1);

  await setSecret(broken.id, sealed);
  const delivered = await world.untilDelivery(tenant, waiting, ({ state }) => state === "DELIVERED");
  expect(delivered).toMatchObject({ attempt_count: 1, cycle: 1 });
  expect(receiver.requests.map(({ headers }) => headers["x-service-attempt"])).toEqual(["1", "1"]);
  await receiver.close();
});
