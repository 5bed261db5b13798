/** Security events for receivers that poll (RFC 8936). */
import { setTimeout as delay } from "node:timers/promises";
import { beforeAll, describe, expect, test } from "vitest";
import { createPool } from "#database/pool.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { CAEP_EVENTS, STREAM_EVENTS } from "#domain/security-events.ts";
import { createLogger } from "#observability/logger.ts";
import { PollService } from "#webhooks/ssf/poll.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { grant, provision } from "#test/support/factories.ts";
import { tellOfRevocations } from "#test/support/revocation-notices.ts";
import { streamTenant, verifiedSet } from "#test/support/ssf.ts";
import { createEndpoint, type Json, sql, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const log = createLogger({ level: "silent" });
const REVOKED = CAEP_EVENTS["session-revoked"];
const AT_ONCE = { returnImmediately: true };
let tenant: Tenant;

beforeAll(async () => {
  tenant = await streamTenant(api);
});

async function pollStream(): Promise<string> {
  const answer = await tenant.post("/v1/ssf/streams", { events_requested: [REVOKED] });
  expect(answer, answer.text).toMatchObject({ status: 201 });
  return String(answer.body["stream_id"]);
}

async function removed(id: string): Promise<void> {
  await tenant.send("DELETE", `/v1/ssf/streams?stream_id=${id}`);
}

const poll = async (id: string, request: Json = AT_ONCE): Promise<Answer> =>
  await tenant.post(`/v1/ssf/poll/${id}`, request);

async function jtisOf(id: string, request: Json = AT_ONCE): Promise<readonly string[]> {
  const answer = await poll(id, request);
  expect(answer, answer.text).toMatchObject({ status: 200 });
  return Object.keys(answer.body["sets"] as Json);
}

/** Revokes a new credential. Returns its client id. */
async function revokeOne(): Promise<string> {
  const { credentialId, clientId } = await provision(api, { tenantId: tenant.tenantId });
  await api.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "leaked" });
  await tellOfRevocations(api);
  return clientId;
}

