/** A replay to an endpoint that is deleted, disabled or unverified fails with the reason, and changes nothing. */
import { beforeAll, describe, expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  publish,
  replayInState,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
const DLQ = "/v1/webhooks/dlq";
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api, WEBHOOK_SCOPES);
});

/** Creates a dead letter and deletes its endpoint. */
async function letterOfDeletedEndpoint(): Promise<{ readonly id: string; readonly letter: Json }> {
  const endpoint = await createEndpoint(api, tenant, { state: "DISABLED" });
  const eventId = await publish(tenant);
  const [delivery] = rows(await tenant.get(`${DLQ}?event_id=${eventId}&endpoint_id=${endpoint.id}`));
  const id = String(delivery?.["id"]);
  expect(await tenant.send("DELETE", `/v1/webhooks/endpoints/${endpoint.id}`)).toMatchObject({ status: 204 });
  return { id, letter: delivery ?? {} };
}

/** A dead letter gets a workflow within seconds, whatever else happens to it. */
function withoutWorkflow({ workflow_id: _workflow, ...letter }: Json): Json {
  return letter;
}

test("a replay of such a dead letter is rejected, and it stays unchanged", async () => {
  const { id, letter } = await letterOfDeletedEndpoint();
  const refused = await tenant.post(`${DLQ}/${id}/replay`);
  expectRefusal(refused, 409, "INVALID_STATE");
  expect(refused.body["detail"]).toContain("endpoint is deleted");
  expect(withoutWorkflow((await tenant.get(`${DLQ}/${id}`)).body)).toEqual(withoutWorkflow(letter));
});

test.each(["ids", "a filter"])(
  "a job over %s reports these dead letters as failed and leaves them unchanged",
  async (by) => {
    const { id, letter } = await letterOfDeletedEndpoint();
    const { event_id: eventId } = letter;
    const chosen = by === "ids" ? { ids: [id] } : { filter: { event_id: eventId } };
    const { status, body: job } = await tenant.post(`${DLQ}/replay`, chosen);
    expect({ status, total: job["total"] }).toEqual({ status: 202, total: 1 });
    const path = `/v1/webhooks/replays/${String(job["id"])}`;
    const ended = await eventually(async () => {
      const { body } = await tenant.get(path);
      return body["state"] === "COMPLETED" ? body : undefined;
    }, "the job to end");
    expect(ended).toMatchObject({ done: 0, failed: 1, skipped: 0 });
    expect(rows(await tenant.get(`${path}/items`))).toMatchObject([
      { delivery_id: id, state: "FAILED", reason: "endpoint_unavailable" },
    ]);
    expect(withoutWorkflow((await tenant.get(`${DLQ}/${id}`)).body)).toEqual(withoutWorkflow(letter));
  },
);

/** Creates a dead letter of an endpoint, which is then changed by SQL assignments. */
async function letterOf(
  change: string,
): Promise<{ readonly id: string; readonly letter: Json; readonly endpoint: string }> {
  const { id: endpoint } = await createEndpoint(api, tenant, { state: "DISABLED" });
  const eventId = await publish(tenant);
  const [letter = {}] = rows(await tenant.get(`${DLQ}?event_id=${eventId}&endpoint_id=${endpoint}`));
  await sql(api, `UPDATE endpoints SET ${change} WHERE id = $1`, [endpoint]);
  return { id: String(letter["id"]), letter, endpoint };
}

async function ended(job: Json): Promise<Json> {
  return await replayInState(tenant, job, "COMPLETED");
}

const DISABLED = "state = 'DISABLED', disabled_reason = 'tenant'";
// Under a generation of its own, because the pings of the first one are still sent and would be recorded.
const UNVERIFIED =
  "state = 'PENDING', disabled_reason = NULL, verification_state = 'EXHAUSTED', generation = generation + 1";

