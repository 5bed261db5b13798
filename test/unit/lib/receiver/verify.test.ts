import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { VerificationError } from "#lib/receiver/errors.ts";
import type { HeaderSource } from "#lib/receiver/headers.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { verify } from "#lib/receiver/verify.ts";
import vectors from "#test/support/vectors/signatures.json" with { type: "json" };

interface Vector {
  readonly name: string;
  readonly secrets: readonly string[];
  readonly now_seconds: number;
  readonly body_base64: string;
  readonly headers: HeaderSource;
}

function run(vector: Vector) {
  return verify({
    rawBody: Buffer.from(vector.body_base64, "base64"),
    headers: vector.headers,
    secrets: vector.secrets,
    now: vector.now_seconds * 1000,
  });
}

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof VerificationError) {
      return error.code;
    }
    throw error;
  }
  return "accepted";
}

const secret = generateSecret(randomBytes);
const NOW_SECONDS = 1_763_650_000;

function delivery(options: { brand?: string; sentAt?: number } = {}) {
  const sentAt = options.sentAt ?? NOW_SECONDS;
  const rawBody = Buffer.from(JSON.stringify({ id: "evt_1", sent_at: sentAt, data: {} }));
  const { sha256, v1 } = signDelivery({ secret, body: rawBody, id: "evt_1", timestampSeconds: sentAt });
  const brand = options.brand ?? "Service";
  const headers: Record<string, string> = {
    [`X-${brand}-Signature-256`]: sha256,
    [`X-${brand}-Timestamp`]: String(sentAt),
    "webhook-id": "evt_1",
    "webhook-timestamp": String(sentAt),
    "webhook-signature": v1,
  };
  return { rawBody, headers, secrets: [secret], now: NOW_SECONDS * 1000 };
}

describe("verify", () => {
  it.each(vectors.accepted)("accepts: $name", (vector) => {
    expect(run(vector)).toMatchObject(vector.expect);
  });

  it.each(vectors.refused)("rejects: $name", (vector) => {
    // The union of the vectors' header shapes has optional members with null-free values only.
    expect(codeOf(() => run(vector as Vector))).toBe(vector.expect.code);
  });

  it("returns the parsed body", () => {
    expect(verify(delivery()).payload).toEqual({ id: "evt_1", sent_at: NOW_SECONDS, data: {} });
  });

  it("also reads Fetch headers", () => {
    const input = delivery();
    expect(verify({ ...input, headers: new Headers(input.headers) }).id).toBe("evt_1");
  });

  it("rejects a header that Fetch joined from two", () => {
    const input = delivery();
    const headers = new Headers(input.headers);
    headers.append("X-Service-Timestamp", String(NOW_SECONDS));
    expect(codeOf(() => verify({ ...input, headers }))).toBe("HEADERS_MALFORMED");
  });

  it("uses another brand in the header names only when configured", () => {
    const input = delivery({ brand: "Acme" });
    const { "webhook-signature": _v1, ...headers } = input.headers;
    expect(verify({ ...input, headers, headerBrand: "Acme" }).scheme).toBe("sha256");
    expect(codeOf(() => verify({ ...input, headers }))).toBe("HEADERS_MALFORMED");
  });

  it("measures age in whole seconds: a payload is valid during its 300th second and not after", () => {
    const input = delivery();
    expect(verify({ ...input, now: (NOW_SECONDS + 300) * 1000 + 999 }).id).toBe("evt_1");
    expect(codeOf(() => verify({ ...input, now: (NOW_SECONDS + 301) * 1000 }))).toBe("PAYLOAD_EXPIRED");
  });

  it("accepts another tolerance, zero included", () => {
    const input = { ...delivery(), toleranceSeconds: 0, futureSeconds: 0 };
    expect(verify(input).id).toBe("evt_1");
    expect(codeOf(() => verify({ ...input, now: input.now + 1000 }))).toBe("PAYLOAD_EXPIRED");
    expect(codeOf(() => verify({ ...input, now: input.now - 1000 }))).toBe("TIMESTAMP_MISMATCH");
  });

  it("accepts nothing when the clock is invalid", () => {
    expect(codeOf(() => verify({ ...delivery(), now: Number.NaN }))).toBe("PAYLOAD_EXPIRED");
  });

  it("reports a missing or empty secret and a parsed body as the caller's mistakes", () => {
    const input = delivery();
    expect(() => verify({ ...input, secrets: [] })).toThrow(TypeError);
    expect(() => verify({ ...input, secrets: [""] })).toThrow(TypeError);
    const text = input.rawBody.toString() as unknown as Uint8Array;
    expect(() => verify({ ...input, rawBody: text })).toThrow(TypeError);
  });

  it("accepts no delivery with a changed byte in body or signature", () => {
    const input = delivery();
    const { "webhook-signature": _v1, ...headers } = input.headers;
    const signature = headers["X-Service-Signature-256"] ?? "";
    fc.assert(
      fc.property(fc.nat(input.rawBody.length - 1), fc.integer({ min: 1, max: 255 }), (at, mask) => {
        const rawBody = Buffer.from(input.rawBody);
        rawBody[at] = (rawBody[at] ?? 0) ^ mask;
        expect(codeOf(() => verify({ ...input, headers, rawBody }))).toBe("SIGNATURE_INVALID");
      }),
    );
    fc.assert(
      fc.property(
        fc.nat(signature.length - 1),
        fc.string({ unit: "binary-ascii", maxLength: 2 }),
        (at, text) => {
          const changed = signature.slice(0, at) + text + signature.slice(at + 1);
          fc.pre(changed !== signature);
          const code = codeOf(() =>
            verify({ ...input, headers: { ...headers, "X-Service-Signature-256": changed } }),
          );
          expect(["HEADERS_MALFORMED", "SIGNATURE_INVALID"]).toContain(code);
        },
      ),
    );
  });

  it("rejects headers of the wrong type or origin", () => {
    const input = delivery();
    expect(codeOf(() => verify({ ...input, headers: {} }))).toBe("HEADERS_MALFORMED");
    const inherited = Object.create(input.headers) as Record<string, string>;
    expect(codeOf(() => verify({ ...input, headers: inherited }))).toBe("HEADERS_MALFORMED");
  });
});
