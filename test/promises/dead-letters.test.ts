/** Contract 3, 4 and 8: 17 failures, a dead letter for 7 days, and replay singly, in bulk and by signal. */
import { expect, test } from "vitest";
import {
  deployedApi,
  exhaust,
  publishOne,
  untilDelivery,
  verifiedEndpoint,
} from "../support/deployed-api.ts";
import { eventually } from "../support/eventually.ts";
import { rows, WEBHOOK_SCOPES } from "../support/tenant.ts";

const api = deployedApi();
const DLQ = "/v1/webhooks/dlq";
const WEEK_MS = 7 * 86_400_000;

test("after 17 failures an event is a dead letter for 7 days; a replay gives it 17 new attempts", async () => {
  const { tenant, receiver } = await verifiedEndpoint(api);
  receiver.answer([{ kind: "answer", status: 500, body: "no" }]);
  const id = await publishOne(tenant, { data: { n: 1 } });
  const dead = await exhaust(tenant, id);
  expect(dead).toMatchObject({ cycle: 1, last_status: 500, last_error: "status" });
  expect(receiver.requests.map(({ headers }) => Number(headers["x-service-attempt"]))).toEqual(
    Array.from({ length: 17 }, (_, index) => index + 1),
  );
  const [letter, ...others] = rows(await tenant.get(DLQ));
  expect(others).toEqual([]);
  expect(letter).toMatchObject({ id, reason: "attempts_exhausted", event: { data: { n: 1 } } });
  const keptMs =
    Date.parse(String(letter?.["expires_at"])) - Date.parse(String(letter?.["dead_lettered_at"]));
  expect(keptMs).toBe(WEEK_MS);

  expect(await tenant.post(`${DLQ}/${id}/replay`)).toMatchObject({ status: 202, body: { id, cycle: 2 } });
  await exhaust(tenant, id);
  expect(receiver.requests).toHaveLength(2 * 17);
  receiver.answer([{ kind: "answer" }]);
  expect(await tenant.post(`${DLQ}/${id}/replay`)).toMatchObject({ status: 202 });
  await untilDelivery(tenant, id, { state: "DELIVERED", cycle: 3, attempt_count: 1 });
  expect(rows(await tenant.get(DLQ))).toEqual([]);
  expect(await tenant.post(`${DLQ}/${id}/replay`)).toMatchObject({
    status: 409,
    body: { code: "INVALID_STATE" },
  });
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
});

test("a delivered event is sent again on request, and its first attempt stays in the log", async () => {
  const { tenant, receiver } = await verifiedEndpoint(api);
  const id = await publishOne(tenant);
  await untilDelivery(tenant, id, { state: "DELIVERED", cycle: 1 });
  const path = `/v1/webhooks/deliveries/${id}`;
  const [first] = rows(await tenant.get(`${path}/attempts`));
  // The receiver answers after both requests: once the delivery is DELIVERED, it can be sent again.
  const requests = Promise.all([tenant.post(`${path}/resend`), tenant.post(`${path}/resend`)]);
  receiver.answer([{ kind: "answer", after: requests }]);
  const answers = await requests;
  expect(answers.map(({ status }) => status).sort((one, other) => one - other)).toEqual([202, 409]);
  await untilDelivery(tenant, id, { state: "DELIVERED", cycle: 2 });
  expect(rows(await tenant.get(`${path}/attempts`))).toEqual([
    first,
    expect.objectContaining({ cycle: 2, attempt: 1, status: 200, resend: true }),
  ]);
  expect(receiver.requests).toHaveLength(2);
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(1);
});

test("a bulk replay delivers every dead letter of its filter once, and no other", async () => {
  const { tenant, id: endpointId, receiver } = await verifiedEndpoint(api, { events: ["a.b", "a.c"] });
  const path = `/v1/webhooks/endpoints/${endpointId}`;
  expect(await tenant.post(`${path}/disable`)).toMatchObject({ status: 200 });
  // More than one page of letters.
  const events = Array.from({ length: 100 }, () => ({ type: "a.b", data: {} }));
  for (let batch = 0; batch < 3; batch += 1) {
    expect((await tenant.post("/v1/events", { events })).status).toBeLessThan(300);
  }
  const other = await publishOne(tenant, { type: "a.c" });
  expect((await tenant.get(`/v1/webhooks/deliveries/${other}`)).body).toMatchObject({
    state: "DEAD_LETTERED",
  });
  expect(await tenant.post(`${path}/enable`)).toMatchObject({ status: 202 });
  await eventually(
    async () => (await tenant.get(path)).body["state"] === "ACTIVE",
    "the endpoint to be ACTIVE",
  );
  receiver.clear();

  const filter = { event_type: "a.b" };
  const job = await tenant.post(`${DLQ}/replay`, { filter, rate_per_second: 500 });
  expect(job).toMatchObject({ status: 202, body: { state: "RUNNING", total: 300 } });
  const jobPath = `/v1/webhooks/replays/${String(job.body["id"])}`;
  await eventually(
    async () => (await tenant.get(jobPath)).body["state"] === "COMPLETED",
    "the replay to end",
  );
  expect((await tenant.get(jobPath)).body).toMatchObject({ total: 300, done: 300, failed: 0, skipped: 0 });
  await receiver.waitFor(300, 45_000);
  expect(new Set(receiver.requests.map(({ headers }) => headers["webhook-id"])).size).toBe(300);
  expect(rows(await tenant.get(DLQ))).toMatchObject([{ id: other }]);
});

test("an operator replays a dead letter by a signal to its workflow, and cancels another", async () => {
  const { tenant, receiver } = await verifiedEndpoint(api, {}, [...WEBHOOK_SCOPES, "compliance:read"]);
  receiver.answer([{ kind: "answer", status: 500 }]);
  const [one, two] = [await publishOne(tenant), await publishOne(tenant)];
  await Promise.all([exhaust(tenant, one), exhaust(tenant, two)]);
  receiver.answer([{ kind: "answer" }]);
  const signal = async (id: string, name: string): Promise<void> => {
    // One that dies before the others of its list gets a workflow of dead letters within seconds.
    const workflowId = await eventually(async () => {
      const { body } = await tenant.get(`/v1/webhooks/deliveries/${id}`);
      return typeof body["workflow_id"] === "string" && body["workflow_id"];
    }, "the dead letter's workflow");
    const input = JSON.stringify({ delivery_ids: [id], by: "ada" });
    const args = ["--workflow-id", workflowId, "--name", name, "--input", input];
    await api.temporal("workflow", "signal", ...args);
  };
  await signal(one, "replay");
  await untilDelivery(tenant, one, { state: "DELIVERED", cycle: 2 });
  expect((await tenant.get(`/v1/webhooks/deliveries/${two}`)).body).toMatchObject({ state: "DEAD_LETTERED" });
  await signal(two, "cancel");
  await untilDelivery(tenant, two, { state: "CANCELLED" });
});
