import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { afterEach, describe, expect, it, vi } from "vitest";
import { decodeSecret, generateSecret } from "#lib/receiver/secret.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import vectors from "#test/support/vectors/signatures.json" with { type: "json" };

const secret = generateSecret(randomBytes);

afterEach(() => {
  vi.useRealTimers();
});

describe("signDelivery", () => {
  it("returns the signatures that another implementation computed", () => {
    const { sign } = vectors;
    const body = Buffer.from(sign.body_base64, "base64");
    expect(
      signDelivery({ secret: sign.secret, body, id: sign.id, timestampSeconds: sign.timestamp_seconds }),
    ).toEqual({ sha256: sign.sha256, v1: sign.v1 });
  });

  it("creates v1 signatures that the stock standardwebhooks package accepts, for any JSON", () => {
    const webhook = new Webhook(secret);
    const timestampSeconds = 1_763_650_000;
    vi.useFakeTimers({ toFake: ["Date"], now: timestampSeconds * 1_000 });
    fc.assert(
      fc.property(fc.json(), (text) => {
        const body = Buffer.from(text);
        const { v1 } = signDelivery({ secret, body, id: "evt_1", timestampSeconds });
        const headers = {
          "webhook-id": "evt_1",
          "webhook-timestamp": String(timestampSeconds),
          "webhook-signature": v1,
        };
        expect(webhook.verify(body, headers)).toEqual(JSON.parse(text));
        expect(() => webhook.verify(`${text} `, headers)).toThrow("No matching signature found");
      }),
    );
  });

  it("signs bytes, so bodies that differ only in invalid UTF-8 have different signatures", () => {
    const sign = (last: number) =>
      signDelivery({ secret, body: Uint8Array.of(0x7b, 0x7d, last), id: "evt_1", timestampSeconds: 1 });
    expect(sign(0xff).sha256).not.toBe(sign(0xfe).sha256);
    expect(sign(0xff).v1).not.toBe(sign(0xfe).v1);
  });

  it.each(["", "evt.1"])("rejects the id %j, which would make the signed text ambiguous", (id) => {
    expect(() => signDelivery({ secret, body: Buffer.from("{}"), id, timestampSeconds: 1 })).toThrow(
      TypeError,
    );
  });

  it.each([-1, 1.5, Number.NaN, Infinity])("rejects the timestamp %d", (timestampSeconds) => {
    expect(() => signDelivery({ secret, body: Buffer.from("{}"), id: "evt_1", timestampSeconds })).toThrow(
      TypeError,
    );
  });
});

describe("secrets", () => {
  it("are whsec_ and the base64 of 32 random bytes", () => {
    const generated = generateSecret((size) => new Uint8Array(size).fill(7));
    expect(generated).toBe(`whsec_${Buffer.alloc(32, 7).toString("base64")}`);
    expect(Buffer.from(decodeSecret(generated))).toEqual(Buffer.alloc(32, 7));
  });

  it.each([
    "",
    "whsec_",
    "whsec_AAAA",
    Buffer.alloc(32).toString("base64"),
    `whsec_${Buffer.alloc(23).toString("base64")}`,
    `whsec_${Buffer.alloc(65).toString("base64")}`,
    `WHSEC_${Buffer.alloc(32).toString("base64")}`,
    `whsec_${Buffer.alloc(32).toString("base64url")}`,
    ` whsec_${Buffer.alloc(32).toString("base64")}`,
    `whsec_${Buffer.alloc(32).toString("base64")}\n`,
    `whsec_${Buffer.alloc(32).toString("base64").slice(0, -2)}B=`,
  ])("%j is not a secret: anyone could sign with an empty or corrupt key", (text) => {
    expect(() => decodeSecret(text)).toThrow(TypeError);
    expect(() =>
      signDelivery({ secret: text, body: Buffer.from("{}"), id: "e", timestampSeconds: 1 }),
    ).toThrow(TypeError);
  });
});
