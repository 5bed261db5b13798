/**
 * A POST that creates a resource runs once in 24 hours per Idempotency-Key, and repeats return the
 * same secret.
 */
import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import { accessToken, grant, provision, type Provisioned } from "#test/support/factories.ts";
import { asTenant, createTenant, type Json, sql, type Tenant } from "#test/support/tenant.ts";

const api = useTestApi();
const DAY_MS = 86_400_000;
const REUSED = { status: 409, body: { code: "IDEMPOTENCY_KEY_REUSED" } };
let own: Provisioned;

beforeAll(async () => {
  own = await provision(api);
});

const isReplay = ({ headers }: Answer): boolean => headers.get("idempotent-replayed") === "true";

/** Sends a POST with a key to the operators' API. */
async function keyed(key: string, path: string, body: Json, token = api.operatorToken): Promise<Answer> {
  const response = await fetch(`${api.adminUrl}/admin/v1${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${token}`,
      "content-type": "application/json",
      "idempotency-key": key,
    },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, text, body: JSON.parse(text) as Json };
}

async function entries(target: unknown): Promise<number> {
  return (
    await sql(api, "SELECT FROM clog WHERE convert_from(entry, 'UTF8')::jsonb ->> 'target' = $1", [target])
  ).length;
}

const count = async (table: string): Promise<number> => (await sql(api, `SELECT FROM ${table}`)).length;

interface Creation {
  readonly table: string;
  readonly path: () => string;
  readonly body: () => Json;
}

const CREATIONS: Readonly<Record<string, Creation>> = {
  tenant: { table: "tenants", path: () => "/tenants", body: () => ({ name: "x", region: "eu" }) },
  role: {
    table: "roles",
    path: () => `/tenants/${own.tenantId}/roles`,
    body: () => ({ name: randomUUID(), scopes: ["a:b"] }),
  },
  principal: {
    table: "principals",
    path: () => `/tenants/${own.tenantId}/principals`,
    body: () => ({ name: "x", role_id: own.roleId, region: "eu", environment: "production" }),
  },
  credential: {
    table: "credentials",
    path: () => `/principals/${own.principalId}/credentials`,
    body: () => ({}),
  },
  operator: {
    table: "operators",
    path: () => "/operators",
    body: () => ({ name: randomUUID(), role: "read" }),
  },
};

describe.each(Object.entries(CREATIONS))("a %s", (_noun, { table, path, body: newBody }) => {
  test("requested again with its key gets the same answer, is created once and logged once", async () => {
    const [key, body, before] = [randomUUID(), newBody(), await count(table)];
    const first = await keyed(key, path(), body);
    const second = await keyed(key, path(), body);
    expect(first).toMatchObject({ status: 201 });
    expect(second).toMatchObject({ status: 201, text: first.text });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(second.headers.get("cache-control")).toBe(first.headers.get("cache-control"));
    expect(await count(table)).toBe(before + 1);
    expect(await entries(first.body["id"])).toBe(1);
  });
});

test("a credential requested ten times concurrently with one key is created once, and every answer has its secret", async () => {
  const [key, before] = [randomUUID(), await count("credentials")];
  const path = `/principals/${own.principalId}/credentials`;
  const answers = await Promise.all(Array.from({ length: 10 }, async () => await keyed(key, path, {})));
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  expect(answers.filter((answer) => !isReplay(answer))).toHaveLength(1);
  expect(await count("credentials")).toBe(before + 1);
  const { client_id: clientId, client_secret: clientSecret } = answers[0]?.body ?? {};
  const token = await api.token({
    grant_type: "client_credentials",
    client_id: clientId,
    client_secret: clientSecret,
  });
  expect(token).toMatchObject({ status: 200 });
});

test("a repeated request for an operator's token returns the same token, and the operator has one", async () => {
  const key = randomUUID();
  const operator = await api.admin("POST", "/operators", { name: randomUUID(), role: "read" });
  const path = `/operators/${String(operator.body["id"])}/tokens`;
  const first = await keyed(key, path, {});
  const second = await keyed(key, path, {});
  expect(first).toMatchObject({ status: 201, body: { token: expect.any(String) as string } });
  expect(second.text).toBe(first.text);
  expect((await api.admin("GET", path)).body["data"]).toHaveLength(1);
});

