/** A suspended tenant gets no new tokens, and every process rejects its existing ones, until it is resumed. */
import { expect, test } from "vitest";
import { useSharedApi } from "#test/support/api.ts";
import { accessToken, bearer, grant, provision } from "#test/support/factories.ts";
import { eventually } from "#test/support/eventually.ts";
import { sql } from "#test/support/tenant.ts";

const api = useSharedApi();

test("gets no token until it is resumed, without effect on others", async () => {
  const suspended = await provision(api);
  const other = await provision(api);
  const answer = await api.admin("POST", `/tenants/${suspended.tenantId}/suspend`, { reason: "unpaid" });
  expect(answer).toMatchObject({ status: 200, body: { id: suspended.tenantId, state: "SUSPENDED" } });
  expect(await api.token(grant(suspended))).toMatchObject({ status: 401, body: { error: "invalid_client" } });
  expect(await api.token(grant(other))).toMatchObject({ status: 200 });
  const resumed = await api.admin("POST", `/tenants/${suspended.tenantId}/resume`, {});
  expect(resumed).toMatchObject({ status: 200, body: { state: "ACTIVE" } });
  expect(await api.token(grant(suspended))).toMatchObject({ status: 200 });
  expect((await api.admin("POST", `/tenants/${suspended.tenantId}/resume`, {})).text).toBe(resumed.text);
});

test("that is resumed at once gets valid tokens, and its old ones stay revoked", async () => {
  const tenant = await provision(api);
  const old = await accessToken(api, tenant);
  const use = async (token: string) => await api.request("/v1/credentials", { headers: bearer(token) });
  for (const what of ["suspend", "revoke"]) {
    await api.admin("POST", `/tenants/${tenant.tenantId}/${what}`);
    await api.admin("POST", `/tenants/${tenant.tenantId}/resume`, {});
    expect(await use(await accessToken(api, tenant))).toMatchObject({ status: 200 });
    expect(await use(old)).toMatchObject({ status: 401, body: { code: "TOKEN_REVOKED" } });
  }
  await api.admin("POST", `/tenants/${tenant.tenantId}/suspend`);
  expect(await api.token(grant(tenant))).toMatchObject({ status: 401 });
});

test("has its existing tokens rejected", async () => {
  const suspended = await provision(api);
  const other = await provision(api);
  const [token, others] = [await accessToken(api, suspended), await accessToken(api, other)];
  const use = async (bearerToken: string) =>
    await api.request("/v1/credentials", { headers: bearer(bearerToken) });
  expect(await use(token)).toMatchObject({ status: 200 });
  await api.admin("POST", `/tenants/${suspended.tenantId}/suspend`);
  const refused = await eventually(async () => {
    const answer = await use(token);
    return answer.status === 401 && answer;
  }, "the token to be rejected");
  expect(refused.body).toMatchObject({ code: "TOKEN_REVOKED" });
  expect(await use(others)).toMatchObject({ status: 200 });
});

test("has its tokens revoked once per suspension", async () => {
  const { tenantId } = await provision(api);
  const revocations = async (): Promise<readonly unknown[]> =>
    await sql(
      api,
      "SELECT reason FROM revocations WHERE kind = 'tenant' AND target = $1 AND issued_before IS NULL ORDER BY seq",
      [tenantId],
    );
  const suspend = async (reason: string) =>
    await api.admin("POST", `/tenants/${tenantId}/suspend`, { reason });
  await suspend("first");
  expect(await suspend("again")).toMatchObject({ status: 200, body: { state: "SUSPENDED" } });
  expect(await revocations()).toEqual([{ reason: "first" }]);
  await api.admin("POST", `/tenants/${tenantId}/resume`, {});
  await suspend("second");
  expect(await revocations()).toEqual([{ reason: "first" }, { reason: "second" }]);
});

test.each(["suspend", "resume"])("that does not exist cannot be %sed", async (what) => {
  const path = `/tenants/ten_000000000000000000000000/${what}`;
  expect(await api.admin("POST", path, {})).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
});
