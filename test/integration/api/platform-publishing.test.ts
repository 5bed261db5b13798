/** Publishing for another tenant is recorded in the compliance log once an hour, not per event. */
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";
import { sql } from "#test/support/tenant.ts";

const api = useTestApi();
const HOUR_MS = 3_600_000;
const SCOPES = ["events:publish", "events:publish_any"];

let platformTenant: string;
let platform: Provisioned;

beforeAll(async () => {
  const made = await api.admin("POST", "/tenants", { name: "platform", region: "eu", platform: true });
  platformTenant = String(made.body["id"]);
  platform = await provision(api, { tenantId: platformTenant, scopes: SCOPES });
});

async function publish(client: Provisioned, body: unknown): Promise<number> {
  const response = await api.request("/v1/events", {
    method: "POST",
    headers: { ...bearer(await accessToken(api, client)), "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.status;
}

const event = (tenantId: string) => ({ type: "inference.completed", data: {}, tenant_id: tenantId });

async function entriesOf(tenantId: string): Promise<readonly Record<string, unknown>[]> {
  const { body } = await api.admin("GET", `/audit?type=events.published_for_tenant&tenant_id=${tenantId}`);
  return body["data"] as Record<string, unknown>[];
}

describe("publishing for another tenant", () => {
  test("is recorded once an hour with its actor, whatever the number of events", async () => {
    const { tenantId } = await provision(api);
    // All of them in the same hour.
    api.clock.advance(HOUR_MS - (api.clock.now() % HOUR_MS));
    const batch = { events: Array.from({ length: 20 }, () => event(tenantId)) };
    const statuses = await Promise.all([
      publish(platform, batch),
      publish(platform, event(tenantId)),
      publish(platform, event(tenantId)),
    ]);
    expect(statuses).toEqual([202, 202, 202]);
    const [entry, ...more] = await entriesOf(tenantId);
    expect(more).toEqual([]);
    expect(entry).toMatchObject({
      actor: `credential:${platform.credentialId}`,
      target: tenantId,
      details: { principal_id: platform.principalId },
    });
    api.clock.advance(HOUR_MS);
    expect(await publish(platform, event(tenantId))).toBe(202);
    expect(await entriesOf(tenantId)).toHaveLength(2);
  });

  test("is recorded for each tenant and each principal", async () => {
    const [first, second] = [await provision(api), await provision(api)];
    const colleague = await provision(api, { tenantId: platformTenant, scopes: SCOPES });
    for (const client of [platform, colleague]) {
      await publish(client, { events: [event(first.tenantId), event(second.tenantId)] });
    }
    for (const { tenantId } of [first, second]) {
      const actors = (await entriesOf(tenantId)).map(({ actor }) => actor);
      expect(new Set(actors)).toEqual(
        new Set([platform, colleague].map(({ credentialId }) => `credential:${credentialId}`)),
      );
    }
  });

  test("is rejected with the reason while that tenant is suspended, and works again after it is resumed", async () => {
    const { tenantId } = await provision(api);
    await api.admin("POST", `/tenants/${tenantId}/suspend`, {});
    const headers = { ...bearer(await accessToken(api, platform)), "content-type": "application/json" };
    const body = JSON.stringify(event(tenantId));
    expect(await api.request("/v1/events", { method: "POST", headers, body })).toMatchObject({
      status: 403,
      body: { code: "TENANT_SUSPENDED" },
    });
    expect(await entriesOf(tenantId)).toEqual([]);
    await api.admin("POST", `/tenants/${tenantId}/resume`, {});
    expect(await publish(platform, event(tenantId))).toBe(202);
  });

  test("is not recorded when it is rejected, nor for the publisher's own tenant", async () => {
    const plain = await provision(api, { scopes: ["events:publish"] });
    const other = await provision(api);
    expect(await publish(plain, event(other.tenantId))).toBe(403);
    expect(await publish(plain, event(plain.tenantId))).toBe(202);
    expect(await publish(platform, event("ten_000000000000000000000000"))).toBe(422);
    expect(await entriesOf(other.tenantId)).toEqual([]);
    expect(await entriesOf(plain.tenantId)).toEqual([]);
  });

  test("fails if it cannot be recorded, and works once it can", async () => {
    const { tenantId } = await provision(api);
    await sql(api, "ALTER TABLE clog RENAME TO clog_away");
    try {
      expect(await publish(platform, event(tenantId))).toBe(500);
    } finally {
      await sql(api, "ALTER TABLE clog_away RENAME TO clog");
    }
    expect(await sql(api, "SELECT FROM events WHERE tenant_id = $1", [tenantId])).toEqual([]);
    expect(await publish(platform, event(tenantId))).toBe(202);
    expect(await entriesOf(tenantId)).toHaveLength(1);
  });
});
