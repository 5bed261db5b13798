/** Security events pushed to receivers (RFC 8935): each is a delivery of the engine. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { beforeEach, describe, expect, test } from "vitest";
import { CAEP_EVENTS, STREAM_EVENTS } from "#domain/security-events.ts";
import { ssfListener, SsfReceiver } from "#lib/receiver/index.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { accessToken, grant, provision } from "#test/support/factories.ts";
import { type Receiver, startReceiver } from "#test/support/receiver-server.ts";
import {
  ACCEPTED,
  AUTHORIZATION,
  PUSH,
  pushStream,
  streamTenant,
  untilSet,
  verifiedSet,
} from "#test/support/ssf.ts";
import { type Json, rows, sql, type Tenant } from "#test/support/tenant.ts";

/** 17 attempts within two seconds. */
const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });
const REVOKED = CAEP_EVENTS["session-revoked"];
const CHANGED = CAEP_EVENTS["credential-change"];
let tenant: Tenant;
let receiver: Receiver;

beforeEach(async () => {
  // Of its own: late tokens of the previous test's stream are for another audience.
  receiver = await startReceiver();
  tenant = await streamTenant(api);
  return async () => await receiver.close();
});

const revoke = async (id: string, reason = "leaked"): Promise<void> => {
  expect(await api.admin("POST", `/credentials/${id}/revoke`, { reason })).toMatchObject({ status: 200 });
};
const deliveriesOf = async (endpointId: string): Promise<readonly Json[]> =>
  rows(await tenant.get(`/v1/webhooks/deliveries?endpoint_id=${endpointId}`));

/** Waits until all deliveries of an endpoint have this state. */
async function untilAll(endpointId: string, state: string, count: number): Promise<readonly Json[]> {
  return await eventually(async () => {
    const deliveries = await deliveriesOf(endpointId);
    return deliveries.length === count && deliveries.every((one) => one["state"] === state)
      ? deliveries
      : undefined;
  }, `${count} deliveries to be ${state}`);
}

/** The receiver's tokens with an event, by their ids. */
async function setsOf(streamId: string, uri: string): Promise<readonly string[]> {
  const claims = await Promise.all(
    receiver.requests.map(async ({ rawBody }) => await verifiedSet(api, rawBody.toString(), streamId)),
  );
  return claims.filter(({ events }) => uri in events).map(({ jti }) => jti);
}

