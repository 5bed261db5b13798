/** Two regions: a home cell, and one with its own database, Temporal namespace, api and worker (decision 35). */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import { createLogger } from "#observability/logger.ts";
import { startHub } from "#processes/hub.ts";
import { useTestApi } from "#test/support/api.ts";
import { call, callOnce, CELL_SCOPES, useCells } from "#test/support/cells.ts";
import { useTestEdge } from "#test/support/edge.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, grant, provision } from "#test/support/factories.ts";
import { sweepCredentials } from "#test/support/revocation-notices.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import { useStarted } from "#test/support/started.ts";
import { sql } from "#test/support/tenant.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const LEASE_KEY = randomBytes(32);
const QUARTER_MS = 900_000;
const cells = await useCells();
const { home, us, wire, homeUrl, usUrl, saUrl, client, untilKnown, activeEndpoint } = cells;
const edge = useTestEdge(home);
const hub = useStarted("the hub", async () => {
  const adminUrl = home.database.adminUrl;
  await migrateDatabase({ timers: machineTimers, adminUrl, leaseKeys: [LEASE_KEY], nowMs: Date.now() });
  const environment = {
    SIGNET_ENV: "development",
    SIGNET_DATABASE_URL: home.database.url,
    SIGNET_HUB_LISTEN: "127.0.0.1:0",
  };
  const log = createLogger({ level: "silent" });
  return await startHub({ config: loadConfig(environment, "hub"), log });
});
const sa = useTestApi({
  worker: true,
  environment: async () => ({
    ...cells.settings,
    SIGNET_CELL: "sa",
    SIGNET_REGION: "sa-east-1",
    SIGNET_API_LISTEN: new URL(saUrl).host,
    SIGNET_HOME_DATABASE_URL: await cells.login("sa"),
    SIGNET_HUBS: `ws://127.0.0.1:${hub.current.address.port}`,
    SIGNET_LEASE_KEY: LEASE_KEY.toString("base64"),
  }),
});

let receiver: Receiver;
beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(async () => await receiver.close());

test("events of a region are accepted, stored and delivered in its own cell", async () => {
  const { token, tenantId } = await client("us");
  const wrong = await call(homeUrl, token, "/v1/events", { type: "order.paid", data: {} });
  expect(wrong).toMatchObject({
    status: 421,
    body: { code: "MISDIRECTED_REQUEST", region: "us", base_url: usUrl },
  });
  await untilKnown(token);
  const endpoint = await activeEndpoint(token, { url: `${receiver.url}/us`, events: ["order.paid"] });
  expect(await call(usUrl, token, "/v1/events", { type: "order.paid", data: { of: "us" } })).toMatchObject({
    status: 202,
  });
  await eventually(
    async () => receiver.requests.some(({ rawBody }) => rawBody.includes('"of":"us"')),
    "the delivery",
  );
  expect(await sql(home, "SELECT FROM events WHERE tenant_id = $1", [tenantId])).toEqual([]);
  expect(
    await sql(us, "SELECT FROM events WHERE tenant_id = $1 AND type = 'order.paid'", [tenantId]),
  ).toHaveLength(1);

  const [entry] = await eventually(async () => {
    const found = await sql(
      home,
      "SELECT convert_from(entry, 'UTF8')::json AS entry, entry AS bytes FROM clog WHERE tenant_id = $1 AND type = 'endpoint.created'",
      [tenantId],
    );
    return found.length === 1 ? found : undefined;
  }, "the entry in the log of the home cell");
  expect(entry).toMatchObject({ entry: { target: endpoint, details: { cell: "us" } } });
  const listed = await call(homeUrl, token, "/v1/compliance/entries?type=endpoint.created");
  expect(listed).toMatchObject({ status: 200 });
  expect(listed.text).toContain(endpoint);
});

