/** Row-level security: what each database role can see and do, even with a query that lacks its predicate. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPool, type Pool, type ServiceRole } from "#database/pool.ts";
import { insertNotices } from "#database/repositories/tokens/revocation-notices.ts";
import { tenantTransaction } from "#database/transaction.ts";
import { newId } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { useSharedApi } from "#test/support/api.ts";
import { accessToken, bearer, provision, type Provisioned } from "#test/support/factories.ts";

const api = useSharedApi();
const pools = new Map<ServiceRole, Pool>();
let a: Provisioned;
let b: Provisioned;

beforeAll(async () => {
  a = await provision(api);
  b = await provision(api);
  for (const role of [
    "signet_api",
    "signet_issuer",
    "signet_rotator",
    "signet_ingest",
    "signet_worker",
    "signet_audit",
  ] as const) {
    pools.set(
      role,
      createPool({ url: api.database.url, role, max: 2, log: createLogger({ level: "silent" }) }),
    );
  }
});
afterAll(async () => {
  await Promise.all([...pools.values()].map(async (pool) => await pool.end()));
});

function pool(role: ServiceRole): Pool {
  const made = pools.get(role);
  if (made === undefined) {
    throw new Error(`no pool for ${role}`);
  }
  return made;
}

const TABLES = ["tenants", "roles", "principals", "credentials"] as const;
const tenantColumn = (table: string): string => (table === "tenants" ? "id" : "tenant_id");

describe("signet_api", () => {
  test.each(TABLES)("sees the rows of %s of its own tenant only, without any predicate", async (table) => {
    const seen = await tenantTransaction(pool("signet_api"), a.tenantId, async (client) => {
      const { rows } = await client.query<{ tenant: string }>(
        `SELECT ${tenantColumn(table)} AS tenant FROM ${table}`,
      );
      return rows.map(({ tenant }) => tenant);
    });
    expect(new Set(seen)).toEqual(new Set([a.tenantId]));
  });

  test.each(TABLES)(
    "sees nothing of %s without a tenant, also on a connection that previously had one",
    async (table) => {
      const own = createPool({
        url: api.database.url,
        role: "signet_api",
        max: 1,
        log: createLogger({ level: "silent" }),
      });
      try {
        await tenantTransaction(own, a.tenantId, async (client) => await client.query("SELECT 1"));
        expect((await own.query(`SELECT FROM ${table}`)).rowCount).toBe(0);
      } finally {
        await own.end();
      }
    },
  );

  test.each([
    ["write tenants", "UPDATE tenants SET name = 'x'"],
    ["clear credentials' certificate thumbprints", "UPDATE credentials SET certificate_thumbprints = '{}'"],
    ["let credentials publish without a signature", "UPDATE credentials SET signature_required = false"],
    [
      "stop requiring a credential's signatures",
      "UPDATE credentials SET state = 'REVOKED', signature_required = false",
    ],
    ["read secrets", "SELECT * FROM secret_versions"],
    ["read signing keys", "SELECT * FROM signing_keys"],
    ["create tables", "CREATE TABLE mine (a int)"],
    ["become the owner", "SET ROLE signet_owner"],
  ])("cannot %s", async (_name, statement) => {
    await expect(
      tenantTransaction(pool("signet_api"), a.tenantId, async (client) => await client.query(statement)),
    ).rejects.toThrow(/permission denied/);
  });
});

describe("signet_api and revoked credentials", () => {
  test("can revoke its own tenant's and reactivate none", async () => {
    const owner = await provision(api);
    const change = async (statement: string): Promise<number | null> =>
      await tenantTransaction(
        pool("signet_api"),
        owner.tenantId,
        async (client) => (await client.query(statement)).rowCount,
      );
    await expect(change("UPDATE credentials SET state = 'ACTIVE'")).rejects.toThrow(/row-level security/);
    expect(await change("UPDATE credentials SET state = 'REVOKED'")).toBe(1);
    await expect(change("UPDATE credentials SET state = 'ACTIVE'")).rejects.toThrow(/revoked stays so/);
  });
});

describe("signet_api and required signatures", () => {
  test("requires them only through the function, for its own tenant's credentials", async () => {
    const [owner, other] = [await provision(api), await provision(api)];
    const required = async (credential: string, tenant: string): Promise<boolean> =>
      await tenantTransaction(pool("signet_api"), owner.tenantId, async (client) => {
        const { rows } = await client.query<{ changed: boolean }>(
          "SELECT require_signatures($1, $2, true) AS changed",
          [tenant, credential],
        );
        return rows[0]?.changed === true;
      });
    expect(await required(other.credentialId, other.tenantId)).toBe(false);
    expect(await required(other.credentialId, owner.tenantId)).toBe(false);
    expect(await required(owner.credentialId, owner.tenantId)).toBe(true);
    await expect(
      tenantTransaction(
        pool("signet_api"),
        owner.tenantId,
        async (client) => await client.query("UPDATE credentials SET signature_required = false"),
      ),
    ).rejects.toThrow(/permission denied/);
  });
});

describe("signet_api and notices", () => {
  test("leaves those of its own tenant's new credentials, and no others", async () => {
    const [owner, other] = [await provision(api), await provision(api)];
    const leave = async (kind: string, { tenantId, credentialId }: typeof owner): Promise<unknown> =>
      await tenantTransaction(
        pool("signet_api"),
        owner.tenantId,
        async (client) =>
          await insertNotices(client, [
            { kind, target: credentialId, tenant_id: tenantId, actor: "x", at: new Date() },
          ]),
      );
    await leave("created", owner);
    await expect(leave("created", other)).rejects.toThrow(/row-level security/);
    await expect(leave("credential", owner)).rejects.toThrow(/row-level security/);
  });
});

describe("signet_issuer", () => {
  test.each([
    [
      "add a version",
      "INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at) VALUES ('x', 9, 'x', '', 'x', 'ACTIVE', now())",
    ],
    ["reactivate a version", "UPDATE secret_versions SET state = 'ACTIVE'"],
    ["widen a principal's scopes", "UPDATE principals SET scopes = '{events:publish_any}'"],
    ["reactivate a credential", "UPDATE credentials SET state = 'ACTIVE'"],
    [
      "create a signing key",
      "INSERT INTO signing_keys (kid, alg, public_jwk, private_key, state, created_at) VALUES ('x', 'ES256', '{}', '', 'NEXT', now())",
    ],
  ])("cannot %s", async (_name, statement) => {
    await expect(pool("signet_issuer").query(statement)).rejects.toThrow(/permission denied/);
  });
});

describe("signet_rotator", () => {
  test.each([
    ["read the MACs of secrets", "SELECT mac FROM secret_versions"],
    ["replace a version's secret", "UPDATE secret_versions SET mac = ''"],
    [
      "add a version that is already in use",
      `INSERT INTO secret_versions (credential_id, version, tenant_id, mac, mac_key_id, state, issued_at)
        VALUES ('x', 9, 'x', '', 'x', 'ACTIVE', now())`,
    ],
    ["reactivate a credential", "UPDATE credentials SET state = 'ACTIVE'"],
    ["give a credential another certificate", "UPDATE credentials SET san_uri = 'spiffe://x/y'"],
    ["see principals", "SELECT FROM principals"],
    [
      "leave a notice of a revocation",
      `INSERT INTO revocation_notices (kind, target, tenant_id, actor, at)
        VALUES ('credential', 'x', 'x', 'system:x', now())`,
    ],
  ])("cannot %s", async (_name, statement) => {
    await expect(pool("signet_rotator").query(statement)).rejects.toThrow(
      /permission denied|row-level security/,
    );
  });
});

describe("roles without access to credentials", () => {
  test.each(["signet_ingest", "signet_worker", "signet_audit"] as const)(
    "%s cannot read credentials",
    async (role) => {
      for (const table of ["credentials", "secret_versions", "principals"]) {
        await expect(pool(role).query(`SELECT FROM ${table}`)).rejects.toThrow(/permission denied/);
      }
    },
  );

  test.each(["signet_ingest", "signet_audit"] as const)("%s cannot read signing keys", async (role) => {
    await expect(pool(role).query("SELECT FROM signing_keys")).rejects.toThrow(/permission denied/);
  });

  test("signet_worker sees the signing keys of security events only", async () => {
    const { rows } = await pool("signet_worker").query("SELECT DISTINCT purpose FROM signing_keys");
    expect(rows).toEqual([{ purpose: "set" }]);
  });
});

test("neither the service's roles nor its login bypass row-level security", async () => {
  const { rows } = await pool("signet_api").query<{ rolname: string }>(
    "SELECT rolname FROM pg_roles WHERE rolname LIKE 'signet\\_%' AND (rolsuper OR rolbypassrls OR rolcreaterole)",
  );
  expect(rows).toEqual([]);
});

test("row-level security is enabled and forced on every table with a tenant", async () => {
  const { rows } = await pool("signet_api").query<{ relname: string }>(
    `SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p') AND NOT c.relispartition
        AND (c.relname = 'tenants' OR EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant_id'))
        AND NOT (c.relrowsecurity AND c.relforcerowsecurity)`,
  );
  expect(rows).toEqual([]);
});

describe("over HTTP", () => {
  test("a tenant lists its own credentials and no others", async () => {
    const { body } = await api.request("/v1/credentials", { headers: bearer(await accessToken(api, a)) });
    expect((body["data"] as { id: string }[]).map(({ id }) => id)).toEqual([a.credentialId]);
  });

  test("a foreign id and an id that never existed get the same answer", async () => {
    const headers = bearer(await accessToken(api, a));
    const foreign = await api.request(`/v1/credentials/${b.credentialId}`, { headers });
    const never = await api.request(`/v1/credentials/${newId("credential", Date.now(), randomBytes)}`, {
      headers,
    });
    const shape = ({ status, body }: typeof foreign) => ({ status, ...body, instance: "", request_id: "" });
    expect(foreign.status).toBe(404);
    expect(shape(foreign)).toEqual(shape(never));
    expect(await api.request(`/v1/credentials/${a.credentialId}`, { headers })).toMatchObject({
      status: 200,
    });
  });

  test("a cursor of one tenant is rejected for another", async () => {
    await api.admin("POST", `/principals/${a.principalId}/credentials`, {});
    const { body } = await api.request("/v1/credentials?limit=1", {
      headers: bearer(await accessToken(api, a)),
    });
    const cursor = body["next_cursor"] as string;
    const answer = await api.request(`/v1/credentials?cursor=${cursor}`, {
      headers: bearer(await accessToken(api, b)),
    });
    expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
  });
});