describe("a revoked credential", () => {
  test("arrives as signed tokens that a JWT library verifies", async () => {
    const stream = await pushStream(tenant, receiver);
    const victim = await provision(api, { tenantId: tenant.tenantId });
    await revoke(victim.credentialId, "laptop lost");
    const { claims, request } = await untilSet(api, receiver, stream.id);
    expect(request.headers).toMatchObject({
      "content-type": "application/secevent+jwt",
      accept: "application/json",
      authorization: AUTHORIZATION,
    });
    expect(Object.keys(request.headers).filter((name) => /^(webhook|x-service)-/.test(name))).toEqual([]);
    expect(claims).toMatchObject({
      sub_id: { format: "iss_sub", iss: api.publicUrl, sub: victim.clientId },
      events: {
        [REVOKED]: {
          initiating_entity: "admin",
          reason_admin: { en: "laptop lost" },
          event_timestamp: expect.any(Number),
        },
      },
    });
    const wanted = { change_type: "revoke", credential_type: "client-credential" };
    await eventually(async () => {
      const all = await Promise.all(
        receiver.requests.map(async ({ rawBody }) => await verifiedSet(api, rawBody.toString(), stream.id)),
      );
      const change = all.find(({ txn, events }) => txn === claims.txn && CHANGED in events);
      expect(change).toMatchObject({ sub_id: claims.sub_id, events: { [CHANGED]: wanted } });
      return true;
    }, "the change of the same cause");
  });

  test("is denied by a service with the client library, within its receiver", async () => {
    const made = await tenant.post("/v1/ssf/streams", {
      delivery: { method: PUSH, endpoint_url: `${receiver.url}/later` },
    });
    const id = String(made.body["stream_id"]);
    const denying = new SsfReceiver({ issuer: api.publicUrl, audience: id, authorization: AUTHORIZATION });
    const server = createServer(ssfListener(denying));
    await new Promise<void>((resolve) => {
      server.listen(0, "127.0.0.1", resolve);
    });
    try {
      const { port } = server.address() as AddressInfo;
      const rejected = await fetch(`http://127.0.0.1:${port}/events`, { method: "POST", body: "{}" });
      expect([rejected.status, rejected.headers.get("content-language")]).toEqual([400, "en"]);
      const moved = await tenant.send("PATCH", "/v1/ssf/streams", {
        body: {
          stream_id: id,
          delivery: {
            method: PUSH,
            endpoint_url: `http://127.0.0.1:${port}/events`,
            authorization_header: AUTHORIZATION,
          },
        },
      });
      expect(moved).toMatchObject({ status: 200 });
      const victim = await provision(api, { tenantId: tenant.tenantId });
      const token = await accessToken(api, victim);
      const claims = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as Json;
      expect(denying.isDenied(claims)).toBe(false);
      await revoke(victim.credentialId);
      await eventually(() => denying.isDenied(claims), "the receiver to deny the token");
      const other = await accessToken(api, tenant);
      const kept = JSON.parse(Buffer.from(other.split(".")[1] ?? "", "base64url").toString()) as Json;
      expect(denying.isDenied(kept)).toBe(false);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });
});

describe("what is reported", () => {
  test("a revoked token, principal and tenant have subjects of their own", async () => {
    const stream = await pushStream(tenant, receiver);
    const client = await provision(api, { tenantId: tenant.tenantId });
    const token = await accessToken(api, client);
    const { jti } = JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString()) as {
      jti: string;
    };
    const { grant_type: _grant, ...authentication } = grant(client);
    const revoked = await api.request("/v1/auth/revoke", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...authentication, token }),
    });
    expect(revoked.status).toBe(200);
    await api.admin("POST", `/principals/${client.principalId}/revoke`, { reason: "left" });
    await api.admin("POST", `/tenants/${tenant.tenantId}/suspend`, { reason: "unpaid" });
    const wanted = [
      { format: "jwt_id", iss: api.publicUrl, jti },
      { format: "iss_sub", iss: api.publicUrl, sub: client.principalId },
      { format: "opaque", id: tenant.tenantId },
    ];
    for (const subject of wanted) {
      await eventually(
        async () => {
          const all = await Promise.all(
            receiver.requests.map(
              async ({ rawBody }) => await verifiedSet(api, rawBody.toString(), stream.id),
            ),
          );
          return all.some(
            ({ sub_id: got, events }) => REVOKED in events && JSON.stringify(got) === JSON.stringify(subject),
          );
        },
        `session-revoked of ${JSON.stringify(subject)}`,
      );
    }
  });

  test("a new credential, with its certificate, and changed scopes of a principal", async () => {
    const stream = await pushStream(tenant, receiver);
    const client = await provision(api, {
      tenantId: tenant.tenantId,
      credential: { certificate_thumbprints: ["ab".repeat(32)] },
      scopes: ["webhooks:read"],
    });
    const changes = async (): Promise<readonly Json[]> => {
      const all = await Promise.all(
        receiver.requests.map(async ({ rawBody }) => await verifiedSet(api, rawBody.toString(), stream.id)),
      );
      return all.flatMap(({ sub_id: { sub }, events }) => {
        const { change_type: change, credential_type: type } = events[CHANGED] ?? {};
        return sub === client.clientId ? [{ change, type }] : [];
      });
    };
    await eventually(async () => (await changes()).length === 2, "two changes");
    expect(await changes()).toEqual(
      expect.arrayContaining([
        { change: "create", type: "client-credential" },
        { change: "create", type: "x509" },
      ]),
    );
    await api.admin("PATCH", `/roles/${client.roleId}`, { scopes: ["webhooks:read", "webhooks:write"] });
    await api.admin("POST", `/principals/${client.principalId}/reprovision`);
    const uri = CAEP_EVENTS["token-claims-change"];
    const { claims } = await untilSet(api, receiver, stream.id, uri);
    expect(claims).toMatchObject({
      sub_id: { format: "iss_sub", sub: client.principalId },
      events: { [uri]: { claims: { scope: "webhooks:read webhooks:write" } } },
    });
  });

  test("a stream gets only the events that it requested, and not those of removed subjects", async () => {
    const stream = await pushStream(tenant, receiver, { events_requested: [REVOKED, "urn:unknown"] });
    const [removed, kept] = [
      await provision(api, { tenantId: tenant.tenantId }),
      await provision(api, { tenantId: tenant.tenantId }),
    ];
    // The members in another order are the same subject.
    const subject = { sub: removed.principalId, iss: api.publicUrl, format: "iss_sub" };
    const place = { stream_id: stream.id, subject };
    expect(await tenant.post("/v1/ssf/subjects/remove", place)).toMatchObject({ status: 204 });
    await revoke(removed.credentialId);
    await revoke(kept.credentialId);
    const { claims } = await untilSet(api, receiver, stream.id);
    expect(claims.sub_id["sub"]).toBe(kept.clientId);
    expect(await setsOf(stream.id, CHANGED)).toEqual([]);
    receiver.clear();
    expect(await tenant.post("/v1/ssf/subjects/add", place)).toMatchObject({ status: 200, text: "" });
    await api.admin("POST", `/principals/${removed.principalId}/revoke`, { reason: "left" });
    expect((await untilSet(api, receiver, stream.id)).claims.sub_id["sub"]).toBe(removed.principalId);
  });
});

