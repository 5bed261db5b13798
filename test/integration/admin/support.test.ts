/** Operators find, explain and read what tenants have: on record, without its content. */
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { runSignet } from "#test/support/command-line.ts";
import { createEndpoint, createTenant, type Json, publish, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const SECRET = "do-not-show";
const UNKNOWN = "0".repeat(24);

let tenant: Tenant;
let other: Tenant;
let endpoint: string;
let eventId: string;
let deliveryId: string;
let replay: string;

beforeAll(async () => {
  tenant = await createTenant(api);
  other = await createTenant(api);
  await sql(api, "UPDATE tenants SET name = 'Acme 100%_Sure' WHERE id = $1", [tenant.tenantId]);
  const url = `http://127.0.0.1:19999/Hooks?token=${SECRET}`;
  ({ id: endpoint } = await createEndpoint(api, tenant, { url, metadata: { note: SECRET } }));
  await createEndpoint(api, other, { url: "http://127.0.0.1:19999/other" });
  eventId = await publish(tenant, { data: { secret: SECRET } });
  replay = String((await tenant.post("/v1/webhooks/dlq/replay", { filter: {} })).body["id"]);
  deliveryId = String((await deliveries(`event_id=${eventId}`))[0]?.["id"]);
  await sql(
    api,
    `INSERT INTO attempts (day, delivery_id, cycle, attempt, id, tenant_id, started_at, duration_ms, status, error, response_body)
      SELECT day, id, 1, 1, 'att_' || substr(id, 5), tenant_id, now(), 12, 500, 'status', $2 FROM deliveries WHERE id = $1`,
    [deliveryId, SECRET],
  );
});

async function list(path: string): Promise<readonly Json[]> {
  const answer = await api.admin("GET", path);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body["data"] as Json[];
}

async function deliveries(filters: string): Promise<readonly Json[]> {
  return await list(`/tenants/${tenant.tenantId}/deliveries?${filters}`);
}

async function find(text: string): Promise<readonly Json[]> {
  return await list(`/find?q=${encodeURIComponent(text)}`);
}

async function why(id: string): Promise<Json> {
  const answer = await api.admin("GET", `/why/${id}`);
  expect(answer).toMatchObject({ status: 200 });
  return answer.body;
}

async function reads(of: Tenant): Promise<readonly Json[]> {
  return await list(`/audit?type=tenant.read&tenant_id=${of.tenantId}&limit=100`);
}

/** Makes the endpoint fail since an instant, given in SQL. */
async function fail(since: string): Promise<void> {
  await sql(
    api,
    `INSERT INTO endpoint_activity (endpoint_id, tenant_id, health, health_since, results, failing_since, last_failure_at,
        last_status, last_error, retrying, dead)
      VALUES ($1, $2, 'failing', ${since}, '00000', ${since}, now(), 503, 'status', 0, 0)`,
    [endpoint, tenant.tenantId],
  );
}

describe("find", () => {
  test("finds every kind of object by its id, with its tenant", async () => {
    const ids: Readonly<Record<string, string>> = {
      tenant: tenant.tenantId,
      principal: tenant.principalId,
      credential: tenant.credentialId,
      endpoint,
      event: eventId,
      delivery: deliveryId,
      replay,
    };
    for (const [kind, id] of Object.entries(ids)) {
      expect(await find(id)).toMatchObject([
        { kind, id, tenant_id: tenant.tenantId, tenant_name: "Acme 100%_Sure" },
      ]);
    }
    expect(await find(`dlv_${UNKNOWN}`)).toEqual([]);
  });

  test("finds parts of names, client ids and URLs, in any case and with any characters", async () => {
    expect(await find("acme 100%_")).toMatchObject([{ kind: "tenant", id: tenant.tenantId }]);
    expect(await find("acme%sure")).toEqual([]);
    expect(await find(tenant.clientId)).toMatchObject([{ kind: "credential", id: tenant.credentialId }]);
    expect(await find("19999/hOOks")).toMatchObject([
      { kind: "endpoint", id: endpoint, label: "http://127.0.0.1:19999/Hooks", state: "ACTIVE" },
    ]);
  });

  test("neither shows nor searches the query of a URL", async () => {
    expect(await find(SECRET)).toEqual([]);
  });

  test("is bounded", async () => {
    expect(await api.admin("GET", "/find?q=ab")).toMatchObject({
      status: 400,
      body: { code: "INVALID_REQUEST" },
    });
    expect(await api.admin("GET", "/find?q=abc&limit=51")).toMatchObject({ status: 400 });
    expect(await list("/find?q=127.0.0.1&limit=1")).toHaveLength(1);
  });

  test("a tenant list can be filtered by a part of the name", async () => {
    expect(await list("/tenants?name=aCME")).toMatchObject([{ id: tenant.tenantId }]);
    expect(await list("/tenants?name=%25sure")).toEqual([]);
  });
});

describe("reads of a tenant", () => {
  const paths = (): readonly string[] => [
    `/tenants/${tenant.tenantId}/endpoints`,
    `/endpoints/${endpoint}`,
    `/tenants/${tenant.tenantId}/deliveries`,
    `/deliveries/${deliveryId}`,
    `/deliveries/${deliveryId}/attempts`,
    `/tenants/${tenant.tenantId}/dead-letters`,
    `/tenants/${tenant.tenantId}/replays`,
    `/tenants/${tenant.tenantId}/stats`,
    `/events/${eventId}`,
    `/why/${deliveryId}`,
    `/why/${endpoint}`,
    `/why/${eventId}`,
    `/why/${replay}`,
    `/why/${tenant.tenantId}`,
    `/find?q=${endpoint}`,
  ];

  test("show no content and no secret", async () => {
    for (const path of paths()) {
      const answer: Answer = await api.admin("GET", path);
      expect({ path, status: answer.status }).toEqual({ path, status: 200 });
      expect({ path, leaks: answer.text.includes(SECRET) }).toEqual({ path, leaks: false });
    }
  });

  test("show the object of that tenant only", async () => {
    expect((await list(`/tenants/${tenant.tenantId}/endpoints`)).map(({ id }) => id)).toEqual([endpoint]);
    expect((await deliveries("")).map(({ id }) => id)).toEqual([deliveryId]);
    expect(await deliveries("state=DEAD_LETTERED")).toEqual([]);
    expect(await list(`/deliveries/${deliveryId}/attempts`)).toMatchObject([
      { cycle: 1, attempt: 1, status: 500, error: "status" },
    ]);
    expect((await api.admin("GET", `/events/${eventId}`)).body).toMatchObject({
      id: eventId,
      tenant_id: tenant.tenantId,
      deliveries: 1,
    });
  });

  test("get 404 for what does not exist", async () => {
    for (const path of [
      `/tenants/ten_${UNKNOWN}/deliveries`,
      `/deliveries/dlv_${UNKNOWN}`,
      `/endpoints/ep_${UNKNOWN}`,
      `/why/evt_${UNKNOWN}`,
    ]) {
      expect(await api.admin("GET", path)).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
    }
    expect(await api.admin("GET", "/why/prn_1")).toMatchObject({ status: 404 });
  });

  test("leave one entry each in the tenant's own log before they answer, and none for the other tenant", async () => {
    const reader = await createTenant(api, ["compliance:read", "webhooks:write", "webhooks:read"]);
    const { id } = await createEndpoint(api, reader);
    const before = (await reads(other)).length;
    await api.admin("GET", `/endpoints/${id}`);
    await api.admin("GET", `/tenants/${reader.tenantId}/deliveries`);
    // A second look within the minute is counted, not recorded again.
    await api.admin("GET", `/endpoints/${id}`);
    const own = await reader.get("/v1/compliance/entries?type=tenant.read");
    const seen = own.body["data"] as Json[];
    expect(seen.length).toBeLessThanOrEqual(3);
    expect(seen).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ type: "tenant.read", actor: "operator:bootstrap", target: id }),
        expect.objectContaining({
          type: "tenant.read",
          actor: "operator:bootstrap",
          target: reader.tenantId,
        }),
      ]),
    );
    expect((await reads(other)).length).toBe(before);
  });

  test("answer nothing if the entry cannot be written", async () => {
    const unseen = await createTenant(api);
    await sql(api, "ALTER TABLE clog RENAME TO clog_away");
    try {
      const answer = await api.admin("GET", `/tenants/${unseen.tenantId}/deliveries`);
      expect(answer.status).toBe(500);
      expect((await api.admin("GET", `/find?q=${unseen.tenantId}`)).status).toBe(500);
    } finally {
      await sql(api, "ALTER TABLE clog_away RENAME TO clog");
    }
  });
});

