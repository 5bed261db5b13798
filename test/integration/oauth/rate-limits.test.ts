/** Rate limits of the token endpoint and the API, over HTTP. */
import { randomBytes } from "node:crypto";
import { request as httpRequest } from "node:http";
import { beforeAll, describe, expect, test } from "vitest";
import { newClientSecret } from "#tokens/credentials/secret-format.ts";
import { metrics } from "#observability/metrics.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { accessToken, bearer, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { asTenant, expectRefusal, WEBHOOK_SCOPES } from "#test/support/tenant.ts";

function expectOAuthRefusal(answer: Answer): number {
  expect(answer.status).toBe(429);
  expect(answer.body).toEqual({
    error: "temporarily_unavailable",
    error_description: expect.any(String),
    code: "RATE_LIMITED",
    request_id: answer.headers.get("x-request-id"),
  });
  expect(answer.headers.get("content-type")).toBe("application/json;charset=UTF-8");
  expect(answer.headers.get("cache-control")).toBe("no-store");
  const retryAfter = answer.headers.get("retry-after") ?? "";
  expect(retryAfter).toMatch(/^[1-9]\d*$/);
  return Number(retryAfter);
}

describe("with 5 tokens a minute and client, and 3 failures", () => {
  const api = useTestApi({
    environment: { SIGNET_TOKEN_RATE_PER_CLIENT: "5", SIGNET_TOKEN_FAILURES: "3" },
  });
  const wrong = (client: Provisioned) =>
    grant({ ...client, clientSecret: newClientSecret("production", randomBytes) });

  test("a client over its rate gets 429 until the minute ends, without effect on others", async () => {
    const client = await provision(api);
    for (let request = 0; request < 5; request += 1) {
      await accessToken(api, client);
    }
    const wait = expectOAuthRefusal(await api.token(grant(client)));
    expect(wait).toBeLessThanOrEqual(60);
    await accessToken(api, await provision(api));
  });

  test("failures do not use up a client's rate, so its id alone cannot lock it out", async () => {
    const client = await provision(api);
    for (let request = 0; request < 3; request += 1) {
      expect(await api.token(wrong(client))).toMatchObject({ status: 401 });
    }
    expectOAuthRefusal(await api.token(wrong(client)));
    // From another address the client still has its full rate.
    for (let request = 0; request < 5; request += 1) {
      const answer = await fromElsewhere(client);
      expect(answer).toBe(200);
    }
  });

  async function fromElsewhere(client: Provisioned): Promise<number> {
    return await new Promise((resolve, reject) => {
      const sent = httpRequest(
        {
          host: "127.0.0.1",
          port: api.publicPort,
          localAddress: "127.0.0.2",
          path: "/v1/auth/token",
          method: "POST",
          headers: { "content-type": "application/json" },
        },
        (response) => {
          response.resume();
          response.on("end", () => resolve(response.statusCode ?? 0));
        },
      );
      sent.on("error", reject);
      sent.end(JSON.stringify(grant(client)));
    });
  }

  test("the wait doubles with each early wrong secret", async () => {
    const client = await provision(api);
    for (let request = 0; request < 3; request += 1) {
      expect(await api.token(wrong(client))).toMatchObject({ status: 401 });
    }
    const waits: number[] = [];
    for (let request = 0; request < 4; request += 1) {
      waits.push(expectOAuthRefusal(await api.token(wrong(client))));
    }
    expect(waits).toEqual([10, 20, 40, 80]);
  });

  test("the right secret is never rejected because of others' failures at its address", async () => {
    const client = await provision(api);
    for (let request = 0; request < 8; request += 1) {
      await api.token(wrong(client));
    }
    expectOAuthRefusal(await api.token(wrong(client)));
    const [answers] = await Promise.all([
      Promise.all([1, 2, 3].map(async () => await api.token(grant(client)))),
      ...Array.from({ length: 20 }, async () => await api.token(wrong(client))),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
  });
});

describe("with 20 token requests a minute and address", () => {
  const api = useTestApi({ environment: { SIGNET_TOKEN_RATE_PER_ADDRESS: "20" } });

  test("invalid requests of any kind get 429 until the address's minute ends", async () => {
    const client = await provision(api);
    const requests = [
      async () => await api.token(grant(client)),
      async () => await api.token({}),
      async () => await api.token({ grant_type: "client_credentials", client_id: "x", client_secret: "y" }),
      async () =>
        await api.request("/v1/auth/token?a=b", {
          method: "POST",
          body: "a=b",
          headers: { "content-type": "application/x-www-form-urlencoded" },
        }),
    ];
    for (let request = 0; request < 20; request += 1) {
      expect((await requests[request % 4]?.())?.status).not.toBe(429);
    }
    for (const request of requests.slice(1)) {
      expect(expectOAuthRefusal(await request())).toBeLessThanOrEqual(60);
    }
    // A valid credential is not rejected because of others at its address.
    const token = await accessToken(api, client);
    for (const path of ["/v1/auth/introspect", "/v1/auth/revoke"]) {
      const { clientId, clientSecret } = client;
      const body = new URLSearchParams({ token, client_id: clientId, client_secret: clientSecret });
      const headers = { "content-type": "application/x-www-form-urlencoded" };
      expect(await api.request(path, { method: "POST", headers, body: body.toString() })).toMatchObject({
        status: 200,
      });
    }
    // Public documents are not limited.
    expect(await api.request("/.well-known/jwks.json")).toMatchObject({ status: 200 });
  });
});

describe("with 5 requests a second and tenant", () => {
  const api = useTestApi({ environment: { SIGNET_API_RATE_PER_TENANT: "5" } });
  let client: Provisioned;
  let token: string;

  beforeAll(async () => {
    client = await provision(api, { scopes: [...WEBHOOK_SCOPES, "credentials:read"] });
    token = await accessToken(api, client);
  });

  const burst = async (count: number, ask: () => Promise<Answer>): Promise<Answer[]> =>
    await Promise.all(Array.from({ length: count }, ask));

  test("a burst of one tenant gets 429 and Retry-After, without effect on another tenant", async () => {
    const list = async () => await api.request("/v1/credentials", { headers: bearer(token) });
    const answers = await burst(30, list);
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(10);
    expect(answers.some(({ status }) => status === 200)).toBe(true);
    for (const answer of refused) {
      expectRefusal(answer, 429, "RATE_LIMITED");
      expect(answer.headers.get("retry-after")).toBe("1");
    }
    const other = await provision(api);
    const otherToken = await accessToken(api, other);
    expect(await api.request("/v1/credentials", { headers: bearer(otherToken) })).toMatchObject({
      status: 200,
    });
  });

  test("publishing has a separate rate, which is unlimited by default", async () => {
    const tenant = asTenant(api, client, token);
    const answers = await burst(40, async () => await tenant.post("/v1/events", { type: "a.b", data: {} }));
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
  });
});

describe("with 3 publishing requests a second and tenant", () => {
  const api = useTestApi({ environment: { SIGNET_PUBLISH_RATE_PER_TENANT: "3" } });

  test("further publishing requests get 429, and reading still works", async () => {
    const client = await provision(api, { scopes: WEBHOOK_SCOPES });
    const tenant = asTenant(api, client, await accessToken(api, client));
    const answers = await Promise.all(
      Array.from({ length: 20 }, async () => await tenant.post("/v1/events", { type: "a.b", data: {} })),
    );
    const statuses = answers.map(({ status }) => status);
    expect(statuses).toEqual(expect.arrayContaining([202, 429]));
    expect((await tenant.get("/v1/webhooks/endpoints")).status).not.toBe(429);
  });
});

test("rejections are counted by limit", async () => {
  const { values } = await metrics.rateLimited.get();
  const counted = Object.fromEntries(values.map(({ labels, value }) => [labels.limit, value]));
  for (const limit of ["token_address", "token_client", "token_failures", "api", "publish"]) {
    expect(counted[limit], limit).toBeGreaterThan(0);
  }
});
