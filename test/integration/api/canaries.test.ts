/** Checks that secrets planted in every part of a request never reach the log. */
import { expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { execute } from "#test/support/test-database.ts";
import { accessToken, bearer, grant, provision } from "#test/support/factories.ts";

const api = useTestApi();

test("no secret, token or operator token reaches the log, even at the most verbose level", async () => {
  const client = await provision(api);
  const token = await accessToken(api, client);
  const { clientSecret } = client;
  const basic = Buffer.from(`${client.clientId}:${clientSecret}`).toString("base64");
  const post = { method: "POST", headers: { "content-type": "application/json" } };

  await api.token(grant({ ...client, clientSecret: clientSecret.replace(/.$/, "_") }));
  await api.request("/v1/auth/token", { ...post, body: `{"client_secret":"${clientSecret}"` });
  await api.request("/v1/auth/token", { ...post, body: `{"${clientSecret}":1,"${clientSecret}":2}` });
  await api.request(`/v1/auth/token?client_secret=${clientSecret}`, { ...post, body: "{}" });
  await api.request("/v1/auth/token", {
    ...post,
    headers: { ...post.headers, authorization: `Basic ${basic}` },
    body: "{}",
  });
  await api.request(`/v1/credentials?access_token=${token}`);
  await api.request(`/v1/credentials/${clientSecret}`, { headers: bearer(token) });
  await api.request(`/${token}`, { headers: bearer(token) });
  await api.request("/v1/credentials", { headers: bearer(`${token.slice(0, -4)}AAAA`) });
  await api.request("/v1/credentials", { headers: bearer(clientSecret) });
  await api.admin("POST", "/tenants", { name: clientSecret, region: clientSecret });

  const log = api.log.join("");
  expect(log).toContain("request refused");
  const canaries = {
    clientSecret,
    token,
    basic,
    operatorToken: api.operatorToken,
    pepper: api.environment["SIGNET_PEPPER"] ?? "",
  };
  const leaked = Object.entries(canaries).filter(([, secret]) => log.includes(secret));
  expect(leaked.map(([name]) => name)).toEqual([]);
});

test("an internal error shows the caller only the request id, and the log all details", async () => {
  const client = await provision(api);
  const token = await accessToken(api, client);
  await execute(api.database.adminUrl, "ALTER TABLE credentials RENAME COLUMN san_uri TO elsewhere");
  try {
    const answer = await api.request("/v1/credentials", { headers: bearer(token) });
    expect(answer).toMatchObject({ status: 500, body: { code: "INTERNAL", title: "Internal error" } });
    expect(answer.text).not.toMatch(/san_uri|column|select|postgres|error:/i);
    const line = api.log.find((text) => text.includes(String(answer.body["request_id"])));
    expect(line).toContain('column \\"san_uri\\" does not exist');
    expect(JSON.parse(line ?? "{}")).toMatchObject({
      level: "error",
      code: "INTERNAL",
      path: "/v1/credentials",
    });
  } finally {
    await execute(api.database.adminUrl, "ALTER TABLE credentials RENAME COLUMN elsewhere TO san_uri");
  }
});
