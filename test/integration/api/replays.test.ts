/** Replay jobs over HTTP with a worker: counts, rate, pause, cancel, results per item, limits. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { newId } from "#domain/ids.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import {
  anId,
  anInstant,
  createEndpoint,
  createOwner,
  createTenant,
  expectRefusal,
  type Json,
  type Owner,
  listAll,
  publish,
  replayInState as until,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

allowMinutes(4);

const api = useTestApi({ worker: true });
const REPLAY = "/v1/webhooks/dlq/replay";
const REPLAYS = "/v1/webhooks/replays";
let database: Client;
let receiver: Receiver;

beforeAll(async () => {
  database = new Client({ connectionString: api.database.adminUrl });
  await database.connect();
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.close();
  await database.end();
});

async function makeOwner(): Promise<Owner> {
  return await createOwner(api, receiver.url);
}

async function seedLetters(
  { tenant, endpointId }: Owner,
  count: number,
  more: object = {},
): Promise<string[]> {
  return await seedDeadLetters(database, { tenantId: tenant.tenantId, endpointId, count, ...more });
}

async function start(tenant: Tenant, body: Json, headers: Record<string, string> = {}): Promise<Json> {
  const answer = await tenant.post(REPLAY, body, headers);
  expect(answer).toMatchObject({ status: 202 });
  return answer.body;
}

async function cycles(ids: readonly string[]): Promise<number[]> {
  const found = await database.query<{ cycle: number }>(
    "SELECT cycle FROM deliveries WHERE id = ANY ($1) ORDER BY id",
    [ids],
  );
  return found.rows.map(({ cycle }) => cycle);
}

describe("a replay of a filter", () => {
  test("replays exactly what a dry run counts, each once, and reports the result of each", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    const ids = await seedLetters(owner, 700);
    await seedLetters(owner, 3, { error: "timeout" });
    await seedLetters(await makeOwner(), 5);
    // The filter works as in the list of the queue, where every delivery is DEAD_LETTERED.
    const others = { filter: { last_error: "status", state: "DELIVERED" }, dry_run: true };
    expect((await tenant.post(REPLAY, others)).body).toEqual({ dry_run: true, total: 0 });
    const filter = { last_error: "status", state: "DEAD_LETTERED" };
    expect(await tenant.post(REPLAY, { filter, dry_run: true })).toMatchObject({
      status: 200,
      body: { dry_run: true, total: 700 },
    });
    expect(rows(await tenant.get(REPLAYS))).toEqual([]);
    const job = await start(tenant, { filter, rate_per_second: 5_000 });
    expect(job).toEqual({
      id: anId("replay"),
      kind: "dead_letters",
      endpoint_id: null,
      states: null,
      state: "RUNNING",
      listing: false,
      total: 700,
      done: 0,
      failed: 0,
      skipped: 0,
      rate_per_second: 5_000,
      created_at: anInstant(),
      finished_at: null,
    });
    expect(await until(tenant, job, "COMPLETED")).toMatchObject({ done: 700, failed: 0, skipped: 0 });
    expect(new Set(await cycles(ids))).toEqual(new Set([2]));
    const items = await listAll(tenant, `${REPLAYS}/${String(job["id"])}/items`, 100);
    expect(items.map((item) => item["delivery_id"])).toEqual(ids);
    expect(items.map((item) => item["position"])).toEqual(ids.map((_, index) => index + 1));
    expect(new Set(items.map((item) => item["state"]))).toEqual(new Set(["DONE"]));
    expect(rows(await tenant.get(`${REPLAYS}/${String(job["id"])}/items?state=FAILED`))).toEqual([]);
    await eventually(
      async () =>
        (
          await database.query(
            "SELECT FROM deliveries WHERE id = ANY ($1) AND state <> 'DELIVERED' LIMIT 1",
            [ids],
          )
        ).rowCount === 0,
      "every dead letter to be delivered",
      180_000,
    );
    const logged = rows(await tenant.get("/v1/compliance/entries?type=dlq.replayed"));
    expect(logged).toMatchObject([
      { actor: "system:replay", target: job["id"], details: { state: "COMPLETED", total: 700, done: 700 } },
      {
        actor: `credential:${tenant.credentialId}`,
        target: job["id"],
        details: { state: "RUNNING", total: 700 },
      },
    ]);
  });
});

describe("a replay of ids", () => {
  test("reports ids that are not in the queue, and another tenant's ids like unknown ones", async () => {
    const [owner, other] = [await makeOwner(), await makeOwner()];
    const { tenant } = owner;
    const [dead = "", cancelled = "", expired = ""] = await seedLetters(owner, 3);
    const [foreign = ""] = await seedLetters(other, 1);
    await sql(api, "UPDATE deliveries SET state = 'CANCELLED' WHERE id = $1", [cancelled]);
    await sql(api, "UPDATE deliveries SET expires_at = now() - interval '1 s' WHERE id = $1", [expired]);
    const never = newId("delivery", Date.now(), randomBytes);
    const ids = [dead, dead, cancelled, expired, foreign, never];
    expect((await tenant.post(REPLAY, { ids, dry_run: true })).body).toEqual({ dry_run: true, total: 1 });
    const job = await until(tenant, await start(tenant, { ids }), "COMPLETED");
    expect(job).toMatchObject({ total: 5, done: 1, failed: 3, skipped: 1 });
    const items = rows(await tenant.get(`${REPLAYS}/${String(job["id"])}/items`));
    const byId = Object.fromEntries(
      items.map((item) => [item["delivery_id"], [item["state"], item["reason"]]]),
    );
    expect(byId).toEqual({
      [dead]: ["DONE", null],
      [cancelled]: ["SKIPPED", "not_in_queue"],
      [expired]: ["FAILED", "expired"],
      [foreign]: ["FAILED", "not_found"],
      [never]: ["FAILED", "not_found"],
    });
    expect(await cycles([foreign])).toEqual([1]);
  });

  test("with nothing to replay is complete immediately", async () => {
    const { tenant } = await makeOwner();
    const job = await start(tenant, { ids: [newId("delivery", Date.now(), randomBytes)] });
    expect(job).toMatchObject({ state: "COMPLETED", total: 1, failed: 1 });
  });
});

describe("a running replay", () => {
  test("keeps its rate and can be paused, resumed and cancelled; the rest stays in the queue", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    // More than the job can replay while the test runs.
    const LETTERS = 400;
    const ids = await seedLetters(owner, LETTERS);
    const job = await start(tenant, { filter: {}, rate_per_second: 5 });
    const path = `${REPLAYS}/${String(job["id"])}`;
    await eventually(async () => Number((await tenant.get(path)).body["done"]) >= 5, "the first page");
    expect(await tenant.post(`${path}/pause`)).toMatchObject({ status: 200, body: { state: "PAUSED" } });
    const paused = (await tenant.get(path)).body;
    expect(Number(paused["done"])).toBeLessThan(LETTERS);
    expect(await tenant.post(`${path}/pause`)).toMatchObject({ status: 200, body: paused });
    expect(await tenant.post(`${path}/resume`)).toMatchObject({ status: 200, body: { state: "RUNNING" } });
    await eventually(
      async () => Number((await tenant.get(path)).body["done"]) > Number(paused["done"]),
      "the replay to continue",
    );
    const { body: cancelled } = await tenant.post(`${path}/cancel`);
    expect(cancelled).toMatchObject({ state: "CANCELLED", finished_at: anInstant() });
    const done = Number(cancelled["done"]);
    expect(done).toBeLessThan(LETTERS);
    expect(await cycles(ids)).toEqual(ids.map((_, index) => (index < done ? 2 : 1)));
    expectRefusal(await tenant.post(`${path}/resume`), 409, "INVALID_STATE");
    expect(await listAll(tenant, `${path}/items?state=CANCELLED`, 100)).toHaveLength(LETTERS - done);
  });

  test("is one job for one Idempotency-Key", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    await seedLetters(owner, 3);
    const headers = { "idempotency-key": "once" };
    const answers = await Promise.all(
      Array.from({ length: 5 }, async () => await tenant.post(REPLAY, { filter: {} }, headers)),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ body }) => body["id"])).size).toBe(1);
    expect(rows(await tenant.get(REPLAYS))).toHaveLength(1);
    expectRefusal(
      await tenant.post(REPLAY, { filter: {}, rate_per_second: 1 }, headers),
      409,
      "IDEMPOTENCY_KEY_REUSED",
    );
  });

  test("is rejected for a tenant on hold, and waits during a later hold", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    const ids = await seedLetters(owner, 3);
    const job = await start(tenant, { filter: {}, rate_per_second: 1 });
    await eventually(
      async () => Number((await tenant.get(`${REPLAYS}/${String(job["id"])}`)).body["done"]) >= 1,
      "the first item",
    );
    await sql(api, "UPDATE tenants SET held_at = now() WHERE id = $1", [tenant.tenantId]);
    expectRefusal(await tenant.post(REPLAY, { filter: {} }), 409, "INVALID_STATE");
    expectRefusal(await tenant.post(REPLAY, { filter: {}, dry_run: true }), 409, "INVALID_STATE");
    expectRefusal(await tenant.post(`/v1/webhooks/dlq/${ids[2] ?? ""}/replay`), 409, "INVALID_STATE");
    await sql(api, "UPDATE tenants SET held_at = NULL WHERE id = $1", [tenant.tenantId]);
    expect(await until(tenant, job, "COMPLETED")).toMatchObject({ done: 3 });
  });

  test("skips a dead letter that was replayed and failed again since the request", async () => {
    const owner = await makeOwner();
    const { tenant } = owner;
    const ids = await seedLetters(owner, 4);
    const last = ids[3] ?? "";
    // The job finds the letter as it was. Whoever carries it out waits for the change.
    await database.query("BEGIN");
    await database.query("UPDATE deliveries SET cycle = 2, dead_lettered_at = now() WHERE id = $1", [last]);
    const job = await start(tenant, { filter: {} });
    await database.query("COMMIT");
    expect(await until(tenant, job, "COMPLETED")).toMatchObject({ done: 3, skipped: 1, failed: 0 });
    expect(await cycles([last])).toEqual([2]);
  });
});

describe("a replay is rejected", () => {
  test.each([
    [{}, 422],
    [{ ids: [], dry_run: true }, 422],
    [{ ids: ["dlv_1"] }, 422],
    [{ filter: {}, ids: ["dlv_000000000000000000000000"] }, 422],
    [{ filter: { limit: 1 } }, 422],
    [{ filter: { from: "2025-02-30T00:00:00Z" } }, 422],
    [{ filter: {}, rate_per_second: 0 }, 422],
    [{ filter: {}, rate_per_second: 5_001 }, 422],
  ])("if its body is %j", async (body, status) => {
    const { tenant } = await makeOwner();
    expectRefusal(await tenant.post(REPLAY, body), status, "VALIDATION_FAILED");
  });

  test("beyond ten unfinished jobs", async () => {
    const owner = await makeOwner();
    await seedLetters(owner, 2);
    for (let count = 0; count < 10; count += 1) {
      const job = await start(owner.tenant, { filter: {}, rate_per_second: 1 });
      await sql(api, "UPDATE replay_jobs SET state = 'PAUSED' WHERE id = $1", [job["id"]]);
      await seedLetters(owner, 1);
    }
    expectRefusal(await owner.tenant.post(REPLAY, { filter: {} }), 422, "LIMIT_EXCEEDED");
  });

  test("with more than 10,000 ids, but not with 10,000", async () => {
    const { tenant } = await makeOwner();
    const ids = Array.from({ length: 10_001 }, () => newId("delivery", Date.now(), randomBytes));
    expectRefusal(await tenant.post(REPLAY, { ids }), 422, "VALIDATION_FAILED");
    expect(await start(tenant, { ids: ids.slice(1) })).toMatchObject({ total: 10_000, failed: 10_000 });
  });
});

describe("missing events of an endpoint", () => {
  test("are counted and delivered once each", async () => {
    const { tenant } = await makeOwner();
    const since = new Date(Date.now() - 60_000).toISOString();
    const missed = [await publish(tenant), await publish(tenant)];
    await publish(tenant, { type: "other.kind" });
    const erased = await publish(tenant);
    await tenant.send("DELETE", `/v1/events/${erased}/content`);
    const late = await createEndpoint(api, tenant, { url: `${receiver.url}/late` });
    const got = await publish(tenant);
    const path = `/v1/webhooks/endpoints/${late.id}/replay-missing`;
    expect((await tenant.post(path, { since, dry_run: true })).body).toEqual({ dry_run: true, total: 2 });
    const { body: job } = await tenant.post(path, { since });
    expect(job).toMatchObject({ kind: "missing", endpoint_id: late.id, total: 2 });
    expect(await until(tenant, job, "COMPLETED")).toMatchObject({ done: 2, failed: 0, skipped: 0 });
    const delivered = await eventually(async () => {
      const list = rows(await tenant.get(`/v1/webhooks/deliveries?endpoint_id=${late.id}&state=DELIVERED`));
      return list.length === 3 ? list : undefined;
    }, "the missing deliveries");
    expect(new Set(delivered.map((delivery) => delivery["event_id"]))).toEqual(new Set([...missed, got]));
    expect((await tenant.post(path, { since, dry_run: true })).body).toEqual({ dry_run: true, total: 0 });
    const requests = receiver.requests.filter(
      ({ path: to, headers }) => to.endsWith("/late") && headers["x-service-event-type"] !== "ping",
    );
    expect(requests).toHaveLength(3);
  });

  test("are limited to the endpoint's filter, and rejected for an endpoint that is not ACTIVE", async () => {
    const { tenant } = await makeOwner();
    await publish(tenant, { data: { n: 1 } });
    await publish(tenant, { data: { n: 2 } });
    const late = await createEndpoint(api, tenant, { url: receiver.url });
    const changed = await tenant.send("PATCH", `/v1/webhooks/endpoints/${late.id}`, {
      body: { filter: { "data.n": 2 } },
    });
    expect(changed).toMatchObject({ status: 200 });
    const path = `/v1/webhooks/endpoints/${late.id}/replay-missing`;
    const since = new Date(Date.now() - 60_000).toISOString();
    expect((await tenant.post(path, { since, dry_run: true })).body).toEqual({ dry_run: true, total: 1 });
    await sql(api, "UPDATE endpoints SET state = 'DISABLED', disabled_reason = 'tenant' WHERE id = $1", [
      late.id,
    ]);
    expectRefusal(await tenant.post(path, { since }), 409, "INVALID_STATE");
  });

  test("are rejected beyond the limit of one job, both listed and counted", async () => {
    const { tenant } = await makeOwner();
    const event = await publish(tenant);
    await sql(
      api,
      `INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
        SELECT day, left(id, -6) || lpad(i::text, 6, '0'), tenant_id, type, '{}', occurred_at, 0, created_at
          FROM events, generate_series(1, 100001) i WHERE id = $1`,
      [event],
    );
    const late = await createEndpoint(api, tenant, { url: receiver.url });
    const path = `/v1/webhooks/endpoints/${late.id}/replay-missing`;
    const since = new Date(Date.now() - 600_000).toISOString();
    for (const body of [{ since }, { since, dry_run: true }]) {
      expectRefusal(await tenant.post(path, body), 422, "LIMIT_EXCEEDED");
    }
  });

  test("are delivered once even if two jobs run concurrently", async () => {
    const { tenant } = await makeOwner();
    for (let count = 0; count < 5; count += 1) {
      await publish(tenant);
    }
    const late = await createEndpoint(api, tenant, { url: receiver.url });
    const path = `/v1/webhooks/endpoints/${late.id}/replay-missing`;
    const since = new Date(Date.now() - 60_000).toISOString();
    const jobs = await Promise.all([tenant.post(path, { since }), tenant.post(path, { since })]);
    const ended = await Promise.all(jobs.map(async ({ body }) => await until(tenant, body, "COMPLETED")));
    expect(ended.map((job) => Number(job["done"])).reduce((a, b) => a + b, 0)).toBe(5);
    const made = await sql(api, "SELECT event_id FROM deliveries WHERE endpoint_id = $1", [late.id]);
    expect(new Set(made.map((row) => row["event_id"])).size).toBe(5);
    expect(made).toHaveLength(5);
  });
});

describe("attempt now and cancel", () => {
  test("a waiting delivery can be attempted immediately, but not after it is cancelled", async () => {
    const tenant = await createTenant(api);
    const failing = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
    await createEndpoint(api, tenant, { url: failing.url });
    const eventId = await publish(tenant);
    const found = async (state: string, attempts: number): Promise<Json> =>
      await eventually(async () => {
        const [row] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${eventId}`));
        return row?.["state"] === state && row["attempt_count"] === attempts ? row : undefined;
      }, `${state} after ${attempts}`);
    const waiting = await found("RETRYING", 1);
    const path = `/v1/webhooks/deliveries/${String(waiting["id"])}`;
    expect(waiting["next_attempt_at"]).toEqual(anInstant());
    expect(await tenant.post(`${path}/retry`)).toMatchObject({ status: 202, body: { state: "RETRYING" } });
    const retried = await found("RETRYING", 2);
    // The time of the third attempt does not change.
    expect(Date.parse(String(retried["next_attempt_at"]))).toBeGreaterThan(
      Date.parse(String(waiting["next_attempt_at"])),
    );
    expect(await tenant.post(`${path}/cancel`)).toMatchObject({ status: 200, body: { state: "CANCELLED" } });
    expectRefusal(await tenant.post(`${path}/cancel`), 409, "INVALID_STATE");
    expectRefusal(await tenant.post(`${path}/retry`), 409, "INVALID_STATE");
    expect(rows(await tenant.get(`${path}/attempts`))).toHaveLength(2);
    await failing.close();
  });
});
