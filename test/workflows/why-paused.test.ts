/** `why` says that an operator has paused a delivery's workflow in Temporal. */
import { expect, test } from "vitest";
import { createLazyClient } from "../../src/temporal/client.ts";
import { useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { pauseWorkflow } from "../support/paused-workflow.ts";
import { startReceiver } from "../support/receiver-server.ts";
import { temporalOptionsOf } from "../support/temporal-connection.ts";
import { createEndpoint, createTenant, type Json, publish } from "../support/tenant.ts";

const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "259200000" } });

test("a paused delivery is explained, since when and why, until it is unpaused", async () => {
  const receiver = await startReceiver({ script: [{ kind: "answer", status: 500 }] });
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant, { url: receiver.url });
  const event = await publish(tenant);
  const list = `/tenants/${tenant.tenantId}/deliveries?event_id=${event}&state=RETRYING`;
  const delivery = await eventually(async () => {
    const { body } = await api.admin("GET", list);
    return (body["data"] as Json[])[0];
  }, "the delivery to be retried");
  const why = async (): Promise<Json> => (await api.admin("GET", `/why/${String(delivery["id"])}`)).body;
  const client = createLazyClient(temporalOptionsOf(api.environment));
  const workflowId = String(delivery["workflow_id"]);
  const unpause = await pauseWorkflow(client, workflowId);
  const { cause, waits_until: until, summary } = await why();
  expect({ cause, until }).toEqual({ cause: "workflow_paused", until: null });
  expect(summary).toMatch(
    /is paused in Temporal since \d{4}-\d\d-\d\d .* UTC \(.* ago\), so no attempt is made/,
  );
  expect(summary).toContain("The reason given is: receiver moves.");
  const { namespace } = client.options;
  expect(summary).toContain(`temporal workflow unpause --namespace ${namespace} --workflow-id ${workflowId}`);
  await unpause();
  expect(await why()).toMatchObject({ cause: "retry_scheduled" });
  await client.connection.close();
  await receiver.close();
});