test("a suspension sent again with its key is not repeated after a resumption", async () => {
  const { body: tenant } = await api.admin("POST", "/tenants", { name: "x", region: "eu" });
  const path = `/tenants/${String(tenant["id"])}`;
  const key = randomUUID();
  const first = await keyed(key, `${path}/suspend`, { reason: "unpaid" });
  expect(first).toMatchObject({ status: 200, body: { state: "SUSPENDED" } });
  await api.admin("POST", `${path}/resume`, {});
  expect(await keyed(key, `${path}/suspend`, { reason: "unpaid" })).toMatchObject({ text: first.text });
  expect((await api.admin("GET", path)).body["state"]).toBe("ACTIVE");
});

describe("a key", () => {
  test("used for another body or another parent is rejected", async () => {
    const key = randomUUID();
    await keyed(key, "/tenants", { name: "x", region: "eu" });
    expect(await keyed(key, "/tenants", { name: "y", region: "eu" })).toMatchObject(REUSED);
    const roles = (tenant: string): string => `/tenants/${tenant}/roles`;
    const role = { name: "x", scopes: ["a:b"] };
    const foreign = await provision(api);
    expect(await keyed(key, roles(own.tenantId), role)).toMatchObject({ status: 201 });
    expect(await keyed(key, roles(foreign.tenantId), role)).toMatchObject(REUSED);
  });

  test("of a rejected request stays free", async () => {
    const key = randomUUID();
    expect(await keyed(key, "/tenants", { name: "x", region: "?" })).toMatchObject({ status: 422 });
    const path = `/tenants/${own.tenantId}/principals`;
    const principal = { name: key, role_id: own.roleId, region: "eu", environment: "production" };
    const absent = { ...principal, role_id: "rol_000000000000000000000000" };
    expect(await keyed(key, path, absent)).toMatchObject({ status: 422 });
    expect(await keyed(key, path, principal)).toMatchObject({ status: 201 });
  });

  test("of one operator does not apply to another", async () => {
    const { body: operator } = await api.admin("POST", "/operators", {
      name: randomUUID(),
      role: "provision",
    });
    const issued = await api.admin("POST", `/operators/${String(operator["id"])}/tokens`, {});
    const [key, body] = [randomUUID(), { name: "x", region: "eu" }];
    const first = await keyed(key, "/tenants", body);
    const second = await keyed(key, "/tenants", body, String(issued.body["token"]));
    expect(second).toMatchObject({ status: 201 });
    expect(second.body["id"]).not.toBe(first.body["id"]);
  });

  test.each(["", "x".repeat(256), "tab\tin it"])("that is malformed is rejected: %j", async (key) => {
    expect(await keyed(key, "/tenants", { name: "x", region: "eu" })).toMatchObject({ status: 400 });
  });
});

describe("a stored answer", () => {
  test("contains neither the secret nor the key in plain text", async () => {
    const key = `canary-${randomUUID()}`;
    const { body } = await keyed(key, `/principals/${own.principalId}/credentials`, {});
    const kept = await sql<{ row: string }>(api, "SELECT a::text AS row FROM idempotent_answers a");
    const text = kept.map(({ row }) => row).join("\n");
    expect(text).toContain("POST /admin/v1/principals/:id/credentials");
    expect(text).not.toContain(key);
    expect(text).not.toContain(Buffer.from(key).toString("hex"));
    expect(text).not.toContain(body["client_secret"]);
    expect(text).not.toContain(body["client_id"]);
    expect(api.log.join("")).not.toContain(body["client_secret"]);
  });

  test("sealed under a removed pepper leads to a CONFLICT, and the request does not run again", async () => {
    const [key, body] = [randomUUID(), { name: "x", region: "eu" }];
    await keyed(key, "/tenants", body);
    await sql(
      api,
      "UPDATE idempotent_answers SET answer = regexp_replace(answer, '^v1\\.[^.]+', 'v1.00000000')",
    );
    const before = await count("tenants");
    expect(await keyed(key, "/tenants", body)).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    expect(await count("tenants")).toBe(before);
  });
});

