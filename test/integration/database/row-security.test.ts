/** Production does not start with a login that can bypass row-level security. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterEach, beforeEach, expect, inject, test } from "vitest";
import { createPool, type Pool, SERVICE_ROLES, type ServiceRole } from "#database/pool.ts";
import { requireRowSecurity } from "#database/row-security.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { execute, retireLogins, withDatabase } from "#test/support/test-database.ts";

const database = useTestDatabase();
const PRODUCTION = { development: false };
let login: { readonly user: string; readonly password: string };
/** Logins that are members of the service's roles. */
const created: string[] = [];
const pools: Pool[] = [];

function poolOf(url: string, role: ServiceRole = "signet_api"): Pool {
  const pool = createPool({ url, role, max: 1, log: createLogger({ level: "silent" }) });
  pools.push(pool);
  return pool;
}

beforeEach(() => {
  login = { user: `login_${randomBytes(6).toString("hex")}`, password: "secret" };
});

afterEach(async () => {
  await Promise.all(pools.splice(0).map(async (pool) => await pool.end()));
  await retireLogins(inject("databaseUrl"), created.splice(0));
});

test("the service's own login is accepted for every role", async () => {
  for (const role of SERVICE_ROLES) {
    await expect(requireRowSecurity(poolOf(database.url, role), PRODUCTION)).resolves.toBeUndefined();
  }
});

test.each([
  ["a superuser", "SUPERUSER"],
  ["a login with BYPASSRLS", "BYPASSRLS"],
])(
  "%s is rejected in production, whatever role its sessions use, and accepted in development",
  async (_what, power) => {
    await execute(
      inject("databaseUrl"),
      `CREATE ROLE ${login.user} LOGIN ${power} PASSWORD '${login.password}'; GRANT ${SERVICE_ROLES.join(", ")} TO ${login.user}`,
    );
    created.push(login.user);
    const url = withDatabase(database.adminUrl, database.name, login);
    for (const role of SERVICE_ROLES) {
      const pool = poolOf(url, role);
      await expect(requireRowSecurity(pool, PRODUCTION), role).rejects.toThrow(
        `bypasses row-level security (as ${login.user}`,
      );
      await expect(requireRowSecurity(pool, { development: true })).resolves.toBeUndefined();
    }
  },
);

test("a login that can become such a role is also rejected", async () => {
  const group = `${login.user}_group`;
  await execute(
    inject("databaseUrl"),
    `CREATE ROLE ${group} BYPASSRLS; CREATE ROLE ${login.user} LOGIN NOINHERIT PASSWORD '${login.password}';
     GRANT signet_api, ${group} TO ${login.user}`,
  );
  created.push(login.user);
  const client = new Client({ connectionString: withDatabase(database.adminUrl, database.name, login) });
  await client.connect();
  try {
    await expect(requireRowSecurity(client, PRODUCTION)).rejects.toThrow(group);
  } finally {
    await client.end();
    await execute(inject("databaseUrl"), `DROP ROLE ${group}`);
  }
});
