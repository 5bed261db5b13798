import { expect, test } from "vitest";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { startOwnTemporal } from "../support/own-temporal.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { registrationOf } from "../support/registration.ts";
import { useStarted } from "../support/started.ts";
import { makeWorld, TEST_CALLER } from "../support/world.ts";

allowMinutes(4);

/** Deliveries flow again within this time of Temporal's return. */
const RECOVERY_MS = 45_000;
const EVENTS = 40;

const ownTemporal = useStarted("Temporal", startOwnTemporal);
const made = useStarted("the world", async () => await makeWorld({ temporal: ownTemporal.current }));
const listening = useStarted("the receiver", async () => await startReceiver());

test("events and endpoints accepted while Temporal is down are delivered and verified once after its return", async () => {
  const [world, temporal, receiver] = [made.current, ownTemporal.current, listening.current];
  await world.startWorker();
  const tenant = await world.createTenant();
  await world.createEndpoint(tenant, `${receiver.url}/events`);
  const { deliveries: before } = await world.publish(tenant);
  await world.untilDelivery(tenant, before[0]?.id ?? "", ({ state }) => state === "DELIVERED");

  await temporal.stop();
  const published = await Promise.all(
    Array.from({ length: EVENTS }, async () => await world.publish(tenant)),
  );
  const ids = published.map(({ deliveries }) => deliveries[0]?.id ?? "");
  const registered = await world.endpoints.register(
    tenant,
    registrationOf(`${receiver.url}/new`, { eventTypes: ["other.kind"] }),
    TEST_CALLER,
  );
  expect(receiver.requests).toHaveLength(1);

  await temporal.start();
  const back = performance.now();
  await eventually(
    async () => {
      const { rows } = await world.sql.query<{ n: string }>(
        "SELECT count(*) AS n FROM deliveries WHERE id = ANY ($1) AND state = 'DELIVERED'",
        [ids],
      );
      const { state } = await world.endpoints.find(tenant, registered.endpoint.id);
      return Number(rows[0]?.n) === EVENTS && state === "ACTIVE";
    },
    "everything to be delivered and verified",
    RECOVERY_MS + 15_000,
  );
  expect(performance.now() - back).toBeLessThan(RECOVERY_MS);
  const sent = receiver.requests.filter(({ path }) => path === "/events");
  expect(sent).toHaveLength(EVENTS + 1);
  expect(new Set(sent.map(({ headers }) => headers["x-service-delivery-id"])).size).toBe(EVENTS + 1);
});
