/** DELETE /v1/events/{id}/content over HTTP (docs/erasure.md). */
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { createEndpoint, createTenant, publish, rows, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = [...WEBHOOK_SCOPES, "compliance:read"];

test("a repeated erasure answers 204 but erases once, as the event, the list and the log show", async () => {
  const tenant = await createTenant(api, SCOPES);
  await createEndpoint(api, tenant);
  const id = await publish(tenant);
  const path = `/v1/events/${id}/content`;
  expect((await tenant.get(`/v1/events/${id}`)).body).toMatchObject({
    data: expect.any(Object),
    content_erased_at: null,
  });
  expect(await tenant.send("DELETE", path)).toMatchObject({ status: 204, text: "" });
  const { body } = await tenant.get(`/v1/events/${id}`);
  expect(body).toMatchObject({ id, data: null, deliveries: 1, content_erased_at: expect.any(String) });
  expect(await tenant.send("DELETE", path)).toMatchObject({ status: 204 });
  expect(rows(await tenant.get("/v1/events"))).toEqual([body]);
  expect(rows(await tenant.get("/v1/compliance/entries?type=event.content_erased"))).toMatchObject([
    { actor: `credential:${tenant.credentialId}`, target: id, details: { cancelled: 1 } },
  ]);
  expect(rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${id}`))).toMatchObject([
    { state: "CANCELLED", next_attempt_at: null },
  ]);
});

test("a dead letter of an erased event leaves the queue, and its replay is a 409", async () => {
  const tenant = await createTenant(api, SCOPES);
  await createEndpoint(api, tenant, { state: "DISABLED" });
  const id = await publish(tenant);
  const [dead] = rows(await tenant.get("/v1/webhooks/dlq"));
  expect(await tenant.send("DELETE", `/v1/events/${id}/content`)).toMatchObject({ status: 204 });
  expect(rows(await tenant.get("/v1/webhooks/dlq"))).toEqual([]);
  expect(await tenant.post(`/v1/webhooks/dlq/${String(dead?.["id"])}/replay`)).toMatchObject({
    status: 409,
    body: { code: "INVALID_STATE" },
  });
});

test("a replay and an erasure at the same time leave the delivery cancelled", async () => {
  const tenant = await createTenant(api, SCOPES);
  await createEndpoint(api, tenant, { state: "DISABLED" });
  for (let round = 0; round < 10; round += 1) {
    const id = await publish(tenant);
    const [dead] = rows(await tenant.get("/v1/webhooks/dlq"));
    const [replayed, erased] = await Promise.all([
      tenant.post(`/v1/webhooks/dlq/${String(dead?.["id"])}/replay`),
      tenant.send("DELETE", `/v1/events/${id}/content`),
    ]);
    expect([202, 409]).toContain(replayed.status);
    expect(erased.status).toBe(204);
    expect(await sql(api, "SELECT state FROM deliveries WHERE event_id = $1", [id])).toEqual([
      { state: "CANCELLED" },
    ]);
  }
});
