import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Signer } from "#webhooks/sending/signer.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { verify } from "#lib/receiver/verify.ts";

const current = generateSecret((size) => new Uint8Array(size).fill(1));
const next = generateSecret((size) => new Uint8Array(size).fill(2));
const docsUrl = "https://signet.example/docs";
const timestampSeconds = 1_763_650_000;
const request = {
  secret: current,
  // Parsing and serializing would change these bytes.
  body: Buffer.from(`{ "id":"evt_1","sent_at":${timestampSeconds},"data":1.0 }`),
  eventId: "evt_1",
  eventType: "inference.completed",
  deliveryId: "dlv_1",
  attempt: 3,
  timestampSeconds,
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: timestampSeconds * 1_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

describe("Signer", () => {
  it("returns exactly the documented headers", () => {
    const headers = new Signer({ headerBrand: "Service", docsUrl }).headers(request);
    expect(headers).toEqual({
      "Content-Type": "application/json",
      "User-Agent": "Signet/1 (+https://signet.example/docs)",
      "Accept-Encoding": "identity",
      "X-Service-Signature-256": expect.stringMatching(/^sha256=[0-9a-f]{64}$/),
      "X-Service-Timestamp": String(timestampSeconds),
      "X-Service-Event-Id": "evt_1",
      "X-Service-Event-Type": "inference.completed",
      "X-Service-Delivery-Id": "dlv_1",
      "X-Service-Attempt": "3",
      "webhook-id": "evt_1",
      "webhook-timestamp": String(timestampSeconds),
      "webhook-signature": expect.stringMatching(/^v1,[A-Za-z0-9+/]{43}=$/),
    });
  });

  it("has the brand in every branded header name", () => {
    const names = Object.keys(new Signer({ headerBrand: "Acme-Cloud", docsUrl }).headers(request));
    expect(names.filter((name) => name.startsWith("X-Acme-Cloud-"))).toHaveLength(6);
    expect(names.some((name) => name.includes("Service"))).toBe(false);
  });

  it("signs with both secrets during a rotation, the current one in the single-valued header", () => {
    const headers = new Signer({ headerBrand: "Service", docsUrl }).headers({
      ...request,
      alternateSecret: next,
    });
    const receive = (secret: string, only: (name: string) => boolean) =>
      verify({
        rawBody: request.body,
        headers: Object.fromEntries(Object.entries(headers).filter(([name]) => only(name))),
        secrets: [secret],
        now: timestampSeconds * 1000,
      }).scheme;
    for (const secret of [current, next]) {
      expect(receive(secret, () => true)).toBe("v1");
      expect(receive(secret, (name) => !name.startsWith("webhook-"))).toBe("sha256");
      expect(new Webhook(secret).verify(request.body, headers)).toBeDefined();
    }
    expect(() => receive(next, (name) => !/^webhook-|-Alt$/.test(name))).toThrow("no signature matches");
    expect(receive(current, (name) => !/^webhook-|-Alt$/.test(name))).toBe("sha256");
  });

  it("rejects a brand or an address that would break the header", () => {
    expect(() => new Signer({ headerBrand: "a b", docsUrl })).toThrow(TypeError);
    expect(() => new Signer({ headerBrand: "", docsUrl })).toThrow(TypeError);
    expect(() => new Signer({ headerBrand: "Service", docsUrl: "https://x/\r\nX: y" })).toThrow(TypeError);
  });
});
