/** `why` says that an operator has paused the workflow of a delivery, a verification or a replay job in Temporal. */
import type { Client } from "@temporalio/client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createLazyClient } from "#temporal/client.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { pauseWorkflow } from "../support/paused-workflow.ts";
import { type Receiver, startReceiver } from "../support/receiver-server.ts";
import { temporalOptionsOf } from "../support/temporal-connection.ts";
import { createEndpoint, createTenant, type Json, publish, type Tenant } from "../support/tenant.ts";

const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "259200000" } });
let client: Client;
let receiver: Receiver;

beforeAll(async () => {
  client = createLazyClient(temporalOptionsOf(api.environment));
  receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
});

afterAll(async () => {
  await client.connection.close();
  await receiver.close();
});

/** A delivery that is retried, of an endpoint of its own. */
async function retrying(): Promise<{ tenant: Tenant; endpoint: string; delivery: Json }> {
  const tenant = await createTenant(api);
  const { id: endpoint } = await createEndpoint(api, tenant, { url: receiver.url });
  const event = await publish(tenant);
  const list = `/tenants/${tenant.tenantId}/deliveries?event_id=${event}&state=RETRYING`;
  const delivery = await eventually(async () => {
    const { body } = await api.admin("GET", list);
    return (body["data"] as Json[])[0];
  }, "the delivery to be retried");
  return { tenant, endpoint, delivery };
}

async function why(id: string): Promise<Json> {
  return (await api.admin("GET", `/why/${id}`)).body;
}

/** Pauses a workflow, looks at what its objects wait for, and unpauses it. */
async function expectPaused(workflowId: string, effect: string, ids: readonly string[]): Promise<void> {
  const unpause = await pauseWorkflow(client, workflowId);
  for (const id of ids) {
    const { cause, waits_until: until, summary } = await why(id);
    expect({ id, cause, until }).toEqual({ id, cause: "workflow_paused", until: null });
    expect(summary).toMatch(
      new RegExp(
        `${workflowId} is paused in Temporal since \\d{4}-\\d\\d-\\d\\d .* UTC \\(.* ago\\), so ${effect}\\.`,
      ),
    );
    expect(summary).toContain("The reason given is: receiver moves.");
    const { namespace } = client.options;
    expect(summary).toContain(
      `temporal workflow unpause --namespace ${namespace} --workflow-id ${workflowId}`,
    );
  }
  await unpause();
}

test("a paused delivery is explained, since when and why, until it is unpaused", async () => {
  const { delivery } = await retrying();
  const id = String(delivery["id"]);
  await expectPaused(String(delivery["workflow_id"]), "no attempt is made", [id]);
  expect(await why(id)).toMatchObject({ cause: "retry_scheduled" });
});

test("a paused verification is explained for its endpoint, and for a delivery that waits for it", async () => {
  const { tenant, endpoint, delivery } = await retrying();
  const path = `/v1/webhooks/endpoints/${endpoint}`;
  await tenant.post(`${path}/disable`, {});
  await tenant.post(`${path}/enable`, {});
  const verification = async (): Promise<Json> => (await tenant.get(path)).body["verification"] as Json;
  await eventually(async () => (await verification())["attempts"] === 1, "the first ping");
  const { workflow_id: workflowId } = await verification();
  const ids = [endpoint, String(delivery["id"])];
  await expectPaused(String(workflowId), "no ping is sent", ids);
  for (const id of ids) {
    expect(await why(id)).toMatchObject({ cause: "endpoint_not_verified" });
  }
});

test("a paused replay job is explained, and its state otherwise", async () => {
  const { tenant } = await retrying();
  await Promise.all(Array.from({ length: 20 }, async () => await publish(tenant)));
  const selection = { states: ["RETRYING"], filter: {}, rate_per_second: 1 };
  const retried = `/tenants/${tenant.tenantId}/deliveries?state=RETRYING&limit=100`;
  await eventually(async () => {
    const { body } = await api.admin("GET", retried);
    return (body["data"] as Json[]).length === 21;
  }, "the deliveries to be retried");
  const job = String((await tenant.post("/v1/webhooks/replays", selection)).body["id"]);
  const workflowId = `replay/${job}`;
  await eventually(
    async () =>
      await client.workflow
        .getHandle(workflowId)
        .describe()
        .then(
          () => true,
          () => undefined,
        ),
    "the workflow of the job",
  );
  expect(await why(job)).toMatchObject({ kind: "replay", state: "RUNNING", cause: "replay_running" });
  await expectPaused(workflowId, "nothing more is replayed", [job]);
  await tenant.post(`/v1/webhooks/replays/${job}/pause`, {});
  expect(await why(job)).toMatchObject({ state: "PAUSED", cause: "replay_paused" });
  await tenant.post(`/v1/webhooks/replays/${job}/cancel`, {});
  expect(await why(job)).toMatchObject({ state: "CANCELLED", cause: "cancelled" });
});
