/** Receipts of revocations, and further effects of a revocation. */
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { withoutPause } from "#test/support/pauses.ts";
import { signInToPortal } from "#test/support/portal.ts";
import { tellOfRevocations } from "#test/support/revocation-notices.ts";
import { type SecondApi, startSecondApi } from "#test/support/second-api.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import { asTenant, createEndpoint, sql, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

const BOUND_MS = 250;
const RACES = 20;
const TOKENS_PER_RACE = 50;
const api = useTestApi();
let proxy: TcpProxy;
let second: SecondApi;

beforeAll(async () => {
  proxy = await startTcpProxy(Number(new URL(api.database.url).port));
  second = await startSecondApi(api, proxy.port);
});
afterAll(async () => {
  await second.close();
  await proxy.close();
});
afterEach(() => {
  proxy.thaw();
});

interface Edges {
  readonly live: number;
  readonly acked: number;
  readonly max_ms: number | null;
  readonly outcome: string;
  readonly summary: string;
  readonly processes: readonly { readonly id: string; readonly state: string; readonly ms: number | null }[];
}

/** Id of a process in receipts, from its log. */
function idIn(log: readonly string[]): string {
  const line = log.findLast((text) => text.includes("following revocations")) ?? "{}";
  return String((JSON.parse(line) as { follower?: unknown }).follower);
}

type Revoked = Answer & { readonly edges: Edges };

async function revoke(client: Provisioned, body = {}): Promise<Revoked> {
  const answer = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, body);
  expect(answer).toMatchObject({ status: 200 });
  return { ...answer, edges: answer.body["edges"] as Edges };
}

async function reports(client: Provisioned): Promise<readonly unknown[]> {
  return await sql(
    api,
    `SELECT convert_from(entry, 'UTF8')::jsonb -> 'details' AS details FROM clog
      WHERE type = 'revocation.propagated' AND tenant_id = $1`,
    [client.tenantId],
  );
}

/** Resolves with a receipt once both processes follow revocations, and no other. */
async function bothFollow(): Promise<Edges> {
  return await eventually(async () => {
    const { edges } = await revoke(await provision(api));
    return edges.live === 2 && edges.acked === 2 && edges;
  }, "both processes to follow");
}

/** Cuts the second process off, once both follow. */
async function cutOff(): Promise<void> {
  proxy.thaw();
  await bothFollow();
  proxy.freeze();
}