describe("a poll", () => {
  test("returns signed tokens until they are acknowledged, oldest first", async () => {
    const id = await pollStream();
    const clients = [await revokeOne(), await revokeOne(), await revokeOne()];
    const first = await poll(id, { ...AT_ONCE, maxEvents: 2 });
    expect(first).toMatchObject({ status: 200, body: { moreAvailable: true } });
    expect(first.headers.get("cache-control")).toBe("no-store");
    const sets = Object.entries(first.body["sets"] as Record<string, string>);
    const claims = await Promise.all(sets.map(async ([, set]) => await verifiedSet(api, set, id)));
    expect(claims.map(({ sub_id: { sub } }) => sub)).toEqual(clients.slice(0, 2));
    expect(claims.map(({ jti }) => jti)).toEqual(sets.map(([jti]) => jti));
    // Without an acknowledgement, the same ones come again.
    expect(await jtisOf(id, { ...AT_ONCE, maxEvents: 2 })).toEqual(sets.map(([jti]) => jti));
    const [one, two] = sets.map(([jti]) => jti);
    const rest = await poll(id, { ...AT_ONCE, ack: [one], setErrs: { [two ?? ""]: { err: "invalid_key" } } });
    expect(rest).toMatchObject({ status: 200, body: { moreAvailable: false } });
    const [last, ...others] = Object.keys(rest.body["sets"] as Json);
    expect(others).toEqual([]);
    expect(await jtisOf(id, { maxEvents: 0, ack: [last, one, "set_unknown"] })).toEqual([]);
    expect(await poll(id)).toMatchObject({ status: 200, body: { sets: {}, moreAvailable: false } });
    await removed(id);
  });

  test("without tokens waits for one", async () => {
    const id = await pollStream();
    let answered = false;
    const waiting = poll(id, {}).finally(() => {
      answered = true;
    });
    // The answer to another request shows that the poll has had time to find nothing.
    expect(await jtisOf(id)).toEqual([]);
    expect(answered).toBe(false);
    await revokeOne();
    expect(Object.keys((await waiting).body["sets"] as Json)).toHaveLength(1);
    await removed(id);
  });

  test("that waits ends when the receiver polls again", async () => {
    const id = await pollStream();
    // They may arrive in either order.
    const polls = [0, 1].map(async (place) => ({ place, answer: await poll(id, {}) }));
    const { place, answer } = await Promise.race(polls);
    expect(answer).toMatchObject({ status: 200, body: { sets: {} } });
    await revokeOne();
    const other = await polls[1 - place];
    expect(Object.keys(other?.answer.body["sets"] as Json)).toHaveLength(1);
    await removed(id);
  });

  test("ends the oldest of the tenant with the most, if too many wait", async () => {
    const other = await streamTenant(api);
    const made = await other.post("/v1/ssf/streams", { events_requested: [REVOKED] });
    const [one, two] = [await pollStream(), await pollStream()];
    const pool = createPool({ url: api.database.url, role: "signet_api", max: 4, log });
    let waits = 0;
    const service = new PollService({
      pool,
      keyring: { contentRoot: () => expect.fail("there is nothing to open") },
      keys: () => expect.fail("there is nothing to sign"),
      clock: systemClock,
      keptMs: 1_000,
      wait: async () => {
        waits += 1;
        await delay(5);
      },
      waitingMax: 2,
      log,
    });
    const ended: string[] = [];
    const begin = async (tenantId: string, id: string): Promise<void> => {
      const before = waits;
      const request = { maxEvents: 1, returnImmediately: false, ack: [], setErrs: {} };
      void service.poll(tenantId, id, request, () => false).then(() => ended.push(id));
      await eventually(() => waits > before, "the poll to wait");
    };
    await begin(tenant.tenantId, one);
    await begin(tenant.tenantId, two);
    await begin(other.tenantId, String(made.body["stream_id"]));
    await eventually(() => ended.length > 0, "a poll to end");
    expect(ended).toEqual([one]);
    service.close();
    await eventually(() => ended.length === 3, "the others to end");
    await pool.end();
    await Promise.all([one, two].map(removed));
  });

  test("gets nothing while the stream is paused, and everything held afterwards", async () => {
    const id = await pollStream();
    const set = async (status: string): Promise<unknown> =>
      await tenant.post("/v1/ssf/status", { stream_id: id, status });
    await set("paused");
    await revokeOne();
    expect(await jtisOf(id)).toEqual([]);
    await set("enabled");
    expect(await jtisOf(id)).toHaveLength(1);
    await set("disabled");
    await revokeOne();
    expect(await jtisOf(id)).toEqual([]);
    await set("enabled");
    expect(await jtisOf(id)).toHaveLength(1);
    await removed(id);
  });

  test("does not return tokens whose content was erased, or that are older than seven days", async () => {
    const id = await pollStream();
    await revokeOne();
    await revokeOne();
    const [erased, old] = await jtisOf(id);
    await sql(
      api,
      `UPDATE events SET content = NULL, content_erased_at = now()
        WHERE id = (SELECT event_id FROM ssf_polled_sets WHERE id = $1)`,
      [erased],
    );
    await sql(api, "UPDATE ssf_polled_sets SET created_at = now() - interval '8 days' WHERE id = $1", [old]);
    expect(await jtisOf(id)).toEqual([]);
    const left = await sql(api, "SELECT id FROM ssf_polled_sets WHERE stream_id = $1", [id]);
    expect(left).toEqual([{ id: old }]);
    await removed(id);
  });

  test("of a stream with 10,000 unacknowledged tokens: the next event disables it, and says so", async () => {
    const id = await pollStream();
    await sql(
      api,
      `INSERT INTO ssf_polled_sets (stream_id, id, tenant_id, event_id, created_at)
        SELECT $1, 'set_000' || n, $2, 'evt_01jd3c5xq8m2v7k9r4t6w0zy', now() FROM generate_series(1, 10000) n`,
      [id, tenant.tenantId],
    );
    await revokeOne();
    const status = await tenant.get(`/v1/ssf/status?stream_id=${id}`);
    expect(status.body).toMatchObject({
      status: "disabled",
      reason: "10000 tokens were not acknowledged",
    });
    await sql(api, "DELETE FROM ssf_polled_sets WHERE stream_id = $1 AND id LIKE 'set_000%'", [id]);
    await tenant.post("/v1/ssf/status", { stream_id: id, status: "enabled" });
    const answer = await poll(id);
    const [set = ""] = Object.values(answer.body["sets"] as Record<string, string>);
    expect((await verifiedSet(api, set, id)).events).toMatchObject({
      [STREAM_EVENTS["stream-updated"]]: { status: "disabled" },
    });
    await removed(id);
  });
});

test("an endpoint that takes all events never gets those of streams", async () => {
  const id = await pollStream();
  await revokeOne();
  const client = await streamTenant(api, tenant.tenantId);
  const { id: endpoint } = await createEndpoint(api, client, { events: ["*"] });
  const since = new Date(Date.now() - 60_000).toISOString();
  await revokeOne();
  const types = "SELECT DISTINCT event_type AS type FROM deliveries WHERE endpoint_id = $1";
  expect(await sql(api, types, [endpoint])).toEqual([{ type: "credential.revoked" }]);
  const job = await client.post(`/v1/webhooks/endpoints/${endpoint}/replay-missing`, { since });
  expect(job, job.text).toMatchObject({ status: 202 });
  const items = await sql(
    api,
    `SELECT DISTINCT e.type FROM replay_items i JOIN events e ON e.day = i.day AND e.id = i.event_id
      WHERE i.job_id = $1`,
    [job.body["id"]],
  );
  expect(items).toEqual([{ type: "credential.revoked" }]);
  await removed(id);
});

