/** Dead letters of a deleted endpoint stay readable until they expire; a replay does not remove them. */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "../../support/api.ts";
import { eventually } from "../../support/eventually.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  publish,
  rows,
  type Tenant,
  WEBHOOK_SCOPES,
} from "../../support/tenant.ts";

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
