/** The compliance log has every change by an operator, and nothing else. Routes come from the API's description. */
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { leafHash } from "#lib/transparency-log/node-crypto.ts";
import { type Answer, useTestApi } from "#test/support/api.ts";
import { provision } from "#test/support/factories.ts";
import { type AdminRoute, adminRoutes } from "#test/support/openapi.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { askAs, createOperator } from "#test/support/operators.ts";
import { sql } from "#test/support/tenant.ts";

const earlierKek = randomBytes(32);
const api = useTestApi({ environment: { SIGNET_KEK_PREVIOUS: earlierKek.toString("base64") } });

interface Entry {
  readonly index: number;
  readonly at: string;
  readonly type: string;
  readonly actor: string;
  readonly tenant_id: string | null;
  readonly target: string | null;
  readonly request_id: string | null;
  readonly details: Readonly<Record<string, unknown>>;
  readonly leaf_hash: string;
}

/** A change that succeeds: its request, and the subject of its entry. */
interface Change {
  readonly path: string;
  readonly body?: unknown;
  readonly tenant?: string;
  /** By default, the answer's id. */
  readonly target?: string;
  readonly details?: Readonly<Record<string, unknown>>;
  /** Types of the entries that it writes before its own. */
  readonly also?: readonly string[];
}

const name = (): string => randomBytes(8).toString("hex");