describe("why", () => {
  test("explains a late delivery in words and by a code", async () => {
    expect(await why(deliveryId)).toMatchObject({
      kind: "delivery",
      tenant_id: tenant.tenantId,
      state: "QUEUED",
      cause: "no_worker",
      waits_until: null,
      summary: expect.stringContaining("No worker is alive, so nothing is delivered.") as string,
    });
    await sql(api, "INSERT INTO workers (id, seen_at) VALUES ('w1', now() + interval '1 min')");
    try {
      expect(await why(deliveryId)).toMatchObject({ cause: "queued" });
      await api.admin("POST", `/tenants/${tenant.tenantId}/hold`, {});
      expect(await why(deliveryId)).toMatchObject({
        cause: "tenant_held",
        advice: expect.stringContaining(`signet tenant release ${tenant.tenantId}`) as string,
      });
      expect(await why(tenant.tenantId)).toMatchObject({ kind: "tenant", cause: "tenant_held" });
    } finally {
      await api.admin("POST", `/tenants/${tenant.tenantId}/release`, {});
      await sql(api, "DELETE FROM workers WHERE id = 'w1'");
    }
  });

  test("explains an event that matched nobody", async () => {
    const unmatched = await publish(tenant, { type: "nobody.listens" });
    expect(await why(unmatched)).toMatchObject({ kind: "event", cause: "not_subscribed" });
    expect(await why(eventId)).toMatchObject({ cause: "matched" });
  });

  test("explains an endpoint by its deliveries and its failures", async () => {
    await sql(api, "INSERT INTO workers (id, seen_at) VALUES ('w1', now() + interval '1 min')");
    await fail("now() - interval '2 h'");
    try {
      expect(await why(endpoint)).toMatchObject({
        cause: "endpoint_failing",
        summary: expect.stringContaining("(2 h ago)") as string,
      });
      expect(await list(`/tenants/${tenant.tenantId}/endpoints`)).toMatchObject([
        { health: { status: "failing", last_error: { status: 503, error: "status" } } },
      ]);
    } finally {
      await sql(api, "DELETE FROM endpoint_activity");
      await sql(api, "DELETE FROM workers WHERE id = 'w1'");
    }
  });

  test("explains a replay job, also one without anything to replay", async () => {
    expect(await why(replay)).toMatchObject({
      kind: "replay",
      tenant_id: tenant.tenantId,
      state: "COMPLETED",
      cause: "replay_completed",
    });
  });
});

