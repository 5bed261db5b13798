/** The life cycle of an endpoint as its tenant sees it, without a worker: the effects of each request. */
import { describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  publish,
  rows,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useTestApi();
const ENDPOINTS = "/v1/webhooks/endpoints";
const MINUTE_MS = 60_000;

describe("a registered endpoint", () => {
  test("shows its secret once, and the database never stores it as plain text", async () => {
    const tenant = await createTenant(api);
    const { id, secret } = await createEndpoint(api, tenant, { state: "PENDING" });
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect((await tenant.get(`${ENDPOINTS}/${id}`)).text).not.toContain("whsec_");
    expect((await tenant.get(ENDPOINTS)).text).not.toContain("whsec_");
    const stored = await sql<{ secret: string }>(
      api,
      "SELECT secret FROM endpoint_secrets WHERE endpoint_id = $1",
      [id],
    );
    expect(stored).toHaveLength(1);
    expect(stored[0]?.secret).toMatch(/^v1\./);
    expect(stored[0]?.secret).not.toContain(secret.slice("whsec_".length));
    expect(api.log.join("")).not.toContain(secret);
  });

  test("has a normalized URL and its events in the given order", async () => {
    const tenant = await createTenant(api);
    const { body } = await tenant.post(ENDPOINTS, {
      url: "https://EXAMPLE.com:443/a/../b?c=%20d",
      events: ["z.z", "a.a"],
    });
    expect(body).toMatchObject({
      url: "https://example.com/b?c=%20d",
      events: ["z.z", "a.a"],
      metadata: null,
      description: null,
    });
    expect((await tenant.get(`${ENDPOINTS}/${String(body["id"])}`)).body).toEqual({
      ...body,
      secret: undefined,
    });
  });

  test.each(["amqps", "ftp", "kafka", "redis", "s3", "sqs"])(
    "is registered for HTTP alone, not for %s",
    async (scheme) => {
      const tenant = await createTenant(api);
      const made = await tenant.post(ENDPOINTS, {
        url: `${scheme}://hooks.example.com/queue`,
        events: ["*"],
      });
      expectRefusal(made, 422, "TARGET_URL_FORBIDDEN");
      expect(rows(await tenant.get(ENDPOINTS))).toEqual([]);
    },
  );

  test("has its own secret", async () => {
    const tenant = await createTenant(api);
    const made = [await createEndpoint(api, tenant), await createEndpoint(api, tenant)];
    expect(new Set(made.map(({ secret }) => secret)).size).toBe(2);
  });
});

describe("a deleted endpoint", () => {
  test("is not found, gets no events and has no secret; its deliveries remain readable", async () => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant);
    await publish(tenant);
    const path = `${ENDPOINTS}/${id}`;
    const deleted = await tenant.send("DELETE", path);
    expect({ status: deleted.status, text: deleted.text }).toEqual({ status: 204, text: "" });
    expectRefusal(await tenant.get(path), 404, "NOT_FOUND");
    expectRefusal(await tenant.send("DELETE", path), 404, "NOT_FOUND");
    expectRefusal(await tenant.post(`${path}/verify`), 404, "NOT_FOUND");
    expect(rows(await tenant.get(ENDPOINTS))).toEqual([]);
    expect(await tenant.post("/v1/events", { type: "inference.completed", data: {} })).toMatchObject({
      body: { deliveries: 0 },
    });
    expect(await sql(api, "SELECT secret FROM endpoint_secrets WHERE endpoint_id = $1", [id])).toEqual([
      { secret: "" },
    ]);
    expect(rows(await tenant.get(`/v1/webhooks/deliveries?endpoint_id=${id}`))).toHaveLength(1);
  });
});

describe("a repeated ping", () => {
  const verify = async (tenant: Tenant, id: string) => await tenant.post(`${ENDPOINTS}/${id}/verify`);
  const workflowOf = (body: Json): unknown => (body["verification"] as Json)["workflow_id"];

  test.each(["ACTIVE", "DISABLED"] as const)("is rejected for an endpoint that is %s", async (state) => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant, { state });
    expectRefusal(await verify(tenant, id), 409, "INVALID_STATE");
  });

  test("belongs to the current verification run, or to a new one if that has ended", async () => {
    const tenant = await createTenant(api);
    const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
    const open = await verify(tenant, id);
    expect(open).toMatchObject({ status: 202, body: { id, state: "PENDING" } });
    expect(workflowOf(open.body)).toBe(`verify/${id}/1`);
    await sql(api, "UPDATE endpoints SET verification_state = 'EXHAUSTED' WHERE id = $1", [id]);
    const next = await verify(tenant, id);
    expect(workflowOf(next.body)).toBe(`verify/${id}/2`);
    const wanted = await sql(api, "SELECT verification_state FROM endpoints WHERE id = $1", [id]);
    expect(wanted).toEqual([{ verification_state: "WANTED" }]);
  });

  test("can be requested six times a minute per endpoint", async () => {
    const tenant = await createTenant(api);
    const [one, other] = [
      await createEndpoint(api, tenant, { state: "PENDING" }),
      await createEndpoint(api, tenant, { state: "PENDING" }),
    ];
    for (let count = 0; count < 6; count += 1) {
      expect(await verify(tenant, one.id)).toMatchObject({ status: 202 });
    }
    const refused = await verify(tenant, one.id);
    expectRefusal(refused, 429, "RATE_LIMITED");
    const seconds = Number(refused.headers.get("retry-after"));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(await verify(tenant, other.id)).toMatchObject({ status: 202 });
    api.clock.advance(MINUTE_MS);
    expect(await verify(tenant, one.id)).toMatchObject({ status: 202 });
  });
});
