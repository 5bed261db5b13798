/** After a tenant's erasure, text planted in all its data is found nowhere, and no key decrypts the rest. */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { contentKey, contentRoot, openContent } from "#crypto/content.ts";
import { envelopeAad, EnvelopeError } from "#crypto/envelope.ts";
import { createKeyEncryption, fixedKeys } from "#crypto/key-encryption.ts";
import { dataKeyAad } from "#crypto/keyring.ts";
import { createPool } from "#database/pool.ts";
import { DELETED_TABLES } from "#database/repositories/tenant-erasure.ts";
import { createLogger } from "#observability/logger.ts";
import { eraseTenants } from "#webhooks/retention/erase-tenants.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, grant, provision } from "#test/support/factories.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import {
  asTenant,
  createTenant,
  expectRefusal,
  publish,
  rows,
  sql,
  type Tenant,
  WEBHOOK_SCOPES,
} from "#test/support/tenant.ts";

const CANARY = "c4n4ry-of-a-tenant";
const SETTLED_MS = 120_000;
/** Tables that keep rows of an erased tenant: history and log. The test below searches their contents. */
const KEPT_TABLES = [
  "attempts",
  "clog",
  "credentials",
  "deliveries",
  "events",
  "principals",
  "revocations",
  "roles",
  "secret_versions",
];

const api = useTestApi({ worker: true });

/** Returns all tables, including partitions. */
async function tables(): Promise<string[]> {
  const found = await sql<{ name: string }>(
    api,
    `SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' ORDER BY 1`,
  );
  return found.map(({ name }) => name);
}

/** Returns the tables that contain the canary, as text or bytes. */
async function tablesWithCanary(): Promise<string[]> {
  const hex = Buffer.from(CANARY).toString("hex");
  const seen: string[] = [];
  for (const name of await tables()) {
    const all = await sql<{ row: string }>(api, `SELECT t::text AS row FROM ${name} t`);
    if (all.some(({ row }) => row.includes(CANARY) || row.includes(hex))) {
      seen.push(name);
    }
  }
  return seen.map((name) => name.replace(/_(?:\d{8}|default)$/, ""));
}

/** Creates a tenant with the canary in every text. */
async function plant(url: string): Promise<Tenant> {
  const { body } = await api.admin("POST", "/tenants", { name: CANARY, region: "eu" });
  const client = await provision(api, { scopes: WEBHOOK_SCOPES, tenantId: String(body["id"]) });
  await sql(api, "UPDATE roles SET name = $2 WHERE tenant_id = $1", [client.tenantId, `role ${CANARY}`]);
  await sql(api, "UPDATE tenants SET portal_brand = jsonb_build_object('name', $2::text) WHERE id = $1", [
    client.tenantId,
    CANARY,
  ]);
  await sql(api, "UPDATE credentials SET name = $2 WHERE tenant_id = $1", [client.tenantId, CANARY]);
  await sql(api, "UPDATE principals SET name = $2 WHERE tenant_id = $1", [client.tenantId, CANARY]);
  const tenant = asTenant(api, client, await accessToken(api, client));
  const made = await tenant.post(
    "/v1/webhooks/endpoints",
    {
      url: `${url}?key=${CANARY}`,
      events: ["inference.completed"],
      metadata: { canary: CANARY },
      description: CANARY,
      filter: { "data.canary": CANARY },
    },
    { "idempotency-key": CANARY },
  );
  const type = { name: "inference.completed", description: CANARY, schema: { title: CANARY } };
  expect(await tenant.post("/v1/webhooks/event-types", type)).toMatchObject({ status: 201 });
  await eventually(async () => {
    const endpoint = await tenant.get(`/v1/webhooks/endpoints/${String(made.body["id"])}`);
    return endpoint.body["state"] === "ACTIVE";
  }, "the endpoint to be verified");
  return tenant;
}

async function erase(tenantId: string, confirm: string) {
  return await api.admin("POST", `/tenants/${tenantId}/erase`, { confirm, reason: "contract ended" });
}

async function eraseLater(): Promise<void> {
  const log = createLogger({ level: "silent" });
  const pool = createPool({ url: api.database.url, role: "signet_worker", max: 2, log });
  const clock = { now: () => Date.now() + SETTLED_MS };
  try {
    await eraseTenants({ pool, releaser: { release: () => undefined } as never, clock, log });
  } finally {
    await pool.end();
  }
}