describe("the overview", () => {
  /** Waits until the reading that is shared for a second is a new one. */
  async function overview(isNew: (found: Json) => boolean): Promise<Json> {
    return await eventually(async () => {
      const { body } = await api.admin("GET", "/overview");
      return isNew(body) ? body : undefined;
    }, "a new overview");
  }

  const certificatesOf = (found: Json): readonly Json[] =>
    (found["certificates"] as { readonly endpoints: Json[] }).endpoints;

  test("has workers, queues, tenants behind, and endpoints that fail", async () => {
    await sql(
      api,
      "INSERT INTO workers (id, seen_at, attempts_per_second) VALUES ('alive', now() + interval '1 min', 2.5), ('gone', now() - interval '1 min', 9)",
    );
    await fail("now()");
    await sql(api, "UPDATE deliveries SET created_at = created_at - interval '5 min' WHERE id = $1", [
      deliveryId,
    ]);
    try {
      const found = await overview(({ workers }) => (workers as Json[]).length === 2);
      expect(found).toMatchObject({
        counted_max: 10_000,
        attempts_per_second: 2.5,
        temporal_reachable: expect.any(Boolean) as boolean,
        workers: [
          { id: "alive", alive: true, attempts_per_second: 2.5 },
          { id: "gone", alive: false },
        ],
        queues: { waiting: expect.any(Number) as number },
        endpoints: { failing: 1, worst: [{ id: endpoint, tenant_id: tenant.tenantId }] },
        rotations: { credentials: 0, endpoint_secrets: 0, signing_key: false },
      });
      const [behind] = found["lag"] as Json[];
      expect(behind).toMatchObject({ tenant_id: tenant.tenantId, held: false });
      expect(behind?.["oldest_waiting_seconds"]).toBeGreaterThanOrEqual(300);
    } finally {
      await sql(api, "DELETE FROM workers");
      await sql(api, "DELETE FROM endpoint_activity");
    }
  });

  test("lists client certificates of deliveries that end soon", async () => {
    const ends = new Date(Date.now() + 5 * 86_400_000).toISOString();
    const later = new Date(Date.now() + 90 * 86_400_000).toISOString();
    await sql(api, "UPDATE endpoints SET authentication = $2 WHERE id = $1", [
      endpoint,
      JSON.stringify({ type: "client_certificate", not_after: ends }),
    ]);
    const soon = await overview((found) => certificatesOf(found).length === 1);
    expect(certificatesOf(soon)).toMatchObject([{ endpoint_id: endpoint, ends_at: ends }]);
    await sql(api, "UPDATE endpoints SET authentication = $2 WHERE id = $1", [
      endpoint,
      JSON.stringify({ type: "client_certificate", not_after: later }),
    ]);
    await overview((found) => certificatesOf(found).length === 0);
    await sql(api, "UPDATE endpoints SET authentication = NULL WHERE id = $1", [endpoint]);
  });
});