test("a token of the home region, and one of a region without a cell, are served at home", async () => {
  for (const region of ["eu", "eu-west-1", "ap"]) {
    const { token } = await client(region);
    expect(await call(homeUrl, token, "/v1/webhooks/endpoints")).toMatchObject({ status: 200 });
    expect(await call(usUrl, token, "/v1/webhooks/endpoints")).toMatchObject({
      status: 421,
      body: { base_url: homeUrl },
    });
  }
});

test("a token without region affinity belongs where its tenant does", async () => {
  const { tenantId, token: regional } = await client("us");
  const { token } = await client("global", { tenantId });
  await untilKnown(regional);
  expect(await call(usUrl, token, "/v1/webhooks/endpoints")).toMatchObject({ status: 200 });
  expect(await call(homeUrl, token, "/v1/webhooks/endpoints")).toMatchObject({
    status: 421,
    body: { region: "us", base_url: usUrl },
  });
});

test("only the home cell serves identities and the log", async () => {
  const made = await client("us");
  for (const path of ["/v1/credentials", "/v1/compliance/entries"]) {
    expect(await call(usUrl, made.token, path)).toMatchObject({
      status: 421,
      body: { code: "MISDIRECTED_REQUEST", region: "eu", base_url: homeUrl },
    });
    expect(await call(homeUrl, made.token, path)).toMatchObject({ status: 200 });
  }
  expect(await call(usUrl, "", "/v1/auth/token", grant(made))).toMatchObject({ status: 421 });
  const keys = await call(usUrl, "", "/.well-known/jwks.json");
  expect(keys.status).toBe(307);
  expect(keys.headers.get("location")).toBe(`${homeUrl}/.well-known/jwks.json`);
  expect(await us.admin("POST", "/tenants", { name: "x", region: "us" })).toMatchObject({ status: 421 });
});

test("a revocation at home applies in the cell within 250 ms", async () => {
  const made = await client("us");
  await untilKnown(made.token);
  expect(await call(usUrl, made.token, "/v1/webhooks/endpoints")).toMatchObject({ status: 200 });
  const revoked = await home.admin("POST", `/credentials/${made.credentialId}/revoke`, {});
  expect(revoked.status).toBe(200);
  expect(["applied", "slow_but_safe"]).toContain((revoked.body["edges"] as { outcome: string }).outcome);
  // The receipt names the cell's api among the processes that have applied it.
  expect(await call(usUrl, made.token, "/v1/webhooks/endpoints")).toMatchObject({
    status: 401,
    body: { code: "TOKEN_REVOKED" },
  });
});

test("endpoints of the cell are notified once of a credential that is revoked at home", async () => {
  const made = await client("us");
  await untilKnown(made.token);
  const position = async (): Promise<unknown> => (await sql(us, "SELECT seq FROM home_position"))[0]?.["seq"];
  await activeEndpoint(made.token, { url: `${receiver.url}/revoked`, events: ["credential.revoked"] });
  await eventually(async () => (await position()) !== undefined, "the cell to know the last revocation");
  const { credentialId } = await provision(home, { region: "us", tenantId: made.tenantId });
  const { body } = await home.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "leaked" });
  const ofTenant = "SELECT id FROM events WHERE tenant_id = $1 AND type = 'credential.revoked'";
  const notices = async () => await sql<{ id: string }>(us, ofTenant, [made.tenantId]);
  const [notice] = await eventually(async () => {
    const found = await notices();
    return found.length > 0 && found;
  }, "the event");
  const received = await eventually(
    () => receiver.requests.find(({ headers }) => headers["webhook-id"] === notice?.id),
    "the delivery",
  );
  expect(JSON.parse(received.rawBody.toString())).toMatchObject({
    type: "credential.revoked",
    data: { credential_id: credentialId, reason: "leaked", revoked_at: body["committed_at"] },
  });

  // A later revocation follows the first in the same order, so nothing is left to be repeated.
  const before = await position();
  await home.admin("POST", `/credentials/${(await client("us")).credentialId}/revoke`, {});
  await eventually(async () => Number(await position()) > Number(before), "the later revocation");
  expect(await notices()).toHaveLength(1);
  // A home cell that was restored from a backup has lower numbers than this cell remembers.
  await sql(us, "UPDATE home_position SET seq = seq + 1000000");
  await eventually(async () => Number(await position()) < 1_000_000, "the number of the restored sequence");
  expect(await notices()).toHaveLength(1);
});

