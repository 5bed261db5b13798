import { expect, test } from "vitest";
import { principalKey, signedKey, sourceKey } from "#database/repositories/idempotency.ts";

const ROUTE = "POST /v1/events";
const OWNER = { tenantId: "ten_1", principalId: "prn_1", credentialId: "crd_1" };

test("each principal, route and kind of key has keys of its own", () => {
  const places = [
    principalKey(OWNER, ROUTE, "a"),
    principalKey({ ...OWNER, principalId: "prn_2" }, ROUTE, "a"),
    principalKey({ ...OWNER, tenantId: "ten_2" }, ROUTE, "a"),
    principalKey(OWNER, "POST /v1/webhooks/endpoints", "a"),
    principalKey(OWNER, ROUTE, "b"),
    signedKey(OWNER, ROUTE, "a"),
    signedKey({ ...OWNER, credentialId: "crd_2" }, ROUTE, "a"),
    sourceKey(OWNER.tenantId, ROUTE, { tenantId: "ten_1", id: "a" }),
    sourceKey(OWNER.tenantId, ROUTE, { tenantId: "ten_2", id: "a" }),
  ].map(({ tenantId, route, key }) => [tenantId, route, key].join("\n"));
  expect(new Set(places).size).toBe(places.length);
});

test("an Idempotency-Key, which opens answers with secrets, is stored as a digest of key and principal", () => {
  const { key } = principalKey(OWNER, ROUTE, "order-1");
  expect(key).not.toContain("order-1");
  expect(key).not.toBe(principalKey({ ...OWNER, principalId: "prn_2" }, ROUTE, "order-1").key);
});