describe.each([
  ["disabled by its tenant", DISABLED],
  ["disabled for failing", "state = 'DISABLED', disabled_reason = 'failing'"],
  ["unverified for good", UNVERIFIED],
])("an endpoint that is %s", (_name, change) => {
  test("gets no dead letter: a count says so before, each item says why, and the letter stays as it is", async () => {
    const { id, letter, endpoint } = await letterOf(change);
    const filter = { endpoint_id: endpoint };
    for (const [path, chosen] of [
      [`${DLQ}/replay`, { ids: [id] }],
      [`${DLQ}/replay`, { filter }],
      ["/v1/webhooks/replays", { filter }],
    ] as const) {
      expect((await tenant.post(path, { ...chosen, dry_run: true })).body).toEqual({
        dry_run: true,
        total: 1,
        would_fail: 1,
      });
      const { status, body: job } = await tenant.post(path, chosen);
      expect(status).toBe(202);
      expect(await ended(job)).toMatchObject({ done: 0, failed: 1, skipped: 0 });
      expect(rows(await tenant.get(`/v1/webhooks/replays/${String(job["id"])}/items`))).toMatchObject([
        { delivery_id: id, state: "FAILED", reason: "endpoint_disabled", outcome: null },
      ]);
    }
    const refused = await tenant.post(`${DLQ}/${id}/replay`);
    expectRefusal(refused, 409, "INVALID_STATE");
    expect(refused.body["detail"]).toContain("enable it first");
    expect(withoutWorkflow((await tenant.get(`${DLQ}/${id}`)).body)).toEqual(withoutWorkflow(letter));
  });

  test("gets no resend, and the delivery stays as it is", async () => {
    const { id } = await letterOf(change);
    await sql(api, "UPDATE deliveries SET state = 'CANCELLED', expires_at = NULL WHERE id = $1", [id]);
    const refused = await tenant.post(`/v1/webhooks/deliveries/${id}/resend`);
    expectRefusal(refused, 409, "INVALID_STATE");
    expect(refused.body["detail"]).toContain("enable it first");
    expect((await tenant.get(`/v1/webhooks/deliveries/${id}`)).body).toMatchObject({
      state: "CANCELLED",
      cycle: 1,
    });
  });
});

test.each([
  ["disabled by its tenant", DISABLED, { state: "FAILED", reason: "endpoint_disabled" }, 1],
  // Its retries continue until they are used up (docs/endpoints.md).
  [
    "disabled for failing",
    "state = 'DISABLED', disabled_reason = 'failing'",
    { state: "DONE", reason: null },
    undefined,
  ],
] as const)(
  "a retry of an endpoint that is %s is reported as what it will be",
  async (_name, change, item, wouldFail) => {
    const { id, endpoint } = await letterOf(change);
    await sql(
      api,
      `UPDATE deliveries SET state = 'RETRYING', reason = NULL, attempt_count = 1, expires_at = NULL, dead_lettered_at = NULL,
      next_attempt_at = now() + interval '1 hour' WHERE id = $1`,
      [id],
    );
    const chosen = { states: ["RETRYING"], filter: { endpoint_id: endpoint } };
    const { body: count } = await tenant.post("/v1/webhooks/replays", { ...chosen, dry_run: true });
    expect(count["would_fail"]).toBe(wouldFail);
    const { body: job } = await tenant.post("/v1/webhooks/replays", chosen);
    await ended(job);
    expect(rows(await tenant.get(`/v1/webhooks/replays/${String(job["id"])}/items`))).toMatchObject([item]);
  },
);

test("a replay to an endpoint that is still being verified is no failure: its delivery waits", async () => {
  const { endpoint } = await letterOf(
    "state = 'PENDING', disabled_reason = NULL, verification_state = 'RUNNING'",
  );
  const { body } = await tenant.post(`${DLQ}/replay`, { filter: { endpoint_id: endpoint }, dry_run: true });
  expect(body).toEqual({ dry_run: true, total: 1 });
});