test("endpoints of the cell are notified once of a planned end at home", async () => {
  const made = await client("us");
  await untilKnown(made.token);
  const events = ["credential.ended", "credential.revoked"];
  await activeEndpoint(made.token, { url: `${receiver.url}/ended`, events });
  const position = async (): Promise<unknown> =>
    (await sql(us, "SELECT end_index FROM home_position"))[0]?.["end_index"];
  await eventually(async () => Number.isInteger(await position()), "the cell to know the last end");
  const { credentialId } = await provision(home, { region: "us", tenantId: made.tenantId });
  const endsAt = new Date(Date.now() - 1_000);
  await sql(home, "UPDATE credentials SET ends_at = $2, replaced_by = id WHERE id = $1", [
    credentialId,
    endsAt,
  ]);
  await sweepCredentials(home);
  const types = "SELECT type FROM events WHERE tenant_id = $1 AND type LIKE 'credential.%'";
  const found = async () => await sql(us, types, [made.tenantId]);
  await eventually(async () => (await found()).length > 0, "the event");
  const received = await eventually(
    () => receiver.requests.find(({ rawBody }) => rawBody.includes(credentialId)),
    "the delivery",
  );
  expect(JSON.parse(received.rawBody.toString())).toMatchObject({
    type: "credential.ended",
    data: { credential_id: credentialId, ended_at: endsAt.toISOString(), reason: "replaced" },
  });
  expect(await found()).toEqual([{ type: "credential.ended" }]);
});

test("a cell behind a hub learns of a revocation in the same time", async () => {
  const made = await client("sa");
  await untilKnown(made.token, saUrl);
  expect(await call(saUrl, made.token, "/v1/webhooks/endpoints")).toMatchObject({ status: 200 });
  const { body } = await home.admin("POST", `/credentials/${made.credentialId}/revoke`, {});
  const { processes } = body["edges"] as { processes: { kind: string; region: string; state: string }[] };
  const cell = processes.find(({ kind, region }) => kind === "api" && region === "sa-east-1");
  expect(["applied", "lease_expired"]).toContain(cell?.state);
  expect(await call(saUrl, made.token, "/v1/webhooks/endpoints")).toMatchObject({ status: 401 });
  expect(await sql(sa, "SELECT FROM tenants WHERE id = $1", [made.tenantId])).toHaveLength(1);
});

describe.each([
  ["PostgreSQL", "us", us, usUrl],
  ["a hub", "sa", sa, saUrl],
])("a cell that follows the home cell through %s", (_name, region, cell, url) => {
  test.each([-QUARTER_MS, -400_000, -20_000, 20_000, 400_000, QUARTER_MS])(
    "and whose own clock is %i ms off admits fresh tokens, no revoked ones, and names its clock beyond 30 s",
    async (offMs) => {
      cell.clock.advance(offMs);
      onTestFinished(() => cell.clock.advance(-offMs));
      const fresh = await client(region);
      await untilKnown(fresh.token, url);
      expect(await call(url, fresh.token, "/v1/webhooks/endpoints")).toMatchObject({ status: 200 });
      await home.admin("POST", `/credentials/${fresh.credentialId}/revoke`, {});
      expect(await call(url, fresh.token, "/v1/webhooks/endpoints")).toMatchObject({
        status: 401,
        body: { code: "TOKEN_REVOKED" },
      });
      const ready = await callOnce(url, "", "/readyz");
      expect(ready).toMatchObject(
        Math.abs(offMs) > 30_000 ? { status: 503, body: { failing: ["clock"] } } : { status: 200 },
      );
    },
  );
});

