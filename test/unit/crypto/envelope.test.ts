import { createSecretKey, randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { EnvelopeError, envelopeAad, namedKey, openEnvelope, sealEnvelope } from "#crypto/envelope.ts";

const key = namedKey(randomBytes(32));
const aad = envelopeAad("endpoint_secrets", "ten_a", "ep_b", 1);
const seal = (text: string | Uint8Array) => sealEnvelope(key, aad, text, randomBytes);

test("a sealed value opens, byte for byte", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(openEnvelope(key, aad, seal(bytes))).toEqual(Buffer.from(bytes));
    }),
  );
});

test("an envelope names its version and its key, and never repeats", () => {
  const [version, keyId, iv] = seal("secret").split(".");
  expect(version).toBe("v1");
  expect(keyId).toBe(key.id);
  expect(seal("secret").split(".")[2]).not.toBe(iv);
});

test("an envelope opens only in its place", () => {
  const envelope = seal("secret");
  for (const elsewhere of [
    envelopeAad("endpoint_secrets", "ten_x", "ep_b", 1),
    envelopeAad("endpoint_secrets", "ten_a", "ep_x", 1),
    envelopeAad("endpoint_secrets", "ten_a", "ep_b", 2),
    envelopeAad("signing_keys", "ten_a", "ep_b", 1),
  ]) {
    expect(() => openEnvelope(key, elsewhere, envelope)).toThrow(EnvelopeError);
  }
});

test("an envelope does not open with another key of the same name", () => {
  const other = randomBytes(32);
  expect(() => openEnvelope(namedKey(other), aad, seal("secret"))).toThrow(/sealed with key/);
  expect(() => openEnvelope({ id: key.id, key: createSecretKey(other) }, aad, seal("secret"))).toThrow(
    EnvelopeError,
  );
});

test("a change of any part is detected", () => {
  const parts = seal("a secret of some length").split(".");
  for (const index of [2, 3, 4]) {
    const bytes = Buffer.from(parts[index] ?? "", "base64url");
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    const changed = parts.with(index, bytes.toString("base64url")).join(".");
    expect(() => openEnvelope(key, aad, changed)).toThrow(EnvelopeError);
  }
});

test.each(["", "v1", "v2.a.b.c.d", "v1.a.b.c", "v1.a.b.c.d.e", "plain text"])(
  "%j is not an envelope",
  (text) => {
    expect(() => openEnvelope(key, aad, text)).toThrow(EnvelopeError);
  },
);

test("a truncated tag is rejected", () => {
  const parts = seal("secret").split(".");
  const tag = Buffer.from(parts[3] ?? "", "base64url")
    .subarray(0, 4)
    .toString("base64url");
  expect(() => openEnvelope(key, aad, parts.with(3, tag).join("."))).toThrow(EnvelopeError);
});