describe("a tenant's credential", () => {
  let tenant: Tenant;
  const SCOPES = ["credentials:read", "credentials:write"];
  const PATH = "/v1/credentials";
  const withKey = (key: string): Record<string, string> => ({ "idempotency-key": key });

  beforeAll(async () => {
    tenant = await createTenant(api, SCOPES);
  });

  test("requested again with its key is the same one, with the same secret", async () => {
    const first = await tenant.post(PATH, {}, withKey("k"));
    const second = await tenant.post(PATH, {}, withKey("k"));
    expect(first).toMatchObject({ status: 201, body: { client_secret: expect.any(String) as string } });
    expect(second).toMatchObject({ status: 201, text: first.text });
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    expect(second.headers.get("cache-control")).toBe("no-store");
    expect(await tenant.post(PATH, { san_uri: "spiffe://example/a" }, withKey("k"))).toMatchObject(REUSED);
    expect(await tenant.post(PATH, {})).toMatchObject({ status: 201 });
  });

  test("that replaces another is returned again even after the other was replaced", async () => {
    const replaced = await tenant.post(PATH, {});
    const body = { replaces: replaced.body["id"] };
    const first = await tenant.post(PATH, body, withKey("replacement"));
    expect(await tenant.post(PATH, body, withKey("replacement"))).toMatchObject({
      status: 201,
      text: first.text,
    });
    expect(await tenant.post(PATH, body)).toMatchObject({ status: 409, body: { code: "INVALID_STATE" } });
  });

  test("is not shown to another principal, another tenant, or a token with fewer scopes", async () => {
    const first = await tenant.post(PATH, {}, withKey("mine"));
    const client = await provision(api, { scopes: SCOPES, tenantId: tenant.tenantId });
    const colleague = asTenant(api, client, await accessToken(api, client));
    const own = await colleague.post(PATH, {}, withKey("mine"));
    expect(own).toMatchObject({ status: 201, body: { principal_id: client.principalId } });
    expect([isReplay(own), own.body["client_secret"] === first.body["client_secret"]]).toEqual([
      false,
      false,
    ]);
    const { body: narrow } = await api.token(grant(tenant, { scope: "credentials:write" }));
    const narrowHeaders = { ...withKey("mine"), authorization: `Bearer ${String(narrow["access_token"])}` };
    expect(await tenant.post(PATH, {}, narrowHeaders)).toMatchObject({ status: 403 });
    const stranger = await createTenant(api, SCOPES);
    const theirs = await stranger.post(PATH, {}, withKey("mine"));
    expect(theirs).toMatchObject({ status: 201 });
    expect(theirs.body["id"]).not.toBe(first.body["id"]);
  });

  test("can be requested again with its key for 24 hours", async () => {
    const body = { name: "x", region: "eu" };
    const key = randomUUID();
    const first = await keyed(key, "/tenants", body);
    api.clock.advance(DAY_MS - 60_000);
    expect(await keyed(key, "/tenants", body)).toMatchObject({ text: first.text });
    api.clock.advance(120_000);
    const later = await keyed(key, "/tenants", { ...body, name: "y" });
    expect(later).toMatchObject({ status: 201 });
    expect(later.body["id"]).not.toBe(first.body["id"]);
  });
});

describe("the command line", () => {
  const signet = async (line: readonly string[], lossy: typeof fetch): Promise<CommandRun> =>
    await runSignet([...line, "--json"], api.environment, { fetch: lossy });

  test("retries after a lost answer and creates one credential", async () => {
    const before = await count("credentials");
    let sent = 0;
    const { code, stdout } = await signet(
      ["credential", "create", "--principal", own.principalId],
      async (...args) => {
        const response = await fetch(...args);
        sent += 1;
        if (sent === 1) {
          await response.text();
          throw new TypeError("fetch failed", {
            cause: Object.assign(new Error("reset"), { code: "ECONNRESET" }),
          });
        }
        return response;
      },
    );
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ client_secret: expect.any(String) as string });
    expect([sent, await count("credentials")]).toEqual([2, before + 1]);
  });

  test("retries neither a refused connection nor a change without a key", async () => {
    const attempts: string[] = [];
    const failing =
      (errorCode: string): typeof fetch =>
      async (_url, init) => {
        attempts.push(`${init?.method ?? ""} ${errorCode}`);
        return await Promise.reject(
          new TypeError("fetch failed", { cause: Object.assign(new Error("x"), { code: errorCode }) }),
        );
      };
    const create = ["tenant", "create", "x", "--region", "eu"];
    expect(await signet(create, failing("ECONNREFUSED"))).toMatchObject({ code: 6 });
    const change = ["operator", "update", "opr_000000000000000000000000", "--role", "read"];
    expect(await signet(change, failing("ECONNRESET"))).toMatchObject({ code: 6 });
    expect(attempts).toEqual(["POST ECONNREFUSED", "PATCH ECONNRESET"]);
  });
});