/** One change per route, by method and path. A new route fails the test below until it is listed here. */
const CHANGES: Readonly<Record<string, () => Promise<Change>>> = {
  "POST /tenants": async () => ({ path: "/tenants", body: { name: name(), region: "eu" } }),
  "POST /tenants/{id}/suspend": async () => {
    const { tenantId } = await provision(api);
    const path = `/tenants/${tenantId}/suspend`;
    return { path, body: { reason: "unpaid" }, tenant: tenantId, also: ["tenant.revoked"] };
  },
  "POST /tenants/{id}/erase": async () => {
    const made = name();
    const { body } = await api.admin("POST", "/tenants", { name: made, region: "eu" });
    const tenantId = String(body["id"]);
    const path = `/tenants/${tenantId}/erase`;
    return { path, body: { confirm: made }, tenant: tenantId, also: ["tenant.suspended", "tenant.revoked"] };
  },
  "POST /tenants/{id}/hold": async () => {
    const { tenantId } = await provision(api);
    return { path: `/tenants/${tenantId}/hold`, body: {}, tenant: tenantId, target: tenantId };
  },
  "POST /tenants/{id}/release": async () => {
    const { tenantId } = await provision(api);
    await api.admin("POST", `/tenants/${tenantId}/hold`, {});
    return { path: `/tenants/${tenantId}/release`, body: {}, tenant: tenantId, target: tenantId };
  },
  "POST /tenants/{id}/resume": async () => {
    const { tenantId } = await provision(api);
    await api.admin("POST", `/tenants/${tenantId}/suspend`, {});
    return { path: `/tenants/${tenantId}/resume`, body: {}, tenant: tenantId };
  },
  "PATCH /tenants/{id}/limits": async () => {
    const { tenantId } = await provision(api);
    const body = { endpoints: 7 };
    const details = { limits: { endpoints: 7 } };
    return { path: `/tenants/${tenantId}/limits`, body, tenant: tenantId, target: tenantId, details };
  },
  "PATCH /tenants/{id}/portal": async () => {
    const { tenantId } = await provision(api);
    const body = { name: "Acme", accent: "#2450c0" };
    const details = { changed: ["accent", "name"] };
    return { path: `/tenants/${tenantId}/portal`, body, tenant: tenantId, target: tenantId, details };
  },
  "POST /tenants/{id}/roles": async () => {
    const { tenantId } = await provision(api);
    const body = { name: name(), scopes: ["b:c", "a:b"] };
    return {
      path: `/tenants/${tenantId}/roles`,
      body,
      tenant: tenantId,
      details: { scopes: ["a:b", "b:c"] },
    };
  },
  "PATCH /roles/{id}": async () => {
    const { roleId, tenantId } = await provision(api, { scopes: ["a:b"] });
    const details = { before: ["a:b"], after: ["c:d"] };
    return { path: `/roles/${roleId}`, body: { scopes: ["c:d"] }, tenant: tenantId, details };
  },
  "POST /tenants/{id}/principals": async () => {
    const { tenantId, roleId } = await provision(api, { scopes: ["a:b"] });
    const body = { name: name(), role_id: roleId, region: "eu", environment: "development" };
    const details = { role_id: roleId, environment: "development", scopes: ["a:b"] };
    return { path: `/tenants/${tenantId}/principals`, body, tenant: tenantId, details };
  },
  "POST /principals/{id}/reprovision": async () => {
    const { principalId, roleId, tenantId } = await provision(api, { scopes: ["a:b"] });
    await api.admin("PATCH", `/roles/${roleId}`, { scopes: ["c:d"] });
    const details = { before: ["a:b"], after: ["c:d"] };
    return { path: `/principals/${principalId}/reprovision`, tenant: tenantId, details };
  },
  "POST /principals/{id}/credentials": async () => {
    const { principalId, tenantId } = await provision(api);
    const details = { principal_id: principalId };
    return { path: `/principals/${principalId}/credentials`, body: {}, tenant: tenantId, details };
  },
  "POST /credentials/{id}/revoke": async () => {
    const { credentialId, tenantId } = await provision(api);
    return { path: `/credentials/${credentialId}/revoke`, tenant: tenantId, target: credentialId };
  },
  "POST /principals/{id}/revoke": async () => {
    const { principalId, tenantId } = await provision(api);
    return { path: `/principals/${principalId}/revoke`, tenant: tenantId, target: principalId };
  },
  "POST /tenants/{id}/revoke": async () => {
    const { tenantId } = await provision(api);
    return { path: `/tenants/${tenantId}/revoke`, tenant: tenantId, target: tenantId };
  },
  "POST /revocations": async () => {
    const target = randomBytes(32).toString("hex");
    return { path: "/revocations", body: { kind: "cert", target, reason: "stolen" }, target };
  },
  "POST /operators": async () => ({
    path: "/operators",
    body: { name: name(), role: "read" },
    details: { role: "read" },
  }),
  "PATCH /operators/{id}": async () => {
    const { id } = await createOperator(api, "read");
    const details = { before: { role: "read" }, after: { role: "provision" } };
    return { path: `/operators/${id}`, body: { role: "provision" }, details };
  },
  "POST /operators/{id}/revoke": async () => {
    const { id } = await createOperator(api, "read");
    return { path: `/operators/${id}/revoke`, body: { reason: "left" } };
  },
  "POST /operators/{id}/tokens": async () => {
    const { id } = await createOperator(api, "read");
    return { path: `/operators/${id}/tokens`, body: { expires_in_days: 3 }, target: id };
  },
  "DELETE /operators/{id}/tokens/{token_id}": async () => {
    const { id, tokenId } = await createOperator(api, "read");
    return { path: `/operators/${id}/tokens/${tokenId}`, target: id, details: { token_id: tokenId } };
  },
  "POST /signing-keys/rotate": async () => ({ path: "/signing-keys/rotate", body: { reason: "drill" } }),
  "POST /signing-keys/{kid}/revoke": async () => {
    const { body } = await api.admin("POST", "/signing-keys/rotate", {});
    return { path: `/signing-keys/${String(body["kid"])}/revoke`, body: { reason: "leaked" } };
  },
  "POST /key-encryption/rewrap": async () => {
    const { tenantId } = await provision(api);
    const dataKey = await testKeyring(earlierKek).newTenantDataKey(tenantId);
    await sql(api, "UPDATE tenants SET data_key = $2 WHERE id = $1", [tenantId, dataKey]);
    return { path: "/key-encryption/rewrap", body: {}, details: { kind: "tenants", count: 1 } };
  },
};

const nameOf = ({ method, path }: AdminRoute): string => `${method} ${path}`;
let changing: readonly AdminRoute[];

beforeAll(async () => {
  changing = (await adminRoutes(api)).filter(({ method }) => method !== "GET");
});

/** Returns the newest entries, without revocation reports: those are written after the answer. */
async function newest(count: number): Promise<readonly Entry[]> {
  const some = await entries(`?limit=${count + 10}`);
  return some.filter(({ type }) => type !== "revocation.propagated").slice(0, count);
}

async function entries(query = ""): Promise<readonly Entry[]> {
  const { status, body } = await api.admin("GET", `/audit${query}`);
  expect(status).toBe(200);
  return body["data"] as Entry[];
}

