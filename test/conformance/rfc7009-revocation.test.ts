/** RFC 7009: a client revokes its own tokens and learns nothing about others'. */
import { beforeEach, expect, test } from "vitest";
import { type Answer, useSharedApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "../support/factories.ts";
import { sql } from "../support/tenant.ts";

const api = useSharedApi();
let client: Provisioned;
let token: string;

beforeEach(async () => {
  client = await provision(api);
  token = await accessToken(api, client);
});

async function revoke(parameters: Record<string, string>, as: Provisioned = client): Promise<Answer> {
  return await api.request("/v1/auth/revoke", {
    method: "POST",
    body: new URLSearchParams({
      client_id: as.clientId,
      client_secret: as.clientSecret,
      ...parameters,
    }),
  });
}

async function uses(access: string): Promise<unknown> {
  const { status, body } = await api.request("/v1/credentials", { headers: bearer(access) });
  return status === 200 ? "admitted" : body["code"];
}

async function revocations(): Promise<readonly unknown[]> {
  return await sql(api, "SELECT kind, tenant_id, actor FROM revocations WHERE tenant_id = $1", [
    client.tenantId,
  ]);
}

test("revoking one token leaves the client's others valid and is logged", async () => {
  const other = await accessToken(api, client);
  const answer = await revoke({ token });
  expect(answer).toMatchObject({ status: 200, text: "" });
  expect(answer.headers.get("cache-control")).toBe("no-store");
  // The answer means that every process has applied the revocation.
  expect(await uses(token)).toBe("TOKEN_REVOKED");
  expect(await uses(other)).toBe("admitted");
  expect(await revocations()).toEqual([
    { kind: "jti", tenant_id: client.tenantId, actor: `credential:${client.credentialId}` },
  ]);
  const logged = await sql(api, "SELECT type FROM clog WHERE tenant_id = $1 AND type = 'token.revoked'", [
    client.tenantId,
  ]);
  expect(logged).toHaveLength(1);
  await eventually(async () => {
    const receipts = await sql(
      api,
      "SELECT FROM clog WHERE tenant_id = $1 AND type = 'revocation.propagated'",
      [client.tenantId],
    );
    return receipts.length === 1;
  }, "the receipt in the log");
});

test("revoking a token again gives the same answer and has no further effect (section 2.2)", async () => {
  for (const hint of ["access_token", "refresh_token", "something"]) {
    expect(await revoke({ token, token_type_hint: hint })).toMatchObject({ status: 200, text: "" });
  }
  expect(await revocations()).toHaveLength(1);
});

test("JSON and Basic authentication work as well as a form", async () => {
  const answer = await api.request("/v1/auth/revoke", {
    method: "POST",
    headers: {
      authorization: `Basic ${Buffer.from(`${client.clientId}:${client.clientSecret}`).toString("base64")}`,
      "content-type": "application/json",
    },
    body: JSON.stringify({ token }),
  });
  expect(answer).toMatchObject({ status: 200, text: "" });
  expect(await revocations()).toHaveLength(1);
});

test("another client's, a forged, an expired and a missing token all get the same answer, without effect", async () => {
  const stranger = await provision(api);
  const theirs = await accessToken(api, stranger);
  for (const foreign of [theirs, `${token.slice(0, -8)}AAAAAAAA`, "x", "a.b.c"]) {
    expect(await revoke({ token: foreign })).toMatchObject({ status: 200, text: "" });
  }
  expect(await uses(theirs)).toBe("admitted");
  expect(
    await sql(api, "SELECT FROM revocations WHERE tenant_id IN ($1, $2)", [
      client.tenantId,
      stranger.tenantId,
    ]),
  ).toEqual([]);
});

test.each([
  ["without a token", {}, 400, "invalid_request"],
  ["with a wrong secret", { token: "x", client_secret: "wrong" }, 401, "invalid_client"],
])("a request %s is rejected", async (_name, parameters, status, error) => {
  expect(await revoke(parameters)).toMatchObject({ status, body: { error } });
});

test("a token or a secret in the query is rejected", async () => {
  const answer = await api.request(`/v1/auth/revoke?token=${token}`, {
    method: "POST",
    body: new URLSearchParams({ client_id: client.clientId, client_secret: client.clientSecret }),
  });
  expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
  expect(await uses(token)).toBe("admitted");
});