describe("a receiver that fails", () => {
  const only = { events_requested: [REVOKED] };

  test("gets the same token again until it answers 202; the error that it reports is kept", async () => {
    const stream = await pushStream(tenant, receiver, only);
    receiver.answer([
      { kind: "answer", status: 500 },
      { kind: "answer", status: 400, body: '{"err":"invalid_key","description":"no such key"}' },
      ACCEPTED,
    ]);
    const victim = await provision(api, { tenantId: tenant.tenantId });
    await revoke(victim.credentialId);
    const [delivery] = await untilAll(stream.endpointId, "DELIVERED", 1);
    const ids = await setsOf(stream.id, REVOKED);
    expect(ids).toEqual([delivery?.["id"], delivery?.["id"], delivery?.["id"]]);
    const attempts = await tenant.get(`/v1/webhooks/deliveries/${String(delivery?.["id"])}/attempts`);
    expect(rows(attempts)[1]).toMatchObject({
      status: 400,
      response_body: expect.stringContaining("invalid_key"),
    });
  });

  test("leaves a dead letter after 17 attempts, which a replay sends with the same jti", async () => {
    const stream = await pushStream(tenant, receiver, only);
    receiver.answer([{ kind: "answer", status: 500 }]);
    const victim = await provision(api, { tenantId: tenant.tenantId });
    await revoke(victim.credentialId);
    const [dead] = await untilAll(stream.endpointId, "DEAD_LETTERED", 1);
    expect(dead).toMatchObject({ attempt_count: 17, event_type: "signet.session_revoked" });
    receiver.answer([ACCEPTED]);
    receiver.clear();
    const id = String(dead?.["id"]);
    expect(await tenant.post(`/v1/webhooks/dlq/${id}/replay`)).toMatchObject({ status: 202 });
    await untilAll(stream.endpointId, "DELIVERED", 1);
    expect(await setsOf(stream.id, REVOKED)).toEqual([id]);
  });

  test("that answers 410 has its stream paused until it enables it again; then it learns of that, too", async () => {
    const stream = await pushStream(tenant, receiver, only);
    receiver.answer([{ kind: "answer", status: 410 }]);
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    const status = `/v1/ssf/status?stream_id=${stream.id}`;
    await eventually(async () => (await tenant.get(status)).body["status"] === "paused", "a paused stream");
    expect((await tenant.get(status)).body).toMatchObject({ reason: expect.stringContaining("gone") });
    await untilAll(stream.endpointId, "DEAD_LETTERED", 2);
    receiver.answer([ACCEPTED]);
    receiver.clear();
    const enabled = await tenant.post("/v1/ssf/status", { stream_id: stream.id, status: "enabled" });
    expect(enabled).toMatchObject({ status: 200, body: { status: "enabled" } });
    await untilAll(stream.endpointId, "DELIVERED", 2);
    const updated = STREAM_EVENTS["stream-updated"];
    const { claims } = await untilSet(api, receiver, stream.id, updated);
    expect(claims).toMatchObject({
      sub_id: { format: "opaque", id: stream.id },
      events: { [updated]: { status: "paused", reason: expect.stringContaining("gone") } },
    });
  });
});

