/** An upstream trusts only the edge, for this request and only now. */
import { createHmac, createSecretKey, randomBytes } from "node:crypto";
import { expect, test } from "vitest";
import { createIdentitySigner } from "#lib/edge-identity/sign.ts";
import { createEdgeIdentityVerifier, type EdgeIdentityError } from "#lib/edge-identity/verify.ts";

const NOW = 1_763_650_000;
const KEY = randomBytes(32).toString("base64");
const OLD_KEY = randomBytes(32).toString("base64");
const IDENTITY = {
  tenant: "ten_1",
  principal: "prn_1",
  scope: "inference:read",
  region: "eu",
  request_id: "req_1",
  iat: NOW,
};
const REQUEST = { method: "POST", target: "/v1/inference/small?a=1" };

const keyOf = (key: string) => createSecretKey(Buffer.from(key, "base64"));
const macOf = (value: string) =>
  createHmac("sha256", Buffer.from(KEY, "base64"))
    .update(`${value}\nPOST\n/v1/inference/small?a=1`)
    .digest("hex");
function headersOf(identity: Partial<typeof IDENTITY> = {}, key = KEY, request = REQUEST) {
  const { tenant, principal, scope, region, request_id: requestId, iat } = { ...IDENTITY, ...identity };
  const scopes = new Set(scope.split(" "));
  const caller = { tenantId: tenant, principalId: principal, scopes, region };
  return createIdentitySigner(keyOf(key))(caller, { ...request, requestId, iat });
}
/** Returns headers that the edge would never write, with a valid signature. */
function signedAsIs(members: object) {
  const value = Buffer.from(JSON.stringify({ ...IDENTITY, ...members })).toString("base64url");
  return { "x-signet-identity": value, "x-signet-identity-signature": `v1=${macOf(value)}` };
}
const incoming = (headers: object, more: object = {}) => ({
  method: REQUEST.method,
  url: REQUEST.target,
  headers: headers as Record<string, string>,
  ...more,
});
const verifier = (keys = [KEY], now = NOW) => createEdgeIdentityVerifier({ keys, now: () => now * 1_000 });

function refusal(request: ReturnType<typeof incoming>, verify = verifier()): string {
  try {
    verify(request);
    return "believed";
  } catch (error) {
    return (error as EdgeIdentityError).code;
  }
}

test("the signature matches the documentation", () => {
  const headers = headersOf();
  const value = Buffer.from(JSON.stringify(IDENTITY)).toString("base64url");
  expect(headers).toEqual({
    "x-signet-identity": value,
    "x-signet-identity-signature": `v1=${macOf(value)}`,
  });
  expect(verifier()(incoming(headers))).toEqual(IDENTITY);
});

test.each([
  ["another method", incoming(headersOf(), { method: "GET" }), "SIGNATURE_INVALID"],
  ["another path", incoming(headersOf(), { url: "/v1/inference/large?a=1" }), "SIGNATURE_INVALID"],
  ["another query", incoming(headersOf(), { url: "/v1/inference/small?a=2" }), "SIGNATURE_INVALID"],
  ["another key", incoming(headersOf(IDENTITY, OLD_KEY)), "SIGNATURE_INVALID"],
  ["no headers", incoming({}), "IDENTITY_MISSING"],
  [
    "no signature",
    incoming({ ...headersOf(), "x-signet-identity-signature": undefined }),
    "IDENTITY_MISSING",
  ],
  [
    "a bare signature",
    incoming({ ...headersOf(), "x-signet-identity-signature": "00" }),
    "SIGNATURE_INVALID",
  ],
  [
    "two signatures",
    incoming({ ...headersOf(), "x-signet-identity-signature": ["v1=0", "v1=1"] }),
    "IDENTITY_MISSING",
  ],
  [
    "another identity",
    incoming({
      ...headersOf(),
      "x-signet-identity": headersOf({ ...IDENTITY, tenant: "ten_2" })["x-signet-identity"],
    }),
    "SIGNATURE_INVALID",
  ],
  ["an identity without a tenant", incoming(signedAsIs({ tenant: undefined })), "IDENTITY_MALFORMED"],
  ["an identity without a time", incoming(signedAsIs({ iat: "now" })), "IDENTITY_MALFORMED"],
])("rejects: %s", (_name, request, code) => {
  expect(refusal(request)).toBe(code);
});

test("an identity lasts 30 seconds, and may be up to 5 ahead", () => {
  const request = incoming(headersOf());
  const at = (now: number) => refusal(request, verifier([KEY], now));
  expect([at(NOW - 6), at(NOW - 5), at(NOW + 30), at(NOW + 31)]).toEqual([
    "IDENTITY_EXPIRED",
    "believed",
    "believed",
    "IDENTITY_EXPIRED",
  ]);
});

test("both keys are valid during a replacement", () => {
  const verify = verifier([KEY, OLD_KEY]);
  expect(refusal(incoming(headersOf(IDENTITY, OLD_KEY)), verify)).toBe("believed");
  expect(refusal(incoming(headersOf()), verify)).toBe("believed");
});

test("invalid keys are reported", () => {
  expect(() => createEdgeIdentityVerifier({ keys: [] })).toThrow(TypeError);
  expect(() => createEdgeIdentityVerifier({ keys: ["short"] })).toThrow(TypeError);
});
