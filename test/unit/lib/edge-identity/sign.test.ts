/** The edge's HMAC-SHA-256 matches published vectors and Node's own. */
import { createHmac, createSecretKey } from "node:crypto";
import { assert, oneof, property, string, uint8Array } from "fast-check";
import { expect, test } from "vitest";
import { createHexMac, createIdentitySigner } from "#lib/edge-identity/sign.ts";

const macOf = (key: Uint8Array, text: string) => createHexMac(createSecretKey(key))(text);

// RFC 4231 sections 4.2, 4.3, 4.7 and 4.8.
test.each([
  [Buffer.alloc(20, 0x0b), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
  [
    Buffer.from("Jefe"),
    "what do ya want for nothing?",
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  ],
  [
    Buffer.alloc(131, 0xaa),
    "Test Using Larger Than Block-Size Key - Hash Key First",
    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
  ],
  [
    Buffer.alloc(131, 0xaa),
    "This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
    "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
  ],
])("published vector of %#", (key, text, mac) => {
  expect(macOf(key, text)).toBe(mac);
});

test("any key and any text, even beyond ASCII, give Node's result", () => {
  const texts = oneof(string({ unit: "binary", maxLength: 300 }), string({ maxLength: 10_000 }));
  assert(
    property(uint8Array({ minLength: 1, maxLength: 200 }), texts, (key, text) => {
      expect(macOf(key, text)).toBe(createHmac("sha256", key).update(text).digest("hex"));
    }),
  );
});

test("two requests with one token differ in their ids, two tokens in their callers", () => {
  const sign = createIdentitySigner(createSecretKey(Buffer.alloc(32, 1)));
  const caller = { tenantId: "ten_1", principalId: "prn_1", scopes: new Set(["a:b", "c:d"]), region: 'e"u' };
  const request = { method: "GET", target: "/", iat: 1_763_650_000 };
  const read = (from: typeof caller, requestId: string): unknown =>
    JSON.parse(
      Buffer.from(sign(from, { ...request, requestId })["x-signet-identity"], "base64url").toString(),
    );
  const common = { principal: "prn_1", scope: "a:b c:d", region: 'e"u', iat: 1_763_650_000 };
  expect(read(caller, "req_1")).toEqual({ tenant: "ten_1", ...common, request_id: "req_1" });
  expect(read(caller, "req_2")).toEqual({ tenant: "ten_1", ...common, request_id: "req_2" });
  expect(read({ ...caller, tenantId: "ten_2" }, "req_3")).toEqual({
    tenant: "ten_2",
    ...common,
    request_id: "req_3",
  });
});
