/** A tenant's actions on endpoints and dead letters are logged once each. */
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  publish,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const api = useSharedApi();

async function entries(tenant: Tenant, type: string): Promise<Record<string, unknown>[]> {
  return rows(await tenant.get(`/v1/compliance/entries?type=${type}`)) as Record<string, unknown>[];
}

const scopes = [...WEBHOOK_SCOPES, "compliance:read"];

test("an endpoint's registration and deletion are logged with the caller, without the endpoint's address", async () => {
  const tenant = await createTenant(api, scopes);
  const body = { url: "http://127.0.0.1:9999/hook?token=secret", events: ["a.b"] };
  const headers = { "idempotency-key": "once" };
  const made = await tenant.post("/v1/webhooks/endpoints", body, headers);
  expect(await tenant.post("/v1/webhooks/endpoints", body, headers)).toMatchObject({ status: 201 });
  const actor = `credential:${tenant.credentialId}`;
  const created = await entries(tenant, "endpoint.created");
  expect(created).toMatchObject([{ actor, target: made.body["id"], details: { events: ["a.b"] } }]);
  expect(created[0]?.["request_id"]).toBe(made.headers.get("x-request-id"));
  expect(JSON.stringify(created)).not.toContain("hook");

  const path = `/v1/webhooks/endpoints/${String(made.body["id"])}`;
  expect(await tenant.send("DELETE", path)).toMatchObject({ status: 204 });
  expect(await tenant.send("DELETE", path)).toMatchObject({ status: 404 });
  expect(await entries(tenant, "endpoint.deleted")).toMatchObject([{ actor, target: made.body["id"] }]);
});

test("a replay is logged when it happens, and not when it is rejected", async () => {
  const tenant = await createTenant(api, scopes);
  await createEndpoint(api, tenant);
  const event = await publish(tenant);
  const [delivery] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${event}`));
  const id = String(delivery?.["id"]);
  await sql(
    api,
    `UPDATE deliveries SET state = 'DEAD_LETTERED', reason = 'attempts_exhausted', attempt_count = 17,
      dead_lettered_at = now(), expires_at = now() + interval '7 days' WHERE id = $1`,
    [id],
  );
  const path = `/v1/webhooks/dlq/${id}/replay`;
  expect(await tenant.send("POST", path)).toMatchObject({ status: 202 });
  expect(await tenant.send("POST", path)).toMatchObject({ status: 409 });
  expect(await entries(tenant, "dlq.replayed")).toMatchObject([
    { actor: `credential:${tenant.credentialId}`, target: id },
  ]);
});