test("a hold in a cell begins by the cell's own clock, of which its end is, too", async () => {
  const { tenantId, token } = await client("us");
  await untilKnown(token);
  home.clock.advance(QUARTER_MS);
  await home.admin("POST", `/tenants/${tenantId}/hold`, {}).finally(() => home.clock.advance(-QUARTER_MS));
  const find = "SELECT held_at FROM tenants WHERE id = $1 AND held_at IS NOT NULL";
  const [held] = await eventually(async () => {
    const found = await sql<{ held_at: Date }>(us, find, [tenantId]);
    return found.length === 1 && found;
  }, "the hold");
  expect(held?.held_at.getTime()).toBeLessThan(Date.now() + 60_000);
});

test("holds, limits and erasures of the home cell reach the cell", async () => {
  const { tenantId, token } = await client("us");
  await untilKnown(token);
  const inCell = async (): Promise<Readonly<Record<string, unknown>>> =>
    (await sql(us, "SELECT state, held_at, limits, data_key FROM tenants WHERE id = $1", [tenantId]))[0] ??
    {};
  const { data_key: key } = await inCell();
  expect(await sql(home, "SELECT FROM tenants WHERE id = $1 AND data_key = $2", [tenantId, key])).toEqual([]);
  const becomes = async (wanted: Readonly<Record<string, unknown>>): Promise<void> => {
    await eventually(
      async () => {
        const found = await inCell();
        return Object.entries(wanted).every(([name, value]) => isDeepStrictEqual(found[name], value));
      },
      `the cell's tenant to become ${JSON.stringify(wanted)}`,
    );
  };
  await home.admin("PATCH", `/tenants/${tenantId}/limits`, { endpoints: 3 });
  expect(await home.admin("POST", `/tenants/${tenantId}/hold`, {})).toMatchObject({ status: 200 });
  await eventually(async () => (await inCell())["held_at"] !== null, "the hold");
  await becomes({ limits: { endpoints: 3 } });
  expect(await home.admin("POST", `/tenants/${tenantId}/release`, {})).toMatchObject({ status: 200 });
  await becomes({ held_at: null });
  expect(await home.admin("POST", `/tenants/${tenantId}/erase`, { confirm: "tenant" })).toMatchObject({
    status: 200,
  });
  await becomes({ state: "ERASED", data_key: "" });
  const erased = `SELECT FROM clog WHERE tenant_id = $1 AND type = 'tenant.erased'
      AND convert_from(entry, 'UTF8')::json #>> '{details,cell}' = 'us'`;
  await eventually(
    async () => (await sql(home, erased, [tenantId])).length === 1,
    "the entry of the cell's erasure",
  );
});

test("a cell reads all tenants again at once when the home cell's transaction ids go back", async () => {
  // As on a server with higher ids, from which the home cell's database is then moved.
  await sql(home, "CREATE TABLE passes (since xid8)");
  await sql(home, "GRANT INSERT ON passes TO signet_cell");
  await sql(home, "ALTER FUNCTION tenants_for_cells (xid8, text, int) RENAME TO tenants_on_this_server");
  await sql(
    home,
    `CREATE FUNCTION tenants_for_cells(since xid8, after_id text, at_most int) RETURNS TABLE (
      id text, name text, region text, state text, platform boolean, held_at timestamptz, limits jsonb,
      portal_brand jsonb, created_at timestamptz, upto xid8
    ) LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO passes VALUES (since);
      RETURN QUERY SELECT t.id, t.name, t.region, t.state, t.platform, t.held_at, t.limits, t.portal_brand,
        t.created_at, '4000000000'::xid8 FROM tenants_on_this_server(since, after_id, at_most) t;
    END $$`,
  );
  await sql(home, "GRANT EXECUTE ON FUNCTION tenants_for_cells (xid8, text, int) TO signet_cell");
  await eventually(
    async () => (await sql(home, "SELECT FROM passes WHERE since = '4000000000'")).length > 3,
    "both cells to have ids of the other server",
  );
  const { token } = await client("us");
  await sql(home, "DROP FUNCTION tenants_for_cells (xid8, text, int)");
  await sql(home, "ALTER FUNCTION tenants_on_this_server (xid8, text, int) RENAME TO tenants_for_cells");
  await untilKnown(token);
});

