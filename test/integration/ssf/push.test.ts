/** Security events pushed to receivers (RFC 8935): each is a delivery of the engine. */
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { CAEP_EVENTS, STREAM_EVENTS } from "../../../src/domain/security-events.ts";
import { useSharedApi } from "../../support/api.ts";
import { provision } from "../../support/factories.ts";
import { type Receiver, startReceiver } from "../../support/receiver-server.ts";
import { AUTHORIZATION, pushStream, streamTenant, untilSet, verifiedSet } from "../../support/ssf.ts";
import type { Tenant } from "../../support/tenant.ts";

const api = useSharedApi({ worker: true });
let tenant: Tenant;
let receiver: Receiver;

beforeAll(async () => {
  receiver = await startReceiver();
});
afterAll(async () => await receiver.close());
beforeEach(async () => {
  tenant = await streamTenant(api);
  receiver.clear();
});

test("a revoked credential arrives as signed tokens that a JWT library verifies", async () => {
  const stream = await pushStream(tenant, receiver);
  const victim = await provision(api, { tenantId: tenant.tenantId });
  await api.admin("POST", `/credentials/${victim.credentialId}/revoke`, { reason: "laptop lost" });
  const { claims, request } = await untilSet(api, receiver, stream.id);
  expect(request.headers).toMatchObject({
    "content-type": "application/secevent+jwt",
    accept: "application/json",
    authorization: AUTHORIZATION,
  });
  expect(claims).toMatchObject({
    sub_id: { format: "iss_sub", iss: api.publicUrl, sub: victim.clientId },
    events: {
      [CAEP_EVENTS["session-revoked"]]: {
        initiating_entity: "admin",
        reason_admin: { en: "laptop lost" },
        event_timestamp: expect.any(Number),
      },
    },
  });
  const other = await untilSet(api, receiver, stream.id, CAEP_EVENTS["credential-change"]);
  expect(other.claims).toMatchObject({
    txn: claims.txn,
    sub_id: claims.sub_id,
    events: { [CAEP_EVENTS["credential-change"]]: { change_type: "revoke" } },
  });
});

test("a new stream is verified with an event before anything else is sent", async () => {
  receiver.answer([{ kind: "answer", status: 202 }]);
  const { body } = await tenant.post("/v1/ssf/streams", {
    delivery: { method: "urn:ietf:rfc:8935", endpoint_url: `${receiver.url}/events` },
  });
  const [request] = await receiver.waitFor(1);
  const claims = await verifiedSet(api, request?.rawBody.toString() ?? "", String(body["stream_id"]));
  expect(claims).toMatchObject({
    sub_id: { format: "opaque", id: body["stream_id"] },
    events: { [STREAM_EVENTS.verification]: {} },
  });
  expect(request?.headers).not.toHaveProperty("authorization");
});