describe("a stream", () => {
  test("is verified with an event before anything else is sent; events wait until then", async () => {
    receiver.answer([{ kind: "answer", status: 503 }]);
    const { body } = await tenant.post("/v1/ssf/streams", {
      delivery: { method: PUSH, endpoint_url: `${receiver.url}/events` },
      events_requested: [REVOKED],
    });
    const [ping] = await receiver.waitFor(1);
    const id = String(body["stream_id"]);
    expect(await verifiedSet(api, ping?.rawBody.toString() ?? "", id)).toMatchObject({
      sub_id: { format: "opaque", id },
      events: { [STREAM_EVENTS.verification]: {} },
    });
    expect(ping?.headers).not.toHaveProperty("authorization");
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    receiver.answer([ACCEPTED]);
    const endpointId = String(body["endpoint_id"]);
    await tenant.send("PATCH", "/v1/ssf/streams", {
      body: {
        stream_id: id,
        delivery: { method: PUSH, endpoint_url: `${receiver.url}/moved` },
      },
    });
    await untilAll(endpointId, "DELIVERED", 1);
    expect((await untilSet(api, receiver, id)).request.path).toBe("/moved");
  });

  test("is replaced by what its receiver has read of it, and by nothing that the service sets", async () => {
    const stream = await pushStream(tenant, receiver, { description: "the gateway" });
    const { body: shown } = await tenant.get(`/v1/ssf/streams?stream_id=${stream.id}`);
    expect(shown).toMatchObject({ endpoint_id: stream.endpointId, delivery: { method: PUSH } });
    for (const method of ["PUT", "PATCH"]) {
      expect(await tenant.send(method, "/v1/ssf/streams", { body: shown })).toMatchObject({
        status: 200,
        body: shown,
      });
      const other = { ...shown, endpoint_id: "ep_01jd3c5xq8m2v7k9r4t6w0zy" };
      expect(await tenant.send(method, "/v1/ssf/streams", { body: other })).toMatchObject({
        status: 400,
        body: { code: "INVALID_REQUEST", detail: expect.stringContaining("endpoint_id") },
      });
    }
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    // The header that the answer does not show has stayed.
    const { request } = await untilSet(api, receiver, stream.id);
    expect(request.headers).toMatchObject({ authorization: AUTHORIZATION });
  });

  test("does not take its authorization to another host", async () => {
    const { id } = await pushStream(tenant, receiver);
    const other = await startReceiver();
    for (const method of ["PUT", "PATCH"]) {
      const delivery = { method: PUSH, endpoint_url: `${other.url}/mine` };
      expect(
        await tenant.send(method, "/v1/ssf/streams", { body: { stream_id: id, delivery } }),
      ).toMatchObject({
        status: 422,
        body: { errors: [{ pointer: "/delivery/authorization_header", code: "required" }] },
      });
    }
    const delivery = { method: PUSH, endpoint_url: `${other.url}/mine`, authorization_header: null };
    expect(
      await tenant.send("PATCH", "/v1/ssf/streams", { body: { stream_id: id, delivery } }),
    ).toMatchObject({ status: 200 });
    await other.waitFor(1);
    expect(other.requests[0]?.headers).not.toHaveProperty("authorization");
    await other.close();
  });

  test("verifies itself at its receiver's request, with its state, once in 30 seconds", async () => {
    const stream = await pushStream(tenant, receiver);
    const request = { stream_id: stream.id, state: "opaque ☃" };
    expect(await tenant.post("/v1/ssf/verify", request)).toMatchObject({ status: 204 });
    const { claims } = await untilSet(api, receiver, stream.id, STREAM_EVENTS.verification);
    expect(claims).toMatchObject({
      sub_id: { format: "opaque", id: stream.id },
      events: { [STREAM_EVENTS.verification]: { state: request.state } },
    });
    const again = await tenant.post("/v1/ssf/verify", request);
    expect(again).toMatchObject({ status: 429, body: { code: "RATE_LIMITED" } });
    expect(Number(again.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("that is paused holds its tokens and sends them once it is enabled; a disabled one gets none", async () => {
    const stream = await pushStream(tenant, receiver, { events_requested: [REVOKED] });
    const set = async (status: string): Promise<void> => {
      const answer = await tenant.post("/v1/ssf/status", { stream_id: stream.id, status, reason: "test" });
      expect(answer).toMatchObject({ status: 200, body: { stream_id: stream.id, status, reason: "test" } });
    };
    await set("paused");
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    await untilAll(stream.endpointId, "DEAD_LETTERED", 1);
    expect(receiver.requests).toEqual([]);
    await set("enabled");
    await untilAll(stream.endpointId, "DELIVERED", 1);
    await set("disabled");
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    await set("enabled");
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    await untilAll(stream.endpointId, "DELIVERED", 2);
    expect(await setsOf(stream.id, REVOKED)).toHaveLength(2);
  });

  test("that is deleted gets nothing more, and its endpoint is gone", async () => {
    const stream = await pushStream(tenant, receiver);
    const path = `/v1/ssf/streams?stream_id=${stream.id}`;
    expect(await tenant.send("DELETE", path)).toMatchObject({ status: 204 });
    expect(await tenant.get(path)).toMatchObject({ status: 404 });
    expect(await tenant.get(`/v1/webhooks/endpoints/${stream.endpointId}`)).toMatchObject({ status: 404 });
    await revoke((await provision(api, { tenantId: tenant.tenantId })).credentialId);
    const events = await sql(api, "SELECT FROM events WHERE tenant_id = $1 AND type LIKE 'signet.%'", [
      tenant.tenantId,
    ]);
    expect(events).toEqual([]);
  });
});
