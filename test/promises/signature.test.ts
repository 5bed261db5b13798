/** Contract 6, Signing: HMAC-SHA256 over the raw body with the endpoint's secret, and a timestamp of ≤ 300 s. */
import { createHmac, randomUUID } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { expect, test } from "vitest";
import { deployedApi, publishOne, untilDelivery, verifiedEndpoint } from "../support/deployed-api.ts";
import { createProducer, sendSigned, signed } from "../support/producer.ts";
import { type ReceivedRequest, verifyReceived } from "../support/receiver-server.ts";
import { expectRefusal, type Json } from "../support/tenant.ts";

const api = deployedApi();

test("a delivery is signed over its raw body; our library and the stock one of Standard Webhooks verify it", async () => {
  const { tenant, receiver, secret } = await verifiedEndpoint(api);
  const data = '{"ratio":1.0,"big":1152921504606846976,"z":1,"a":"é\\u2028"}';
  const answer = await tenant.send("POST", "/v1/events", {
    raw: `{"type":"inference.completed","data":${data}}`,
  });
  expect(answer).toMatchObject({ status: 202 });
  const [request] = (await receiver.waitFor(1)) as [ReceivedRequest];
  const headers = request.headers as Record<string, string>;

  // By hand, as specified: no library of ours.
  const digest = createHmac("sha256", secret).update(request.rawBody).digest("hex");
  expect(headers["x-service-signature-256"]).toBe(`sha256=${digest}`);
  const age = Date.now() / 1_000 - Number(headers["x-service-timestamp"]);
  expect(age).toBeLessThan(300);
  expect(request.rawBody.toString()).toContain(`"data":${data}`);

  const { payload } = verifyReceived(request, [secret]);
  expect(new Webhook(secret).verify(request.rawBody, headers)).toEqual(payload);
  expect(payload).toMatchObject({ type: "inference.completed", id: headers["webhook-id"], attempt: 1 });
});

test("a receiver that verifies rejects another body, another secret, another endpoint's secret, and age", async () => {
  const { tenant, receiver, secret } = await verifiedEndpoint(api);
  const other = await verifiedEndpoint(api);
  expect(other.secret).not.toBe(secret);
  await untilDelivery(tenant, await publishOne(tenant), { state: "DELIVERED" });
  const [request] = receiver.requests as [ReceivedRequest];
  const changed = { ...request, rawBody: Buffer.concat([request.rawBody, Buffer.from(" ")]) };
  expect(() => verifyReceived(request, [secret])).not.toThrow();
  expect(() => verifyReceived(changed, [secret])).toThrow(/signature/);
  expect(() => verifyReceived(request, [other.secret])).toThrow(/signature/);
  const sentAtMs = Number(request.headers["x-service-timestamp"]) * 1_000;
  expect(() => verifyReceived(request, [secret], sentAtMs + 299_000)).not.toThrow();
  expect(() => verifyReceived(request, [secret], sentAtMs + 302_000)).toThrow(/old|timestamp/);
});

test("the ingress validator rejects payloads older than 300 seconds, changed ones, and foreign signatures", async () => {
  const producer = await createProducer(api);
  const stranger = await createProducer(api);
  const now = Math.floor(Date.now() / 1_000);
  const event = (): Json & { readonly id: string } => ({ id: randomUUID(), type: "a.b", data: {} });
  expect(await sendSigned(api, signed(producer, event(), now - 280))).toMatchObject({ status: 202 });
  expectRefusal(await sendSigned(api, signed(producer, event(), now - 310)), 401, "PAYLOAD_EXPIRED");
  const fresh = signed(producer, event(), now);
  const changed = { ...fresh, body: fresh.body.replace("a.b", "a.c") };
  expectRefusal(await sendSigned(api, changed), 401, "SIGNATURE_INVALID");
  const foreign = signed({ keyId: producer.keyId, secret: stranger.secret }, event(), now);
  expectRefusal(await sendSigned(api, foreign), 401, "SIGNATURE_INVALID");
});
