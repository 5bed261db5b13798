/** Contract 4, 5.5 and 8: one call revokes everywhere within 250 ms and is written to the immutable log. */
import { setTimeout as delay } from "node:timers/promises";
import { expect, onTestFinished, test } from "vitest";
import { deployedApi, publishOne, untilDelivery, verifiedEndpoint } from "../support/deployed-api.ts";
import { committedAt } from "../support/edge-processes.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "../support/factories.ts";
import { monotonicMs } from "../support/monotonic.ts";
import { withoutPause } from "../support/pauses.ts";
import type { Json } from "../support/tenant.ts";

const api = deployedApi();
const BOUND_MS = 250;
const EDGES = [0, 1] as const;

interface Asked {
  readonly sentAt: number;
  readonly status: number;
  readonly code: unknown;
}

/** Asks one edge again and again until stopped, at the latest at the end of the test; resolves with all answers. */
function keepAsking(
  edge: number,
  token: string,
): { stop(): Promise<readonly Asked[]>; readonly asked: Asked[] } {
  const asked: Asked[] = [];
  const ended = new AbortController();
  const loop = (async () => {
    while (!ended.signal.aborted) {
      const sentAt = monotonicMs();
      const { status, body } = await api.edgeOnce(edge, "/v1/inference/x", { headers: bearer(token) });
      asked.push({ sentAt, status, code: body["code"] });
      await delay(5);
    }
  })();
  onTestFinished(() => ended.abort());
  return {
    asked,
    stop: async () => {
      ended.abort();
      await loop;
      return asked;
    },
  };
}

async function untilBoth(
  loops: readonly { readonly asked: readonly Asked[] }[],
  status: number,
): Promise<void> {
  await eventually(
    () => loops.every(({ asked }) => asked.at(-1)?.status === status),
    `both edges to answer ${status}`,
  );
}

test("a revoked credential's tokens end at both edges and the api within 250 ms; others go on", async () => {
  const { victim, token, kept } = await withoutPause(async () => {
    const revoked = await provision(api, { scopes: ["inference:read", "webhooks:read"] });
    const other = await provision(api, { scopes: ["inference:read"], tenantId: revoked.tenantId });
    const tokens = { token: await accessToken(api, revoked), kept: await accessToken(api, other) };
    const loops = EDGES.map((edge) => keepAsking(edge, tokens.token));
    await untilBoth(loops, 200);
    const answer = await api.admin("POST", `/credentials/${revoked.credentialId}/revoke`, {
      reason: "compromised",
    });
    expect(answer).toMatchObject({ status: 200 });
    const at = await committedAt(api, String(answer.body["revocation_id"]));
    await untilBoth(loops, 401);
    for (const loop of loops) {
      const asked = await loop.stop();
      // A request that was sent after the bound is never admitted.
      const late = asked.filter(({ sentAt }) => sentAt > at + BOUND_MS);
      expect(late.filter(({ status }) => status === 200)).toEqual([]);
      const last = asked.findLast(({ code }) => code !== "REVOCATION_STALE");
      expect(last).toMatchObject({ status: 401, code: "TOKEN_REVOKED" });
    }
    return { victim: revoked, ...tokens };
  });
  expect(await api.request("/v1/webhooks/endpoints", { headers: bearer(token) })).toMatchObject({
    status: 401,
    body: { code: "TOKEN_REVOKED" },
  });
  expect(await api.token(grant(victim))).toMatchObject({ status: 401, body: { code: "INVALID_CLIENT" } });
  for (const edge of EDGES) {
    expect(await api.edge(edge, "/v1/inference/x", { headers: bearer(kept) })).toMatchObject({ status: 200 });
  }
});

test("the receipt counts both edges and the api, all of which acknowledged within 250 ms", async () => {
  const processes = await withoutPause(async () => {
    const client = await provision(api, { scopes: ["inference:read"] });
    const headers = bearer(await accessToken(api, client));
    // An edge that admits is connected.
    await Promise.all(EDGES.map(async (edge) => await api.edge(edge, "/v1/inference/x", { headers })));
    const answer = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {});
    expect(answer).toMatchObject({ status: 200 });
    const receipt = answer.body["edges"] as Json;
    expect(receipt).toMatchObject({ live: 3, acked: 3, outcome: "applied" });
    expect(receipt["max_ms"]).toBeLessThanOrEqual(BOUND_MS);
    return receipt["processes"] as Json[];
  });
  expect(processes.map(({ kind, state }) => [kind, state])).toEqual([
    ["api", "applied"],
    ["edge", "applied"],
    ["edge", "applied"],
  ]);
  expect(new Set(processes.map(({ id }) => id)).size).toBe(3);
});

test("a revocation is an entry of the compliance log, which `signet audit verify` proves", async () => {
  const client: Provisioned = await provision(api);
  const { body } = await api.admin("POST", `/credentials/${client.credentialId}/revoke`, {
    reason: "laptop lost",
  });
  const { log_index: index } = body["compliance"] as { readonly log_index: number };
  const verifierKey = (await api.signet("keys", "checkpoint-key")).trim().split(/\s+/).at(-1) ?? "";
  // The worker signs a checkpoint shortly after each revocation.
  const proven = await eventually(
    async () =>
      JSON.parse(
        await api.signet("audit", "verify", "--vkey", verifierKey, "--entry", String(index), "--json"),
      ) as { readonly entry: Json },
    "a checkpoint that covers the entry",
  );
  expect(proven.entry).toMatchObject({
    type: "credential.revoked",
    target: client.credentialId,
    reason: "laptop lost",
    tenant: client.tenantId,
  });
  expect(JSON.parse(await api.signet("audit", "verify", "--vkey", verifierKey, "--json"))).toMatchObject({
    entries: expect.any(Number),
  });
});

test("a held tenant's deliveries wait for its release; those of others leave", async () => {
  const [held, other] = [await verifiedEndpoint(api), await verifiedEndpoint(api)];
  const hold = await api.admin("POST", `/tenants/${held.tenant.tenantId}/hold`, { reason: "leak" });
  expect(hold).toMatchObject({ status: 200 });
  const waiting = await publishOne(held.tenant);
  for (let count = 0; count < 3; count += 1) {
    await untilDelivery(other.tenant, await publishOne(other.tenant), { state: "DELIVERED" });
  }
  expect(held.receiver.requests).toEqual([]);
  await untilDelivery(held.tenant, waiting, { state: "QUEUED", attempt_count: 0 });
  const release = await api.admin("POST", `/tenants/${held.tenant.tenantId}/release`, { reason: "rotated" });
  expect(release).toMatchObject({ status: 200 });
  await untilDelivery(held.tenant, waiting, { state: "DELIVERED", attempt_count: 1 });
});
