/** A credential that was replaced ends by plan: it gets no tokens, and its last ones live on. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { REVOCATION_LINES_CHANNEL } from "#database/repositories/tokens/revocations.ts";
import { createLogger } from "#observability/logger.ts";
import { type HubProcess, startHub } from "#processes/hub.ts";
import { REVOCATION_CHANNEL } from "#revocation/follower.ts";
import { useTestApi } from "#test/support/api.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision } from "#test/support/factories.ts";
import { storeLeaseKeys } from "#test/support/hubs.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { sweepCredentials, tellOfRevocations } from "#test/support/revocation-notices.ts";
import { createEndpoint, createTenant, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const OVERLAP_SECONDS = 20;
const TOKEN_SECONDS = 900;
/** Clocks may differ by so much at an expiry. */
const LEEWAY_SECONDS = 10;
const api = useTestApi();
const edge = useTestEdge(api);

const sweep = async (): Promise<number> => await sweepCredentials(api);

async function admitted(token: string): Promise<readonly unknown[]> {
  const headers = bearer(token);
  const atEdge = await fetch(`${edge.url}/v1/inference/x`, { headers });
  const atApi = await api.request("/v1/webhooks/endpoints", { headers });
  return [atEdge.status, atApi.status, atApi.body["code"]];
}

test("a token outlives the end of its replaced credential until its own expiry", async () => {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant, { events: ["credential.ended", "credential.revoked"] });
  const scopes = [...WEBHOOK_SCOPES, "credentials:write", "inference:read"];
  const clients = [];
  for (let count = 0; count < 3; count += 1) {
    clients.push(await provision(api, { tenantId: tenant.tenantId, scopes }));
  }
  const tokens: string[] = [];
  for (const client of clients) {
    const token = await accessToken(api, client);
    const replaced = await api.request("/v1/credentials", {
      method: "POST",
      headers: { ...bearer(token), "content-type": "application/json" },
      body: JSON.stringify({ replaces: client.credentialId, overlap_seconds: OVERLAP_SECONDS }),
    });
    expect(replaced, replaced.text).toMatchObject({ status: 201 });
    tokens.push(await accessToken(api, client));
  }
  const [token = ""] = tokens;
  const [client] = clients;
  const sequence = async (): Promise<unknown> => await sql(api, "SELECT seq FROM rev_clock");
  const before = await sequence();

  api.clock.advance((OVERLAP_SECONDS + 1) * 1_000);
  expect(client && (await api.token(grant(client)))).toMatchObject({ status: 401 });
  expect(await sweep()).toBe(3);
  expect(client && (await api.token(grant(client)))).toMatchObject({ status: 401 });
  expect(await sequence()).toEqual(before);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  api.clock.advance((TOKEN_SECONDS - OVERLAP_SECONDS - 60) * 1_000);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  api.clock.advance((60 + LEEWAY_SECONDS) * 1_000);
  expect(await admitted(token)).toEqual([401, 401, "TOKEN_EXPIRED"]);

  await tellOfRevocations(api);
  const types = await sql(
    api,
    "SELECT type, count(*)::int FROM events WHERE tenant_id = $1 AND type LIKE 'credential.%' GROUP BY type",
    [tenant.tenantId],
  );
  expect(types).toEqual([{ type: "credential.ended", count: 3 }]);
});

test("a credential can be revoked after its planned end, while its tokens live", async () => {
  const scopes = [...WEBHOOK_SCOPES, "credentials:write", "inference:read"];
  const client = await provision(api, { scopes });
  const token = await accessToken(api, client);
  await sql(api, "UPDATE credentials SET ends_at = $2, replaced_by = id WHERE id = $1", [
    client.credentialId,
    new Date(api.clock.now() - 1_000),
  ]);
  expect(await sweep()).toBe(1);
  expect(await admitted(token)).toEqual([200, 200, undefined]);
  const revoked = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, { reason: "leaked" });
  expect(revoked).toMatchObject({ status: 200 });
  expect(await admitted(token)).toEqual([401, 401, "TOKEN_REVOKED"]);
  await tellOfRevocations(api);
  const types = await sql(api, "SELECT type FROM events WHERE tenant_id = $1 ORDER BY type", [
    client.tenantId,
  ]);
  expect(types).toEqual([{ type: "credential.ended" }, { type: "credential.revoked" }]);
});

