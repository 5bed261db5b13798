/** RFC 7009: a client ends its own tokens, and learns nothing of others'. */
import { beforeEach, expect, test } from "vitest";
import { type Answer, useTestApi } from "../support/api.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, bearer, provision, type Provisioned } from "../support/factories.ts";
import { sql } from "../support/tenant.ts";

const api = useTestApi({ environment: { SIGNET_TOKEN_RATE_PER_ADDRESS: "10000" } });
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

test("a token ends, the client's others do not, and the compliance log says so", async () => {
  const other = await accessToken(api, client);
  const answer = await revoke({ token });
  expect(answer).toMatchObject({ status: 200, text: "" });
  expect(answer.headers.get("cache-control")).toBe("no-store");
  // Whoever has the answer need not wait: it is obeyed everywhere.
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

test("a token that was revoked before is answered alike, and is revoked once (section 2.2)", async () => {
  for (const hint of ["access_token", "refresh_token", "something"]) {
    expect(await revoke({ token, token_type_hint: hint })).toMatchObject({ status: 200, text: "" });
  }
  expect(await revocations()).toHaveLength(1);
});

test("JSON and Basic authentication do as well as a form", async () => {
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

test("a token of another client, a forged, an expired and no token at all get the same answer, and nothing happens", async () => {
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
])("%s it is refused", async (_name, parameters, status, error) => {
  expect(await revoke(parameters)).toMatchObject({ status, body: { error } });
});

test("a token in the query is refused, and a secret there too", async () => {
  const answer = await api.request(`/v1/auth/revoke?token=${token}`, {
    method: "POST",
    body: new URLSearchParams({ client_id: client.clientId, client_secret: client.clientSecret }),
  });
  expect(answer).toMatchObject({ status: 400, body: { error: "invalid_request" } });
  expect(await uses(token)).toBe("admitted");
});