test("a platform's publishing for a tenant of another region names the right cell", async () => {
  const region = "global";
  const { body } = await home.admin("POST", "/tenants", { name: "platform", region, platform: true });
  const scopes = ["events:publish", "events:publish_any"];
  const publisher = await provision(home, { region, tenantId: String(body["id"]), scopes });
  const token = await accessToken(home, publisher);
  const { tenantId, token: regional } = await client("us");
  await untilKnown(regional);
  const event = { type: "order.paid", data: {}, tenant_id: tenantId };
  expect(await call(homeUrl, token, "/v1/events", event)).toMatchObject({
    status: 421,
    body: { region: "us", base_url: usUrl },
  });
  await eventually(async () => (await call(usUrl, token, "/v1/events", event)).status === 202, "the event");
});

test("a cell that is cut off from the home cell rejects tokens, and delivers what it has accepted", async () => {
  let failing = false;
  const recovering = await startReceiver({
    script: () => ({ kind: "answer", status: failing ? 500 : 200 }),
  });
  onTestFinished(async () => await recovering.close());
  const { token } = await client("us");
  await untilKnown(token);
  const id = await activeEndpoint(token, { url: recovering.url, events: ["order.paid"] });
  const path = `/v1/webhooks/endpoints/${id}`;
  failing = true;
  const event = await call(usUrl, token, "/v1/events", { type: "order.paid", data: {} });
  expect(event).toMatchObject({ status: 202 });
  await recovering.waitFor(2);
  wire.current.freeze();
  onTestFinished(() => wire.current.thaw());
  await eventually(async () => {
    const { status, body } = await callOnce(usUrl, token, path);
    return status === 503 && body["code"] === "REVOCATION_STALE";
  }, "the cell to reject tokens");
  failing = false;
  const delivered = "SELECT FROM deliveries WHERE event_id = $1 AND state = 'DELIVERED'";
  await eventually(
    async () => (await sql(us, delivered, [event.body["id"]])).length === 1,
    "the delivery without the home cell",
  );
  wire.current.thaw();
  await eventually(async () => (await call(usUrl, token, path)).status === 200, "the cell to admit tokens");
});

test("the client finds the cell of its region by itself", async () => {
  const made = await client("us");
  await untilKnown(made.token);
  const { clientId, clientSecret } = made;
  const signet = new SignetClient({ baseUrl: homeUrl, regionUrls: [usUrl], clientId, clientSecret });
  const published = await signet.events.publish({ type: "order.paid", data: {} });
  expect(await sql(us, "SELECT FROM events WHERE id = $1", [published.id])).toHaveLength(1);
  const listed: string[] = [];
  for await (const credential of signet.credentials.list()) {
    listed.push(credential.client_id);
  }
  expect(listed).toEqual([clientId]);
});

test("an edge names the cell of a token that a regional route excludes", async () => {
  const scopes = [...CELL_SCOPES, "inference:read"];
  const [american, asian] = await Promise.all(
    ["us", "ap"].map(async (region) => await accessToken(home, await provision(home, { region, scopes }))),
  );
  const misdirected = { status: 421, body: { code: "MISDIRECTED_REQUEST", base_url: usUrl } };
  expect(await call(edge.url, american ?? "", "/v1/regional")).toMatchObject(misdirected);
  expect(await call(edge.url, american ?? "", "/v1/webhooks/endpoints")).toMatchObject(misdirected);
  // This cell serves its region, but not on this route.
  expect(await call(edge.url, asian ?? "", "/v1/regional")).toMatchObject({
    status: 403,
    body: { code: "REGION_MISMATCH" },
  });
});
