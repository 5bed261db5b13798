/** Every POST takes an Idempotency-Key, including those with several transactions or none. */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useSharedApi } from "#test/support/api.ts";
import {
  createEndpoint,
  createTenant,
  expectRefusal,
  type Json,
  sql,
  type Tenant,
} from "#test/support/tenant.ts";

const api = useSharedApi();
/** RFC 6749, 7009 and 7662 define these; repeats get a new answer, and revoking twice is harmless. */
const OAUTH = ["/v1/auth/introspect", "/v1/auth/revoke", "/v1/auth/token"];
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api);
});

const isReplay = ({ headers }: Answer): boolean => headers.get("idempotent-replayed") === "true";
const withKey = (key: string): Record<string, string> => ({ "idempotency-key": key });

function postsWithoutKey(description: Json): string[] {
  const paths = description["paths"] as Record<string, { post?: { parameters?: { name: string }[] } }>;
  const posts = Object.entries(paths).filter(([, { post }]) => post !== undefined);
  expect(posts.length).toBeGreaterThan(3);
  return posts
    .filter(([, { post }]) => !(post?.parameters ?? []).some(({ name }) => name === "idempotency-key"))
    .map(([path]) => path)
    .sort();
}

test("every POST of the tenants' API except the OAuth endpoints declares the header", async () => {
  expect(postsWithoutKey((await api.request("/openapi.json")).body)).toEqual(OAUTH);
});

test("every POST of the operators' API declares the header", async () => {
  expect(postsWithoutKey((await api.admin("GET", "/openapi.json")).body)).toEqual([]);
});

describe("a POST with its own transaction", () => {
  let path: string;
  const setState = async (state: string): Promise<unknown> =>
    await sql(api, "UPDATE endpoints SET state = $2 WHERE tenant_id = $1", [tenant.tenantId, state]);

  beforeAll(async () => {
    const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
    path = `/v1/webhooks/endpoints/${id}/verify`;
  });

  test("gets the same answer when sent again with its key, and does not run again", async () => {
    const key = randomUUID();
    const first = await tenant.post(path, undefined, withKey(key));
    expect(first).toMatchObject({ status: 202, body: { state: "PENDING" } });
    await setState("ACTIVE");
    const second = await tenant.post(path, undefined, withKey(key));
    expect(second).toMatchObject({ status: 202, text: first.text });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(second.headers.get("content-type")).toBe(first.headers.get("content-type"));
    expectRefusal(await tenant.post(path), 409, "INVALID_STATE");
    await setState("PENDING");
  });

  test("is rejected with the key of another request", async () => {
    const key = randomUUID();
    const { id } = await createEndpoint(api, tenant, { state: "PENDING" });
    expect(await tenant.post(path, undefined, withKey(key))).toMatchObject({ status: 202 });
    const other = await tenant.post(`/v1/webhooks/endpoints/${id}/verify`, undefined, withKey(key));
    expectRefusal(other, 409, "IDEMPOTENCY_KEY_REUSED");
  });

  test("leaves its key free when it is rejected", async () => {
    const key = randomUUID();
    await setState("ACTIVE");
    expectRefusal(await tenant.post(path, undefined, withKey(key)), 409, "INVALID_STATE");
    await setState("PENDING");
    expect(await tenant.post(path, undefined, withKey(key))).toMatchObject({ status: 202 });
  });

  test("is a separate request when another tenant sends the same key", async () => {
    const key = randomUUID();
    expect(await tenant.post(path, undefined, withKey(key))).toMatchObject({ status: 202 });
    const stranger = await createTenant(api);
    expectRefusal(await stranger.post(path, undefined, withKey(key)), 404, "NOT_FOUND");
  });

  test("is a CONFLICT while the first one is running, and runs again after a minute without an answer", async () => {
    const key = randomUUID();
    const send = async (): Promise<Answer> => await tenant.post(path, undefined, withKey(key));
    const first = await send();
    const change = async (what: string): Promise<unknown> =>
      await sql(api, `UPDATE idempotent_answers SET ${what} WHERE owner_id = $1`, [tenant.tenantId]);
    await change("answer = NULL");
    expectRefusal(await send(), 409, "CONFLICT");
    await change("created_at = created_at - interval '1 minute'");
    const again = await send();
    expect(again).toMatchObject({ status: 202 });
    expect(isReplay(again)).toBe(false);
    expect((await send()).text).toBe(again.text);
    expect(first).toMatchObject({ status: 202 });
  });
});

test("a revocation sent again with its key gets the same answer", async () => {
  const own = await createTenant(api, ["credentials:write", "credentials:revoke"]);
  const made = await own.post("/v1/credentials", {});
  const path = `/v1/credentials/${String(made.body["id"])}/revoke`;
  const [first, second] = [
    await own.post(path, { reason: "lost" }, withKey("r")),
    await own.post(path, { reason: "lost" }, withKey("r")),
  ];
  expect(first).toMatchObject({ status: 200 });
  expect(second).toMatchObject({ status: 200, text: first.text });
  expect(isReplay(second)).toBe(true);
});