describe("the command line", () => {
  test("finds, explains and shows the state in plain text", async () => {
    const signet = async (...line: readonly string[]) => await runSignet(line, api.environment);
    expect(await signet("find", "acme 100")).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(tenant.tenantId) as string,
    });
    const explained = await signet("why", deliveryId);
    expect(explained).toMatchObject({ code: 0, stderr: "" });
    expect(explained.stdout).toMatch(new RegExp(`^Delivery ${deliveryId} of .*No worker is alive.*\\n$`));
    expect(JSON.parse((await signet("why", deliveryId, "--json")).stdout)).toMatchObject({
      cause: "no_worker",
    });
    expect(await signet("why", `dlv_${UNKNOWN}`)).toMatchObject({ code: 3 });
    const top = await signet("top");
    expect(top).toMatchObject({ code: 0, stderr: "" });
    expect(top.stdout).toMatch(/^Workers {5}alive 0 {3}known 0 {3}attempts per second 0$/m);
    expect(top.stdout).toMatch(/^Deliveries {2}waiting \d+/m);
    expect((await signet("tenant", "deliveries", tenant.tenantId)).stdout).toContain(deliveryId);
    expect((await signet("tenant", "endpoints", tenant.tenantId)).stdout).toContain(endpoint);
    expect((await signet("tenant", "list", "--name", "acme")).stdout).toContain(tenant.tenantId);
  });
});