test("erasure leaves none of a tenant's data in any column of any table, and no key opens a copy", async () => {
  const receiver = await startReceiver({ script: [{ kind: "answer", body: `thanks for ${CANARY}` }] });
  const tenant = await plant(receiver.url);
  const { tenantId } = tenant;
  const sent = await publish(tenant, { data: { canary: CANARY }, id: `source ${CANARY}` });
  await eventually(
    async () =>
      rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${sent}&state=DELIVERED`)).length === 1,
    "the delivery",
  );
  receiver.answer([{ kind: "answer", status: 500, body: CANARY }]);
  const waiting = await publish(tenant, { data: { canary: CANARY } });
  const retried = await eventually(async () => {
    const [delivery] = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${waiting}&state=RETRYING`));
    return delivery;
  }, "an attempt to fail");
  // As versions before sealing wrote them.
  await sql(api, "UPDATE attempts SET response_body = $2 WHERE tenant_id = $1", [tenantId, CANARY]);
  const old = await publish(tenant);
  await sql(api, "UPDATE events SET content = NULL, data = $2 WHERE id = $1", [
    old,
    `{"canary":"${CANARY}"}`,
  ]);
  expect(new Set(await tablesWithCanary())).toEqual(
    new Set([
      "attempts",
      "credentials",
      "endpoints",
      "event_type_schemas",
      "event_types",
      "events",
      "principals",
      "roles",
      "tenants",
    ]),
  );
  const copies = await sql<{ id: string; content: Buffer }>(
    api,
    "SELECT id, content FROM events WHERE tenant_id = $1 AND content IS NOT NULL",
    [tenantId],
  );
  expect(copies.length).toBeGreaterThanOrEqual(2);

  const firstResponses = "SELECT FROM deliveries WHERE tenant_id = $1 AND first_response IS NOT NULL";
  expect(await sql(api, firstResponses, [tenantId])).toHaveLength(1);

  const answer = await erase(tenantId, CANARY);
  expect(answer).toMatchObject({
    status: 200,
    body: { id: tenantId, state: "ERASED", name: "erased", erasure_completed_at: null },
  });
  expect(answer.text).not.toContain(CANARY);
  expect(await api.token(grant(tenant))).toMatchObject({ status: 401 });
  await eventually(async () => (await tablesWithCanary()).length === 0, "the remaining data to be deleted");
  expect(await sql(api, firstResponses, [tenantId])).toEqual([]);
  const [{ carrier } = { carrier: null }] = await sql<{ carrier: string | null }>(
    api,
    "SELECT carrier FROM deliveries WHERE id = $1 AND state = 'CANCELLED'",
    [retried["id"]],
  );
  expect(carrier).toBe(retried["workflow_id"]);

  const keyEncryption = createKeyEncryption(
    fixedKeys([Buffer.from(api.environment["SIGNET_KEK"] ?? "", "base64")]),
    randomBytes,
  );
  const wrapped = await sql<{ id: string; data_key: string }>(api, "SELECT id, data_key FROM tenants");
  expect(wrapped.find(({ id }) => id === tenantId)).toEqual({ id: tenantId, data_key: "" });
  for (const { id, data_key: dataKey } of wrapped.filter((row) => row.data_key !== "")) {
    const root = contentRoot(await keyEncryption.unwrap(dataKeyAad(id), dataKey));
    for (const copy of copies) {
      const place = envelopeAad("events", tenantId, copy.id, 1);
      expect(() => openContent(contentKey(root, copy.content), place, copy.content)).toThrow(EnvelopeError);
    }
  }
  await receiver.close();
});

describe("the erasure of a tenant", () => {
  test("requires its name, happens once, is logged, and is complete when a whole pass finds nothing", async () => {
    const tenant = await createTenant(api, [...WEBHOOK_SCOPES, "compliance:read"]);
    const { tenantId } = tenant;
    expectRefusal(await erase(tenantId, "another"), 422, "VALIDATION_FAILED");
    expect((await api.admin("GET", `/tenants/${tenantId}`)).body).toMatchObject({ state: "ACTIVE" });
    const erased = await erase(tenantId, "tenant");
    expect(erased).toMatchObject({ status: 200, body: { state: "ERASED", erased_at: expect.any(String) } });
    expect(await erase(tenantId, "whatever")).toMatchObject({ status: 200, body: { state: "ERASED" } });
    const logged = await sql<{ type: string }>(
      api,
      "SELECT type FROM clog WHERE tenant_id = $1 AND type LIKE 'tenant.%' ORDER BY idx",
      [tenantId],
    );
    expect(logged.map(({ type }) => type)).toEqual([
      "tenant.created",
      "tenant.revoked",
      "tenant.suspended",
      "tenant.erased",
    ]);
    // The worker's passes may find something in between.
    const { body } = await eventually(async () => {
      await eraseLater();
      const found = await api.admin("GET", `/tenants/${tenantId}`);
      return found.body["erasure_completed_at"] === null ? undefined : found;
    }, "the erasure to be complete");
    expect(body).toMatchObject({ state: "ERASED", erasure_completed_at: expect.any(String) });
  });

  test.each([
    ["resumed", "resume", {}],
    ["suspended", "suspend", {}],
    ["released", "release", {}],
    ["given a role", "roles", { name: "x", scopes: ["a:b"] }],
    [
      "given a principal",
      "principals",
      { name: "x", role_id: "rol_000000000000000000000000", region: "eu", environment: "production" },
    ],
  ])("is final: the tenant cannot be %s", async (_what, path, body) => {
    const { tenantId } = await createTenant(api);
    await erase(tenantId, "tenant");
    const answer = await api.admin("POST", `/tenants/${tenantId}/${path}`, body);
    expectRefusal(answer, 409, "INVALID_STATE");
    await expect(sql(api, "UPDATE tenants SET state = 'ACTIVE' WHERE id = $1", [tenantId])).rejects.toThrow(
      /stays so/,
    );
  });

  test("is rejected for the platform's tenant", async () => {
    const { body } = await api.admin("POST", "/tenants", { name: "platform", region: "eu", platform: true });
    expectRefusal(await erase(String(body["id"]), "platform"), 409, "INVALID_STATE");
  });

  test("covers every table with tenants' rows", async () => {
    const owned = await sql<{ name: string }>(
      api,
      `SELECT DISTINCT c.relname AS name FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
          AND a.attname IN ('tenant_id', 'owner_id') ORDER BY 1`,
    );
    const covered = [...KEPT_TABLES, ...DELETED_TABLES];
    expect(owned.map(({ name }) => name).filter((name) => !covered.includes(name))).toEqual([]);
  });

  test("affects no row of another tenant", async () => {
    const [one, other] = [await createTenant(api), await createTenant(api)];
    const event = await publish(other, { data: { n: 1 } });
    await erase(one.tenantId, "tenant");
    await eraseLater();
    expect((await other.get(`/v1/events/${event}`)).body).toMatchObject({ data: { n: 1 } });
  });
});
