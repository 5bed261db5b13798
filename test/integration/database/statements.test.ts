/** Each statement of the program may be run by the role of each pool that runs it: asked of PostgreSQL, which plans it. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { SERVICE_ROLES } from "#database/pool.ts";
import { createTestDatabase } from "#test/support/services.ts";
import type { TestDatabase } from "#test/support/test-database.ts";
import { findStatements, type FoundStatement } from "#test/support/statements/find.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

/** Rights on tables whose row-level security has no policy for the role and the command: it would see no row. */
const WITHOUT_POLICY = `
  SELECT format('%s: %s on %s', role, command, c.relname) AS lacking
  FROM unnest($1::text[]) AS role CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS command
  JOIN pg_class c ON c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') AND c.relrowsecurity
  WHERE CASE command WHEN 'DELETE' THEN has_table_privilege(role, c.oid, command)
      ELSE has_any_column_privilege(role, c.oid, command) END
    AND NOT EXISTS (SELECT FROM pg_policy p WHERE p.polrelid = c.oid AND p.polpermissive
      AND p.polcmd IN ('*', CASE command WHEN 'SELECT' THEN 'r' WHEN 'INSERT' THEN 'a' WHEN 'UPDATE' THEN 'w' ELSE 'd' END)
      AND (0 = ANY (p.polroles) OR EXISTS (SELECT FROM unnest(p.polroles) r WHERE r <> 0 AND pg_has_role(role, r, 'USAGE'))))
  ORDER BY 1`;

let database: TestDatabase;
let client: Client;
let found: readonly FoundStatement[];

beforeAll(async () => {
  found = findStatements();
  database = await createTestDatabase();
  await migrateDatabase({
    timers: machineTimers,
    adminUrl: database.adminUrl,
    serviceUrl: database.url,
    nowMs: Date.now(),
  });
  client = new Client({ connectionString: database.adminUrl });
  await client.connect();
}, 300_000);

afterAll(async () => {
  await client.end();
  await database.drop();
});

/**
 * Variants that the parts of a statement would permit and the program never composes, by function: part of PostgreSQL's
 * answer, and why.
 */
const NEVER_COMPOSED: Readonly<Record<string, readonly [answer: RegExp, why: string]>> = {
  findById: [
    /column x\.\w+ does not exist/,
    "each kind has its own label, and only some are found by their day",
  ],
  matchEndpoints: [/column "endpoints" does not exist/, "a match always lists its endpoints"],
  insertEvents: [/column n\.endpoints does not exist/, "the insert compares matches and lists no endpoints"],
  takeOutOfUse: [
    /signet_api: permission denied for table (?:principals|tenants)/,
    "tenants revoke credentials; operators revoke the others",
  ],
};

/** PostgreSQL checks the rights of a plan before it runs, and EXPLAIN ends there. A lock is taken, and let go at once. */
function questionFor(text: string): string {
  if (/^(?:BEGIN|COMMIT|FETCH)\b/.test(text)) {
    return "SELECT";
  }
  return /^\s*(?:SET|LOCK)\b/.test(text) ? text : `EXPLAIN (GENERIC_PLAN) ${text}`;
}

async function refusal(role: string, text: string): Promise<string | undefined> {
  await client.query(`BEGIN; SET LOCAL ROLE ${role}`);
  try {
    await client.query(questionFor(text));
    return undefined;
  } catch (error) {
    return `as ${role}: ${(error as Error).message}`;
  } finally {
    await client.query("ROLLBACK");
  }
}

async function refusals({ place, roles, texts }: FoundStatement): Promise<string[]> {
  const lacking = new Set<string>();
  const [never] = NEVER_COMPOSED[place.split(" ")[1] ?? ""] ?? [];
  for (const text of texts) {
    for (const role of roles) {
      const answer = await refusal(role, text);
      if (answer !== undefined && never?.test(answer) !== true) {
        lacking.add(`${place} ${answer}`);
      }
    }
  }
  return [...lacking];
}

describe("every statement of the program", () => {
  test("is found, with its text and with the roles that it runs as", () => {
    expect(found.length).toBeGreaterThan(300);
    const open = found.filter(
      ({ roles, texts, unknown }) => roles.length * texts.length === 0 || unknown.length > 0,
    );
    expect(
      open.map(({ place, roles, unknown }) => `${place}: ${roles.join(" ")} ${unknown.join(" ")}`),
    ).toEqual([]);
  });

  test("may be run by the role of each pool that runs it", async () => {
    const lacking: string[] = [];
    for (const statement of found) {
      lacking.push(...(await refusals(statement)));
    }
    expect(lacking).toEqual([]);
  });

  test("finds a policy of row-level security wherever its role has a right", async () => {
    const { rows } = await client.query<{ lacking: string }>(WITHOUT_POLICY, [SERVICE_ROLES]);
    expect(rows.map(({ lacking }) => lacking)).toEqual([]);
  });
});
