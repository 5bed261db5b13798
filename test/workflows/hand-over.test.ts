/** Deliveries that a worker of the same process takes over at their insert (decision 42). */
import { beforeAll, expect, test } from "vitest";
import { metrics } from "#observability/metrics.ts";
import { eventually } from "../support/eventually.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { type TestEndpoint, useWorld } from "../support/world.ts";

const made = useWorld({ handOver: {} });
let receiver: Receiver;
let other: Receiver;
let tenant: string;
let endpoint: TestEndpoint;

beforeAll(async () => {
  [receiver, other] = [await startReceiver(), await startReceiver()];
  await made.current.startWorker();
  tenant = await made.current.createTenant();
  endpoint = await made.current.createEndpoint(tenant, receiver.url);
  await untilHanded();
  return async () => {
    await Promise.all([receiver.close(), other.close()]);
  };
});

/** Numbers of new deliveries by where they went, or why to the outbox. */
async function counts(): Promise<Readonly<Record<string, number>>> {
  const { values } = await metrics.queued.get();
  return Object.fromEntries(
    values.map(({ labels, value }) => [String(labels["reason"] || labels["to"]), value]),
  );
}

/** Publishes an event, and returns its delivery as the insert has written it, and where it went. */
async function publish(data: unknown = {}): Promise<{ readonly id: string; readonly went: string }> {
  const before = await counts();
  const { event } = await made.current.publish(tenant, data);
  const after = await counts();
  const [went = ""] = Object.keys(after).filter((key) => after[key] !== (before[key] ?? 0));
  const { rows } = await made.current.sql.query<{ id: string }>(
    "SELECT id FROM deliveries WHERE event_id = $1",
    [event.id],
  );
  return { id: rows[0]?.id ?? "", went };
}

/** Publishes until the worker knows the target as it is now. */
async function untilHanded(): Promise<string> {
  return await eventually(async () => {
    const { id, went } = await publish();
    await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
    return went === "sender" ? id : undefined;
  }, "a delivery that is handed over");
}

const bodiesOf = ({ requests }: Receiver): string[] => requests.map(({ rawBody }) => rawBody.toString());

test("it is sent once, and its workflow runs under the carrier that the insert wrote", async () => {
  await untilHanded();
  const { id, went } = await publish({ once: 1 });
  expect(went).toBe("sender");
  const delivery = await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  expect(delivery).toMatchObject({ attempt_count: 1, cycle: 1 });
  expect(bodiesOf(receiver).filter((body) => body.includes('"once":1'))).toHaveLength(1);
  const workflow = await made.current.workflowOf(tenant, id);
  expect(await workflow.result()).toMatchObject({ replayed: 0, cancelled: 0, expired: 0 });
  await eventually(async () => {
    const { rows } = await made.current.sql.query("SELECT carrier FROM unstarted_lists");
    return rows.length === 0;
  }, "no list is left to be started");
});

test("it goes to the URL that its endpoint has at the insert", async () => {
  await untilHanded();
  await made.current.sql.query("UPDATE endpoints SET url = $2 WHERE id = $1", [endpoint.id, other.url]);
  const { id, went } = await publish({ moved: 1 });
  expect(went).toBe("changed_target");
  await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  expect(bodiesOf(other).filter((body) => body.includes('"moved":1'))).toHaveLength(1);
  expect(bodiesOf(receiver).filter((body) => body.includes('"moved":1'))).toHaveLength(0);
  await made.current.sql.query("UPDATE endpoints SET url = $2 WHERE id = $1", [endpoint.id, receiver.url]);
});

test.each([
  ["its secret", "UPDATE endpoint_secrets SET created_at = now() WHERE endpoint_id = $1"],
  [
    "its tenant",
    "UPDATE tenants SET name = 'other' WHERE id = (SELECT tenant_id FROM endpoints WHERE id = $1)",
  ],
])("it waits for a claim after a change of %s", async (_, change) => {
  await untilHanded();
  await made.current.sql.query(change, [endpoint.id]);
  const { id, went } = await publish();
  expect(went).toBe("changed_target");
  await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
});

test("it waits while its tenant is held, and is handed over again afterwards", async () => {
  await untilHanded();
  const hold = async (at: string): Promise<unknown> =>
    await made.current.sql.query(`UPDATE tenants SET held_at = ${at} WHERE id = $1`, [tenant]);
  await hold("now()");
  const first = await publish({ held: 1 });
  const second = await publish({ held: 2 });
  expect(first.went).toBe("changed_target");
  // The first one is known to wait, or its target is not known again yet.
  expect(["unknown_target", "backlog"]).toContain(second.went);
  expect(bodiesOf(receiver).filter((body) => body.includes('"held":'))).toEqual([]);
  await hold("NULL");
  for (const { id } of [first, second]) {
    await made.current.untilDelivery(tenant, id, ({ state }) => state === "DELIVERED");
  }
  expect(bodiesOf(receiver).filter((body) => body.includes('"held":'))).toHaveLength(2);
  await untilHanded();
});