async function ask(route: AdminRoute, { path, body }: Change): Promise<Answer> {
  return await api.admin(route.method, path, body);
}

describe("every route that changes something", () => {
  test("is in the table above, and declares its entry", () => {
    expect(changing.map(nameOf).sort()).toEqual(Object.keys(CHANGES).sort());
    expect(changing.filter(({ audits }) => audits === null)).toEqual([]);
  });

  test("leaves one entry with the actor, the change and the request", async () => {
    for (const route of changing) {
      const change = await CHANGES[nameOf(route)]?.();
      if (change === undefined) {
        continue;
      }
      const [last] = await newest(1);
      const answer = await ask(route, change);
      expect({ route: nameOf(route), status: answer.status }).toMatchObject({
        status: expect.toSatisfy((status: number) => status >= 200 && status < 300) as number,
      });
      const also = change.also ?? [];
      const [entry, ...earlier] = await newest(also.length + 2);
      expect({ route: nameOf(route), before: earlier.pop() }).toEqual({ route: nameOf(route), before: last });
      expect({ route: nameOf(route), also: earlier.map(({ type }) => type) }).toEqual({
        route: nameOf(route),
        also,
      });
      const created = answer.body["id"] as string | undefined;
      expect({ route: nameOf(route), ...entry }).toMatchObject({
        route: nameOf(route),
        type: expect.toBeOneOf([route.audits].flat()) as string,
        actor: "operator:bootstrap",
        tenant_id: route.audits === "tenant.created" ? created : (change.tenant ?? null),
        target: change.target ?? created ?? answer.body["kid"] ?? null,
        request_id: answer.headers.get("x-request-id"),
        details: change.details ?? {},
      });
    }
  });

  test("names the operator", async () => {
    const operator = await createOperator(api, "provision");
    const response = await fetch(`${api.adminUrl}/admin/v1/tenants`, {
      method: "POST",
      headers: { authorization: `Bearer ${operator.token}`, "content-type": "application/json" },
      body: JSON.stringify({ name: "x", region: "eu" }),
    });
    expect(response.status).toBe(201);
    expect((await newest(1))[0]).toMatchObject({ actor: `operator:${operator.id}` });
  });

  test("leaves no entry when it is rejected", async () => {
    const [last] = await newest(1);
    for (const route of changing) {
      const path = route.path.replaceAll(/\{\w+\}/g, "x");
      const { status } = await api.admin(route.method, path, route.takesBody ? { unknown: 1 } : undefined);
      expect({ route: nameOf(route), refused: status >= 400 }).toMatchObject({ refused: true });
    }
    expect((await newest(1))[0]).toEqual(last);
  });

  test("changes nothing when its entry cannot be written", async () => {
    await sql(api, "ALTER TABLE clog RENAME TO clog_away");
    try {
      expect(await api.admin("POST", "/tenants", { name: "unwritten", region: "eu" })).toMatchObject({
        status: 500,
      });
    } finally {
      await sql(api, "ALTER TABLE clog_away RENAME TO clog");
    }
    expect((await api.admin("GET", "/tenants")).text).not.toContain("unwritten");
  });

  test("leaves no second entry when there was nothing left to do", async () => {
    const { id, tokenId } = await createOperator(api, "read");
    for (const [method, path] of [
      ["DELETE", `/operators/${id}/tokens/${tokenId}`],
      ["POST", `/operators/${id}/revoke`],
    ] as const) {
      const body = method === "POST" ? {} : undefined;
      await api.admin(method, path, body);
      const [last] = await newest(1);
      expect((await api.admin(method, path, body)).status).toBeLessThan(300);
      expect((await newest(1))[0]).toEqual(last);
    }
  });
});

describe("a refused attempt", () => {
  test("with an insufficient role is logged with the operator and the operation, once a minute", async () => {
    const operator = await createOperator(api, "read");
    for (let count = 0; count < 3; count += 1) {
      await askAs(api, operator.token, "POST", "/operators");
    }
    await askAs(api, operator.token, "POST", "/tenants");
    const noted = await entries(`?actor=operator:${operator.id}`);
    expect(noted).toMatchObject([
      { type: "operator.refused", details: { code: "SCOPE_VIOLATION", operation: "POST /admin/v1/tenants" } },
      {
        type: "operator.refused",
        details: { code: "SCOPE_VIOLATION", operation: "POST /admin/v1/operators" },
      },
    ]);
  });

  test("with a revoked token is logged with its operator", async () => {
    const operator = await createOperator(api, "provision");
    await api.admin("DELETE", `/operators/${operator.id}/tokens/${operator.tokenId}`);
    const refused = await askAs(api, operator.token, "GET", "/tenants");
    expect(await entries(`?actor=operator:${operator.id}`)).toMatchObject([
      {
        type: "operator.refused",
        target: operator.id,
        request_id: refused.headers.get("x-request-id"),
        details: { code: "TOKEN_REVOKED" },
      },
    ]);
  });
});

