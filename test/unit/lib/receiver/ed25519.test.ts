import { createPublicKey, verify as verifyBytes } from "node:crypto";
import { Webhook } from "standardwebhooks";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Signer } from "#webhooks/sending/signer.ts";
import { publicKeyOf, signAsymmetric, verifyAsymmetric } from "#lib/receiver/ed25519.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { verify } from "#lib/receiver/verify.ts";

/** RFC 8032, 7.1, test 2: a message of one byte. */
const RFC_SEED = Buffer.from("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb", "hex");
const RFC_PUBLIC = Buffer.from("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "hex");

const seeds = [1, 2].map((byte) => Buffer.alloc(32, byte));
const [current, next] = seeds.map(publicKeyOf) as [string, string];
const secret = generateSecret((size) => new Uint8Array(size).fill(3));
const timestampSeconds = 1_763_650_000;
const body = Buffer.from(JSON.stringify({ id: "evt_1", sent_at: timestampSeconds }));
const message = { id: "evt_1", timestamp: String(timestampSeconds), body };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: timestampSeconds * 1_000 });
});
afterEach(() => {
  vi.useRealTimers();
});

function headersWith(signingKeys: readonly Uint8Array[]): Record<string, string> {
  return new Signer({ headerBrand: "Service", docsUrl: "https://signet.example/docs" }).headers({
    secret,
    signingKeys,
    body,
    eventId: "evt_1",
    eventType: "a.b",
    deliveryId: "dlv_1",
    attempt: 1,
    timestampSeconds,
  });
}

const accept = (key: string, headers: Record<string, string>): string =>
  verify({ rawBody: body, headers, secrets: [key], now: timestampSeconds * 1_000 }).scheme;

describe("an Ed25519 signature", () => {
  it("uses the keys of RFC 8032", () => {
    expect(publicKeyOf(RFC_SEED)).toBe(`whpk_${RFC_PUBLIC.toString("base64")}`);
  });

  it("is v1a and covers id, time and body, separated by dots (Standard Webhooks)", () => {
    const value = signAsymmetric(RFC_SEED, message);
    expect(value).toMatch(/^v1a,[A-Za-z0-9+/]{86}==$/);
    const key = createPublicKey({
      key: { kty: "OKP", crv: "Ed25519", x: RFC_PUBLIC.toString("base64url") },
      format: "jwk",
    });
    const signed = Buffer.from(`evt_1.${timestampSeconds}.${body.toString()}`);
    expect(verifyBytes(null, signed, key, Buffer.from(value.slice(4), "base64"))).toBe(true);
  });

  it.each(["id", "timestamp", "body"] as const)("does not hold for another %s", (member) => {
    const value = signAsymmetric(RFC_SEED, message);
    const other = { ...message, [member]: member === "body" ? Buffer.from("{}") : "1" };
    expect(verifyAsymmetric(publicKeyOf(RFC_SEED), message, value)).toBe(true);
    expect(verifyAsymmetric(publicKeyOf(RFC_SEED), other, value)).toBe(false);
  });
});

describe("a delivery with Ed25519 signatures", () => {
  it("is accepted with either public key or the secret, by the stock library too", () => {
    const headers = headersWith(seeds);
    expect([current, next, secret].map((key) => accept(key, headers))).toEqual(["v1a", "v1a", "v1"]);
    expect(new Webhook(secret).verify(body, headers)).toMatchObject({ id: "evt_1" });
    expect(headers["X-Service-Signature-256"]).toMatch(/^sha256=/);
    expect(headers).not.toHaveProperty("X-Service-Signature-256-Alt");
  });

  it("is rejected with another public key, or without these signatures", () => {
    const stranger = publicKeyOf(Buffer.alloc(32, 9));
    expect(() => accept(stranger, headersWith(seeds))).toThrow("no signature matches");
    expect(() => accept(current, headersWith([]))).toThrow("no signature matches");
  });

  it("is rejected when truncated, while a corrupt public key is a configuration error", () => {
    const headers = headersWith([seeds[0] as Buffer]);
    const cut = { ...headers, "webhook-signature": (headers["webhook-signature"] ?? "").slice(0, -3) };
    expect(() => accept(current, cut)).toThrow("no signature matches");
    expect(() => accept(current.slice(0, -2), headers)).toThrow(TypeError);
    expect(() => accept(`${current.slice(0, -2)}B=`, headersWith([]))).toThrow(TypeError);
  });

  it("does not repeat the secret's signatures while only the keys rotate", () => {
    const one = headersWith(seeds)["webhook-signature"] ?? "";
    expect(one.split(" ").map((value) => value.split(",")[0])).toEqual(["v1", "v1a", "v1a"]);
  });
});