test("a client's first use of its next secret is reported", async () => {
  const changed = CAEP_EVENTS["credential-change"];
  await tellOfRevocations(api);
  const made = await tenant.post("/v1/ssf/streams", { events_requested: [changed] });
  const id = String(made.body["stream_id"]);
  const client = await provision(api, { tenantId: tenant.tenantId });
  const due = "UPDATE secret_versions SET due_at = now() - interval '1 s' WHERE credential_id = $1";
  await sql(api, due, [client.credentialId]);
  const { body } = await api.token(grant(client));
  const { client_secret: next } = body["credential_rotation"] as Record<string, string>;
  expect(await api.token(grant({ ...client, clientSecret: next ?? "" }))).toMatchObject({ status: 200 });
  await tellOfRevocations(api);
  const sets = Object.values((await poll(id)).body["sets"] as Record<string, string>);
  const claims = await Promise.all(sets.map(async (set) => await verifiedSet(api, set, id)));
  expect(claims.map(({ sub_id: { sub }, events }) => [sub, events[changed]?.["change_type"]])).toEqual([
    [client.clientId, "create"],
    [client.clientId, "update"],
  ]);
  await removed(id);
});

describe("the configuration", () => {
  test("is published, and its addresses work", async () => {
    const { body, headers } = await api.request("/.well-known/ssf-configuration");
    expect(headers.get("content-type")).toContain("application/json");
    expect(body).toEqual({
      spec_version: "1_0",
      issuer: api.publicUrl,
      jwks_uri: `${api.publicUrl}/.well-known/jwks.json`,
      delivery_methods_supported: ["urn:ietf:rfc:8935", "urn:ietf:rfc:8936"],
      configuration_endpoint: `${api.publicUrl}/v1/ssf/streams`,
      status_endpoint: `${api.publicUrl}/v1/ssf/status`,
      add_subject_endpoint: `${api.publicUrl}/v1/ssf/subjects/add`,
      remove_subject_endpoint: `${api.publicUrl}/v1/ssf/subjects/remove`,
      verification_endpoint: `${api.publicUrl}/v1/ssf/verify`,
      authorization_schemes: [{ spec_urn: "urn:ietf:rfc:6749" }],
      default_subjects: "ALL",
    });
  });

  test("of a stream is what its receiver requested, and what it gets", async () => {
    const made = await tenant.post("/v1/ssf/streams", {
      events_requested: [REVOKED, "urn:unknown"],
      description: "the gateway",
    });
    const id = String(made.body["stream_id"]);
    const shown = {
      stream_id: id,
      iss: api.publicUrl,
      aud: id,
      events_supported: Object.values(CAEP_EVENTS),
      events_requested: [REVOKED, "urn:unknown"],
      events_delivered: [REVOKED],
      delivery: { method: "urn:ietf:rfc:8936", endpoint_url: `${api.publicUrl}/v1/ssf/poll/${id}` },
      min_verification_interval: 30,
      description: "the gateway",
    };
    expect(made.body).toEqual(shown);
    expect((await tenant.get(`/v1/ssf/streams?stream_id=${id}`)).body).toEqual(shown);
    expect((await tenant.get("/v1/ssf/streams")).body).toEqual([shown]);
    // A receiver may send back what it has read.
    const replaced = await tenant.send("PUT", "/v1/ssf/streams", {
      body: { ...shown, description: undefined, events_requested: undefined, events_delivered: undefined },
    });
    expect(replaced).toMatchObject({ status: 200 });
    expect(replaced.body).not.toHaveProperty("description");
    expect(replaced.body["events_delivered"]).toEqual(Object.values(CAEP_EVENTS));
    const patched = await tenant.send("PATCH", "/v1/ssf/streams", {
      body: { stream_id: id, description: "x", events_requested: [] },
    });
    expect(patched.body).toMatchObject({ description: "x", events_delivered: [] });
    await removed(id);
    expect((await tenant.get("/v1/ssf/streams")).body).toEqual([]);
  });

  test("changes are entries of the compliance log, without secrets", async () => {
    const made = await tenant.post("/v1/ssf/streams", {
      delivery: {
        method: "urn:ietf:rfc:8935",
        endpoint_url: "http://127.0.0.1:65000/secret-path",
        authorization_header: "Bearer very-secret",
      },
    });
    const id = String(made.body["stream_id"]);
    expect(made.text).not.toContain("very-secret");
    await tenant.post("/v1/ssf/status", { stream_id: id, status: "paused" });
    await removed(id);
    const entries = await sql<{ entry: string }>(
      api,
      "SELECT convert_from(entry, 'UTF8') AS entry FROM clog WHERE convert_from(entry, 'UTF8') LIKE $1 ORDER BY idx",
      [`%"target":"${id}"%`],
    );
    expect(entries.map(({ entry }) => (JSON.parse(entry) as Json)["type"])).toEqual([
      "ssf_stream.created",
      "ssf_stream.updated",
      "ssf_stream.deleted",
    ]);
    expect(JSON.stringify(entries)).not.toMatch(/secret/);
    const stored = await sql(
      api,
      "SELECT FROM endpoint_authentications WHERE sealed LIKE '%very-secret%' OR sealed NOT LIKE '_%'",
    );
    expect(stored).toEqual([]);
  });
});