test("no entry contains a secret", async () => {
  const client = await provision(api);
  const operator = await createOperator(api, "security");
  await askAs(api, operator.token, "POST", "/tenants");
  const rows = await sql(api, "SELECT convert_from(entry, 'UTF8') AS entry FROM clog");
  const log = JSON.stringify(rows);
  expect(rows.length).toBeGreaterThan(10);
  expect(log).toContain(client.credentialId);
  const canaries = {
    secret: client.clientSecret,
    body: client.clientSecret.slice(12, 40),
    token: operator.token,
    part: operator.token.slice(7, 30),
    bootstrap: api.operatorToken,
  };
  const found = Object.entries(canaries).filter(([, canary]) => log.includes(canary));
  expect(found.map(([what]) => what)).toEqual([]);
});

describe("GET /audit", () => {
  test("pages through the whole log, newest first, without gaps", async () => {
    const seen: number[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const query: string = cursor === "" ? "?limit=7" : `?limit=7&cursor=${cursor}`;
      const { body } = await api.admin("GET", `/audit${query}`);
      seen.push(...(body["data"] as Entry[]).map(({ index }) => index));
      cursor = body["next_cursor"] as string | null;
    }
    const size = seen.length;
    expect(size).toBeGreaterThan(20);
    expect(seen).toEqual(Array.from({ length: size }, (_value, index) => size - 1 - index));
  });

  test("filters by tenant, type, actor and time, individually and combined", async () => {
    const { tenantId } = await provision(api);
    const operator = await createOperator(api, "provision");
    const own = await entries(`?tenant_id=${tenantId}`);
    expect(own.map(({ type }) => type)).toEqual([
      "credential.created",
      "principal.created",
      "role.created",
      "tenant.created",
    ]);
    expect(await entries(`?tenant_id=${tenantId}&type=role.created`)).toEqual([own[2]]);
    expect(await entries(`?tenant_id=${tenantId}&actor=operator:bootstrap`)).toEqual(own);
    expect(await entries(`?tenant_id=${tenantId}&actor=operator:${operator.id}`)).toEqual([]);
    const at = String(own[1]?.at);
    const later = await entries(`?tenant_id=${tenantId}&from=${at}`);
    const earlier = await entries(`?tenant_id=${tenantId}&to=${at}`);
    expect([...later, ...earlier]).toEqual(own);
    expect(later).toContainEqual(own[1]);
  });

  test("returns the hash of the logged bytes", async () => {
    const [entry] = await newest(1);
    const rows = await sql(api, "SELECT encode(entry, 'hex') AS entry FROM clog WHERE idx = $1", [
      entry?.index,
    ]);
    const bytes = Buffer.from(String((rows as { entry: string }[])[0]?.entry), "hex");
    expect(leafHash(bytes).toString("hex")).toBe(entry?.leaf_hash);
  });

  test.each([
    ["tenant_id", "ten_x"],
    ["type", "made.up"],
    ["actor", "nobody"],
    ["from", "yesterday"],
    ["to", "2026-02-30T00:00:00Z"],
    ["cursor", "x"],
    ["colour", "red"],
  ])("refuses %s=%s", async (parameter, value) => {
    expect(await api.admin("GET", `/audit?${parameter}=${value}`)).toMatchObject({
      status: 400,
      body: { code: "INVALID_REQUEST" },
    });
  });

  test("rejects a cursor of another filter", async () => {
    const { body } = await api.admin("GET", "/audit?limit=1&type=tenant.created");
    const cursor = String(body["next_cursor"]);
    expect(await api.admin("GET", `/audit?type=tenant.created&cursor=${cursor}`)).toMatchObject({
      status: 200,
    });
    expect(await api.admin("GET", `/audit?cursor=${cursor}`)).toMatchObject({ status: 400 });
  });
});
