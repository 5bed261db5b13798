/** Replay jobs by state and filter, and resends, over HTTP with a worker: counts, items, outcomes, errors. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import {
  createOwner,
  createTenant,
  expectRefusal,
  type Json,
  type Owner,
  replayInState as until,
  rows,
  sql,
} from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
const REPLAYS = "/v1/webhooks/replays";
/** More than the answer lists. */
const MANY = 2_300;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.close();
});

async function makeOwner(): Promise<Owner> {
  return await createOwner(api, receiver.url);
}

async function seedLetters({ tenant, endpointId }: Owner, count: number): Promise<string[]> {
  const query = async (text: string, values: unknown[]): Promise<unknown> => await sql(api, text, values);
  return await seedDeadLetters({ query }, { tenantId: tenant.tenantId, endpointId, count });
}

describe("a replay by state", () => {
  test("counts, replays and reports what the list's filters select", async () => {
    const owner = await makeOwner();
    const { tenant, endpointId } = owner;
    const ids = await seedLetters(owner, 4);
    const [first = "", second = "", third = "", fourth = ""] = ids;
    const set = async (id: string, state: string): Promise<void> => {
      await sql(api, "UPDATE deliveries SET state = $2, reason = NULL, expires_at = NULL WHERE id = $1", [
        id,
        state,
      ]);
    };
    await set(first, "DELIVERED");
    await set(second, "CANCELLED");
    await set(third, "EXPIRED");
    const count = async (body: Json): Promise<unknown> =>
      (await tenant.post(REPLAYS, { dry_run: true, ...body })).body["total"];
    expect(await count({ filter: {} })).toBe(1);
    expect(await count({ states: ["DELIVERED", "DELIVERED", "EXPIRED"], filter: {} })).toBe(2);
    expect(await count({ states: ["CANCELLED"], filter: { endpoint_id: endpointId } })).toBe(1);
    expect(await count({ states: ["CANCELLED"], filter: { event_type: "other.type" } })).toBe(0);
    expect(await count({ states: ["CANCELLED"], filter: { metadata: { team: "ml" } } })).toBe(0);
    expect(await count({ states: ["CANCELLED"], filter: { from: "2099-01-01T00:00:00Z" } })).toBe(0);
    const all = ["DEAD_LETTERED", "DELIVERED", "CANCELLED", "EXPIRED"];
    const answer = await tenant.post(REPLAYS, { states: all, filter: { endpoint_id: endpointId } });
    expect(answer).toMatchObject({ status: 202 });
    expect(answer.body).toMatchObject({ kind: "deliveries", states: all, endpoint_id: endpointId, total: 4 });
    expect(await until(tenant, answer.body, "COMPLETED")).toMatchObject({ done: 4, skipped: 0, failed: 0 });
    const path = `${REPLAYS}/${String(answer.body["id"])}`;
    await eventually(
      async () => (await tenant.get(`${path}/outcomes`)).body["delivered"] === 4,
      "every delivery to be delivered",
    );
    expect((await tenant.get(`${path}/outcomes`)).body).toEqual({
      delivered: 4,
      retrying: 0,
      failed: 0,
      cancelled: 0,
      waiting: 0,
    });
    const items = rows(await tenant.get(`${path}/items?outcome=DELIVERED`));
    expect(items.map((item) => [item["delivery_id"], item["state"], item["outcome"]])).toEqual(
      ids.map((id) => [id, "DONE", "DELIVERED"]),
    );
    expect(rows(await tenant.get(`${path}/items?outcome=FAILED`))).toEqual([]);
    expect((await tenant.get(`/v1/webhooks/deliveries/${fourth}`)).body).toMatchObject({ cycle: 2 });
  });

  test("lists deliveries of all states in parts: each once, though the job changes their states meanwhile", async () => {
    const owner = await makeOwner();
    const { tenant, endpointId } = owner;
    const ids = await seedLetters(owner, MANY);
    await sql(
      api,
      `UPDATE deliveries SET state = 'DELIVERED', reason = NULL, expires_at = NULL, dead_lettered_at = NULL
        WHERE tenant_id = $1 AND right(id, 1) = '0'`,
      [tenant.tenantId],
    );
    const chosen = { states: ["DELIVERED", "DEAD_LETTERED"], filter: { endpoint_id: endpointId } };
    const { body: job } = await tenant.post(REPLAYS, { ...chosen, rate_per_second: 5_000 });
    expect(job).toMatchObject({ listing: true });
    const late = await seedLetters(owner, 1);
    expect(await until(tenant, job, "COMPLETED")).toMatchObject({ listing: false, total: MANY, done: MANY });
    const listed = await sql(
      api,
      "SELECT delivery_id AS id FROM replay_items WHERE job_id = $1 ORDER BY position",
      [job["id"]],
    );
    expect(listed.map(({ id }) => id)).toEqual(ids);
    expect(ids).not.toContain(late[0]);
  });

  test("of cancelled deliveries lists them all before its answer", async () => {
    const owner = await makeOwner();
    const { tenant, endpointId } = owner;
    await seedLetters(owner, MANY);
    await sql(api, "UPDATE deliveries SET state = 'CANCELLED', expires_at = NULL WHERE tenant_id = $1", [
      tenant.tenantId,
    ]);
    const chosen = { states: ["CANCELLED"], filter: { endpoint_id: endpointId }, rate_per_second: 1 };
    const { body: job } = await tenant.post(REPLAYS, chosen);
    expect(job).toMatchObject({ listing: false, total: MANY });
    await tenant.post(`${REPLAYS}/${String(job["id"])}/cancel`);
  });

  test("skips what has changed since, and says why", async () => {
    const owner = await makeOwner();
    const { tenant, endpointId } = owner;
    const [kept = "", changed = ""] = await seedLetters(owner, 2);
    await sql(api, "UPDATE deliveries SET state = 'DELIVERED', expires_at = NULL WHERE tenant_id = $1", [
      tenant.tenantId,
    ]);
    const body = { states: ["DELIVERED"], filter: { endpoint_id: endpointId } };
    const database = new Client({ connectionString: api.database.adminUrl });
    await database.connect();
    // The job finds the delivery as it was. Whoever carries it out waits for the change.
    await database.query("BEGIN");
    await database.query("UPDATE deliveries SET cycle = cycle + 1 WHERE id = $1", [changed]);
    const { body: job } = await tenant.post(REPLAYS, body);
    await database.query("COMMIT");
    await database.end();
    await until(tenant, job, "COMPLETED");
    const items = rows(await tenant.get(`${REPLAYS}/${String(job["id"])}/items`));
    expect(items.at(-1)).toMatchObject({
      delivery_id: changed,
      state: "SKIPPED",
      reason: "state_changed",
      outcome: null,
    });
    expect(items[0]).toMatchObject({ delivery_id: kept, state: "DONE", reason: null });
  });

  test("refuses unknown states and members, a missing filter, and other scopes", async () => {
    const { tenant } = await makeOwner();
    expectRefusal(await tenant.post(REPLAYS, { states: ["QUEUED"], filter: {} }), 422, "VALIDATION_FAILED");
    expectRefusal(await tenant.post(REPLAYS, { states: [], filter: {} }), 422, "VALIDATION_FAILED");
    expectRefusal(await tenant.post(REPLAYS, { filter: { state: "RETRYING" } }), 422, "VALIDATION_FAILED");
    expectRefusal(await tenant.post(REPLAYS, {}), 422, "VALIDATION_FAILED");
    const reader = await createTenant(api, ["webhooks:read", "webhooks:write"]);
    expectRefusal(await reader.post(REPLAYS, { filter: {} }), 403, "SCOPE_VIOLATION");
  });

  test("a resend of one delivery answers 202 once, and is in the compliance log", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    const [id = ""] = await seedLetters(owner, 1);
    const resend = `/v1/webhooks/deliveries/${id}/resend`;
    expectRefusal(await tenant.post(resend), 409, "INVALID_STATE");
    await sql(api, "UPDATE deliveries SET state = 'DELIVERED', expires_at = NULL WHERE id = $1", [id]);
    expect(await tenant.post(resend)).toMatchObject({ status: 202, body: { id, cycle: 2 } });
    await eventually(
      async () => (await tenant.get(`/v1/webhooks/deliveries/${id}`)).body["state"] === "DELIVERED",
      "the resend to be delivered",
    );
    const attempts = rows(await tenant.get(`/v1/webhooks/deliveries/${id}/attempts`));
    expect(attempts).toMatchObject([{ cycle: 2, attempt: 1, resend: true }]);
    expect(rows(await tenant.get("/v1/compliance/entries?type=delivery.resent"))).toMatchObject([
      { actor: `credential:${tenant.credentialId}`, target: id },
    ]);
  });
});