describe("a receipt", () => {
  test("counts the acknowledging processes and the time of the slowest, is repeatable, and is logged once", async () => {
    const { client, answer } = await withoutPause(async () => {
      await bothFollow();
      const revoked = await provision(api);
      const receipt = await revoke(revoked);
      const applied = { live: 2, acked: 2, max_ms: expect.any(Number) as number, outcome: "applied" };
      expect(receipt.edges).toMatchObject(applied);
      expect(receipt.edges.max_ms).toBeLessThanOrEqual(BOUND_MS);
      return { client: revoked, answer: receipt };
    });
    const { edges, text } = answer;
    const times = edges.processes.map(({ ms }) => ms ?? Infinity);
    expect(Math.max(...times)).toBe(edges.max_ms);
    expect(edges.processes.map(({ id }) => id).toSorted()).toEqual(
      [idIn(api.log), idIn(second.log)].toSorted(),
    );
    await eventually(async () => (await reports(client)).length > 0, "the report");
    expect((await revoke(client)).text).toBe(text);
    const { max_ms, outcome, processes } = edges;
    const details = { edges: 2, acked: 2, lease_expired: 0, max_ms, outcome, processes };
    expect(await reports(client)).toEqual([{ details }]);
  });

  test("reports a process that cannot receive, waits no longer, and does not count it once it has disconnected", async () => {
    const { client, edges, tookMs } = await withoutPause(async () => {
      await cutOff();
      const revoked = await provision(api);
      const startedAt = performance.now();
      const answer = await revoke(revoked);
      const times = { tookMs: performance.now() - startedAt };
      expect(answer.edges).toMatchObject({ live: 2, acked: 1, outcome: "slow_but_safe" });
      return { client: revoked, edges: answer.edges, ...times };
    });
    const silent = idIn(second.log);
    expect(edges.summary).toContain(`Slow but safe: ${silent} did not acknowledge within 250 ms.`);
    expect(edges.processes).toContainEqual(
      expect.objectContaining({ id: silent, kind: "api", state: "lease_expired", ms: null }),
    );
    expect(tookMs).toBeGreaterThan(BOUND_MS / 2);
    const gone = await eventually(async () => {
      const answer = await revoke(client);
      return answer.edges.live === 1 && answer.edges;
    }, "the server to close the silent connection");
    // It lost its connection, but may still run.
    expect(gone).toMatchObject({ live: 1, acked: 1, outcome: "slow_but_safe" });
    expect(gone.processes.map(({ id }) => id)).toContain(silent);
  });

  test.each(["none", "region"])("with wait=%s, the log still says how all processes did", async (wait) => {
    const { body, report } = await withoutPause(async () => {
      await cutOff();
      const client = await provision(api);
      const path = `/credentials/${client.credentialId}/revoke?wait=${wait}`;
      const answer = await api.admin("POST", path, {});
      const [found] = await eventually(async () => {
        const all = await reports(client);
        return all.length > 0 && all;
      }, "the report");
      expect(found).toMatchObject({ details: { acked: 1 } });
      return { body: answer.body, report: found };
    });
    const silent = idIn(second.log);
    // Both apis have no region, so `region` waits for both.
    const lostLease = expect.objectContaining({ id: silent, state: "lease_expired" }) as unknown;
    const named = expect.objectContaining({ id: silent }) as unknown;
    const { processes } = body["edges"] as Edges;
    expect(processes).toContainEqual(wait === "region" ? lostLease : named);
    const lost = expect.objectContaining({ id: silent, state: "lease_expired", ms: null }) as unknown;
    const details = { edges: 2, acked: 1, lease_expired: 1, outcome: "slow_but_safe" };
    expect(report).toEqual({
      details: {
        ...details,
        max_ms: expect.any(Number) as number,
        // The silent one first: an entry names at most 200.
        processes: [lost, expect.objectContaining({ state: "applied", ms: expect.any(Number) as number })],
      },
    });
  });

  test("is on the portal's page and in its log, with who had lost its lease", async () => {
    const scopes = ["portal:sign_in", "credentials:read", "credentials:revoke", "compliance:read"];
    const own = await provision(api, { scopes });
    const visitor = await signInToPortal(api, await accessToken(api, own));
    const path = (client: Provisioned) => `/portal/credentials/${client.credentialId}`;
    const cells = (text: string): string => text.replaceAll(/<[^>]*>|\s+/g, " ").replaceAll(/ +/g, " ");
    const counts = "Admit it no longer 2 of 2 processes Applied 1 Had lost their lease 1";
    const page = await withoutPause(async () => {
      await cutOff();
      const client = await provision(api, { tenantId: own.tenantId });
      expect((await visitor.get(path(client))).text).toContain('<option value="region">');
      const confirmed = { confirm: client.clientId, wait: "all" };
      const { text } = await visitor.post(`${path(client)}/revoke`, confirmed);
      expect(cells(text)).toContain(counts);
      return text;
    });
    const silent = idIn(second.log);
    expect(cells(page)).toContain(`${silent} api – cannot admit: no lease –`);
    expect(cells(page)).toMatch(/api-[0-9a-f]{8} api – applied \d+ ms/);
    const [entry] = await eventually(async () => {
      const found = await sql<{ idx: string }>(
        api,
        "SELECT idx FROM clog WHERE type = 'revocation.propagated' AND tenant_id = $1",
        [own.tenantId],
      );
      return found.length > 0 && found;
    }, "the report");
    const logged = await visitor.get(`/portal/compliance/${String(entry?.idx)}`);
    expect(cells(logged.text)).toContain(`${silent} api – cannot admit: no lease –`);
    await withoutPause(async () => {
      await cutOff();
      const other = await provision(api, { tenantId: own.tenantId });
      const { text } = await visitor.post(`${path(other)}/revoke`, { confirm: other.clientId, wait: "none" });
      // The lease has not ended.
      expect(cells(text)).toContain("Receipt not certain yet");
      expect(text).toContain("/portal/compliance?type=revocation.propagated");
    });
  });

  test("counts a process that started later and read the revocation", async () => {
    await bothFollow();
    const client = await provision(api);
    await revoke(client);
    const third = await startSecondApi(api);
    try {
      await eventually(async () => {
        const { edges } = await revoke(client);
        return edges.live === 3 && edges.acked === 3;
      }, "the third process");
    } finally {
      await third.close();
    }
  });

  test("does not name a process that has stopped", async () => {
    const third = await startSecondApi(api);
    await third.close();
    const { processes } = await bothFollow();
    expect(processes.map(({ id }) => id)).not.toContain(idIn(third.log));
  });
});