describe("a hundred replacements at once", () => {
  const COUNT = 100;
  const KEY = randomBytes(32);
  let hub: HubProcess;
  beforeAll(async () => {
    await storeLeaseKeys(api.database, [KEY]);
    const environment = {
      SIGNET_ENV: "development",
      SIGNET_HUB_LISTEN: "127.0.0.1:0",
      SIGNET_DATABASE_URL: api.database.url,
    };
    hub = await startHub({ config: loadConfig(environment, "hub"), log: createLogger({ level: "silent" }) });
  });
  afterAll(async () => await hub.close());
  const behindHub = useTestEdge(api, {
    environment: () => ({
      SIGNET_HUBS: `ws://127.0.0.1:${hub.address.port}`,
      SIGNET_LEASE_KEY: KEY.toString("base64"),
    }),
  });

  /** Counts what PostgreSQL announces to hubs, and to processes that follow it themselves. */
  async function listen(): Promise<{ readonly heard: string[]; end(): Promise<void> }> {
    const heard: string[] = [];
    const client = new Client({ connectionString: api.database.adminUrl });
    client.on("notification", ({ channel }) => heard.push(channel));
    await client.connect();
    await client.query(`LISTEN ${REVOCATION_CHANNEL}; LISTEN ${REVOCATION_LINES_CHANNEL}`);
    return { heard, end: async () => await client.end() };
  }

  const statuses = async (token: string): Promise<readonly number[]> =>
    await Promise.all(
      [edge, behindHub].map(
        async ({ url }) => (await fetch(`${url}/v1/inference/x`, { headers: bearer(token) })).status,
      ),
    );

  test("are no revocations: tokens live, edges and hubs hear nothing, and each end is told once", async () => {
    const tenant = await createTenant(api);
    await createEndpoint(api, tenant, { events: ["credential.ended", "credential.revoked"] });
    const scopes = [...WEBHOOK_SCOPES, "credentials:write", "inference:read"];
    const clients = await Promise.all(
      Array.from({ length: COUNT }, async () => {
        const client = await provision(api, { tenantId: tenant.tenantId, scopes });
        return { ...client, token: await accessToken(api, client) };
      }),
    );
    const announced = await listen();
    const { heard } = announced;
    const bystander = await provision(api, { scopes });
    const live = await accessToken(api, bystander);
    await withoutPause(async () => {
      expect(await statuses(live)).toEqual([200, 200]);
    });

    const replaced = await Promise.all(
      clients.map(
        async ({ credentialId, token }) =>
          await api.request("/v1/credentials", {
            method: "POST",
            headers: { ...bearer(token), "content-type": "application/json" },
            body: JSON.stringify({ replaces: credentialId, overlap_seconds: 0 }),
          }),
      ),
    );
    expect(replaced.map(({ status }) => status)).toEqual(clients.map(() => 201));
    api.clock.advance(1);
    const swept = await Promise.all([sweep(), sweep()]);
    expect(swept[0] + swept[1]).toBe(COUNT);
    await Promise.all([tellOfRevocations(api), tellOfRevocations(api)]);

    await withoutPause(async () => {
      for (const { token } of clients) {
        expect(await statuses(token)).toEqual([200, 200]);
      }
    });
    expect(heard).toEqual([]);
    const events = await sql(
      api,
      "SELECT type, count(*)::int FROM events WHERE tenant_id = $1 AND type LIKE 'credential.%' GROUP BY type",
      [tenant.tenantId],
    );
    expect(events).toEqual([{ type: "credential.ended", count: COUNT }]);
    const ends = await sql(
      api,
      "SELECT DISTINCT end_index FROM credentials WHERE tenant_id = $1 AND end_index IS NOT NULL",
      [tenant.tenantId],
    );
    expect(ends).toHaveLength(COUNT);

    // A revocation is announced over both channels.
    await api.admin("POST", `/credentials/${bystander.credentialId}/revoke`, { reason: "leaked" });
    await eventually(() => new Set(heard).size === 2, "both announcements");
    expect(await statuses(live)).toEqual([401, 401]);
    await announced.end();
  });
});
