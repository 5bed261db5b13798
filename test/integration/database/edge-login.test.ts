/** An edge is exposed to the internet: an attacker who takes it over finds a login that can read next to nothing. */
import { randomBytes } from "node:crypto";
import { Client } from "pg";
import { afterEach, beforeEach, describe, expect, inject, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { SERVICE_ROLES } from "#database/pool.ts";
import { useTestDatabase } from "#test/support/services.ts";
import { execute, SERVICE_LOGIN, withDatabase } from "#test/support/test-database.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const database = useTestDatabase();
const OTHER_ROLES = ["signet_owner", ...SERVICE_ROLES.filter((role) => role !== "signet_edge")];
/** Everything that the login can read, by table. `revocation_followers` records what the edge has applied. */
const READABLE = {
  rev_clock: ["epoch", "epoch_at", "head", "id", "seq"],
  revocation_followers: [
    "applied_at",
    "lease_ms",
    "lock_key",
    "process",
    "region",
    "seen_at",
    "seq",
    "version",
    "via",
  ],
  revocations: ["at", "expires_at", "issued_before", "kind", "seq", "target"],
  schema_migrations: ["applied_at", "name", "sha256", "version"],
  signing_keys: ["activated_at", "alg", "kid", "public_jwk", "retired_at", "revoked_at", "state"],
};

describe("the login of an edge", () => {
  const user = `edge_${randomBytes(6).toString("hex")}`;
  const login = { user, password: "p@ss'w\"ord" };
  const migrate = async (edge: { readonly user: string; readonly password: string }): Promise<number> =>
    await migrateDatabase({
      timers: machineTimers,
      adminUrl: database.adminUrl,
      serviceUrl: database.url,
      edgeUrl: withDatabase(database.adminUrl, database.name, edge),
      nowMs: Date.now(),
    });
  let client: Client;

  beforeEach(async () => {
    await migrate(login);
    client = new Client({ connectionString: withDatabase(database.adminUrl, database.name, login) });
    await client.connect();
  });

  afterEach(async () => {
    await client.end();
    await execute(inject("databaseUrl"), `DROP OWNED BY "${user}"; DROP ROLE "${user}"`);
  });

  test("can act only as signet_edge, by any method", async () => {
    for (const role of OTHER_ROLES) {
      await expect(client.query(`SET ROLE ${role}`), role).rejects.toThrow(/permission denied to set role/);
      await expect(client.query(`SET SESSION AUTHORIZATION ${role}`), role).rejects.toThrow(
        /permission denied/,
      );
      const starting = new Client({
        connectionString: withDatabase(database.adminUrl, database.name, login),
        options: `-c role=${role}`,
      });
      await expect(starting.connect(), role).rejects.toThrow(/permission denied to set role/);
      await starting.end();
    }
    await expect(client.query(`GRANT signet_api TO "${user}"`)).rejects.toThrow(/permission denied/);
    const { rows } = await client.query(
      "SELECT rolsuper, rolbypassrls, rolcreaterole, rolcreatedb, rolreplication FROM pg_roles WHERE rolname = $1",
      [user],
    );
    expect(rows).toEqual([
      {
        rolsuper: false,
        rolbypassrls: false,
        rolcreaterole: false,
        rolcreatedb: false,
        rolreplication: false,
      },
    ]);
    await client.query("SET ROLE signet_edge");
  });

  test("reads only public keys, revocations and what it needs to follow them, column by column", async () => {
    const { rows: columns } = await client.query<{ table: string; column: string }>(
      `SELECT c.relname AS table, a.attname AS column FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
       WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f') AND a.attnum > 0
         AND NOT a.attisdropped ORDER BY 1, 2`,
    );
    expect(columns.length).toBeGreaterThan(200);
    await client.query("SET ROLE signet_edge");
    const read: Record<string, string[]> = {};
    for (const { table, column } of columns) {
      const answer = await client.query(`SELECT "${column}" FROM "${table}" LIMIT 1`).then(
        () => "read",
        (error: unknown) => String(error),
      );
      if (!/permission denied/.test(answer)) {
        read[table] = [...(read[table] ?? []), answer === "read" ? column : answer];
      }
    }
    expect(read).toEqual(READABLE);
  });

  test("writes only what it has applied, and calls no function that acts for others", async () => {
    const { rows: written } = await client.query<{ table: string }>(
      `SELECT c.relname AS table FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
         AND (has_table_privilege('signet_edge', c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE, TRIGGER')
           OR has_any_column_privilege('signet_edge', c.oid, 'INSERT, UPDATE'))`,
    );
    expect(written).toEqual([{ table: "revocation_followers" }]);
    const { rows: callable } = await client.query(
      `SELECT p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosecdef
         AND has_function_privilege('signet_edge', p.oid, 'EXECUTE')`,
    );
    // They prove to hubs what this login may read anyway.
    expect(callable).toEqual([{ oid: "prove_revocations(bytea,text)" }, { oid: "revocation_snapshot()" }]);
    await client.query("SET ROLE signet_edge");
    await expect(client.query("CREATE TABLE mine (a int)")).rejects.toThrow(/permission denied for schema/);
    // A trigger on it would run a function of triggers as the owner.
    await expect(client.query("CREATE TEMP TABLE mine (a int)")).rejects.toThrow(
      /permission denied to create temporary tables/,
    );
  });

  test("is rejected if it has more privileges, and re-granting changes nothing", async () => {
    await expect(migrate(SERVICE_LOGIN)).rejects.toThrow(
      /"signet_service" must belong to the edges alone, but may also act as signet_api, /,
    );
    await migrate(login);
    await execute(database.adminUrl, `GRANT pg_read_all_data TO "${user}"`);
    await expect(migrate(login)).rejects.toThrow(/may also act as pg_read_all_data/);
  });
});