test(`tokens that are issued while their credential is revoked are of no use, ${RACES * TOKENS_PER_RACE} of them`, async () => {
  const issued: string[] = [];
  for (let race = 0; race < RACES; race += 1) {
    const client = await provision(api, { scopes: ["credentials:read"] });
    const requests = Array.from({ length: TOKENS_PER_RACE }, async (_, number) => {
      await delay(number % 10);
      return await api.token(grant(client));
    });
    await delay(race % 10);
    await revoke(client);
    for (const { status, body } of await Promise.all(requests)) {
      expect([200, 401]).toContain(status);
      if (status === 200) {
        issued.push(String(body["access_token"]));
      }
    }
  }
  expect(issued.length).toBeGreaterThan(0);
  await delay(BOUND_MS);
  for (const token of issued) {
    expect(await api.request("/v1/credentials", { headers: bearer(token) })).toMatchObject({
      status: 401,
      body: { code: "TOKEN_REVOKED" },
    });
  }
});

describe("credential.revoked", () => {
  test("is sent once to the endpoints that take it, with CAEP data", async () => {
    const client = await provision(api, { scopes: WEBHOOK_SCOPES });
    const tenant = asTenant(api, client, await accessToken(api, client));
    await createEndpoint(api, tenant, { events: ["credential.revoked"] });
    await createEndpoint(api, tenant, { events: ["inference.completed"] });
    await revoke(client, { reason: "laptop lost" });
    await revoke(client, { reason: "again" });
    await tellOfRevocations(api);
    const events = await sql<{ id: string; deliveries: number; queued: number }>(
      api,
      `SELECT id, deliveries, (SELECT count(*)::int FROM deliveries d WHERE d.event_id = e.id AND state = 'QUEUED') AS queued
         FROM events e WHERE tenant_id = $1 AND type = 'credential.revoked'`,
      [client.tenantId],
    );
    expect(events).toMatchObject([{ deliveries: 1, queued: 1 }]);
    const other = await provision(api, { scopes: WEBHOOK_SCOPES, tenantId: client.tenantId });
    const reader = asTenant(api, other, await accessToken(api, other));
    const { body } = await reader.get(`/v1/events/${events[0]?.id ?? ""}`);
    expect(body["data"]).toMatchObject({
      credential_id: client.credentialId,
      reason: "laptop lost",
      sub_id: { format: "opaque", id: client.credentialId },
      events: {
        "https://schemas.openid.net/secevent/caep/event-type/credential-change": {
          change_type: "revoke",
          initiating_entity: "admin",
          reason_admin: { en: "laptop lost" },
        },
      },
    });
  });
});

describe("scope: tenant", () => {
  test("also holds the tenant: no new endpoint secrets, one entry, undone by an operator", async () => {
    const client = await provision(api, { scopes: [...WEBHOOK_SCOPES, "credentials:revoke"] });
    const tenant = asTenant(api, client, await accessToken(api, client));
    const victim = await provision(api, { tenantId: client.tenantId });
    for (let count = 0; count < 2; count += 1) {
      expect(
        await tenant.post(`/v1/credentials/${victim.credentialId}/revoke`, { scope: "tenant" }),
      ).toMatchObject({ status: 200 });
    }
    const endpoint = { url: "http://127.0.0.1:19999/hook", events: ["*"] };
    expect(await tenant.post("/v1/webhooks/endpoints", endpoint)).toMatchObject({
      status: 409,
      body: { code: "INVALID_STATE" },
    });
    expect((await api.admin("GET", `/tenants/${client.tenantId}`)).body).toMatchObject({
      state: "ACTIVE",
      held_at: expect.any(String),
    });
    expect(await api.admin("POST", `/tenants/${client.tenantId}/release`, {})).toMatchObject({
      status: 200,
      body: { held_at: null },
    });
    expect(await tenant.post("/v1/webhooks/endpoints", endpoint)).toMatchObject({ status: 201 });
    const entries = await sql<{ type: string }>(
      api,
      "SELECT type FROM clog WHERE tenant_id = $1 AND type IN ('tenant.held', 'tenant.released') ORDER BY idx",
      [client.tenantId],
    );
    expect(entries.map(({ type }) => type)).toEqual(["tenant.held", "tenant.released"]);
  });
});
