/** Functions that are marked PARALLEL SAFE run in parallel plans, on every supported version of PostgreSQL. */
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";

const api = useTestApi();
let client: Client;

beforeAll(async () => {
  client = new Client({ connectionString: api.database.adminUrl });
  await client.connect();
});
afterAll(async () => {
  await client.end();
});

interface SafeFunction {
  readonly name: string;
  readonly source: string;
}

/** What a body must not contain. PostgreSQL 15 and 16 refuse a subtransaction also in the leader of a parallel plan. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  "a subtransaction": /\bEXCEPTION\s+WHEN\b/i,
  "a write": /\b(?:INSERT|UPDATE|DELETE|MERGE|TRUNCATE|COPY|CREATE|ALTER|DROP|GRANT|REVOKE|LOCK|NOTIFY)\b/i,
  "a lock of rows": /\bFOR\s+(?:NO\s+KEY\s+)?(?:UPDATE|SHARE|KEY\s+SHARE)\b/i,
  "a change of settings": /\b(?:SET\s+(?:LOCAL|SESSION)|RESET|DISCARD)\b/i,
  "text as a statement": /\bEXECUTE\b/i,
};

/** Returns what keeps a function from being safe. @param unsafe names of functions that workers cannot call */
function faults({ name, source }: SafeFunction, unsafe: ReadonlySet<string>): string[] {
  const code = source.replaceAll(/--.*$/gm, "");
  const found = Object.entries(REFUSED).flatMap(([what, pattern]) => (pattern.test(code) ? [what] : []));
  const calls = [...code.matchAll(/\b([a-z_][a-z0-9_]*)\s*\(/g)].flatMap(([, called = ""]) =>
    unsafe.has(called) ? [`a call of ${called}`] : [],
  );
  return [...found, ...calls].map((what) => `${name} has ${what}`);
}

describe("a function that is marked PARALLEL SAFE", () => {
  test("has no subtransaction, writes nothing, and calls no function that workers cannot call", async () => {
    const { rows: safe } = await client.query<SafeFunction>(
      `SELECT p.oid::regprocedure::text AS name, coalesce(pg_get_function_sqlbody(p.oid), p.prosrc) AS source
        FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proparallel = 's'
          AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')`,
    );
    // Functions that read what only a session has are restricted: cursors, temporary tables, the state of a sequence.
    const { rows: others } = await client.query<{ proname: string }>(
      "SELECT proname FROM pg_proc GROUP BY proname HAVING bool_and(proparallel <> 's')",
    );
    const unsafe = new Set(others.map(({ proname }) => proname));
    expect(safe.map(({ name }) => name)).toContain("metadata_matches(text,jsonb)");
    expect(unsafe).toContain("set_config");
    expect(safe.flatMap((each) => faults(each, unsafe))).toEqual([]);
  });

  test("is found if it has one of these faults", () => {
    const unsafe = new Set(["nextval"]);
    const of = (source: string): string[] => faults({ name: "f()", source }, unsafe);
    expect(of("BEGIN RETURN 1; EXCEPTION WHEN others THEN RETURN 0; END")).toEqual([
      "f() has a subtransaction",
    ]);
    expect(of("SELECT nextval('s')")).toEqual(["f() has a call of nextval"]);
    expect(of("DELETE FROM tenants")).toEqual(["f() has a write"]);
    expect(of("SELECT id FROM tenants -- FOR UPDATE")).toEqual([]);
  });
});

describe("metadata that PostgreSQL cannot show as text", () => {
  const matches = async (
    metadata: string | null,
    wanted: Readonly<Record<string, string>>,
  ): Promise<boolean> => {
    const { rows } = await client.query<{ m: boolean }>("SELECT metadata_matches($1, $2) AS m", [
      metadata,
      JSON.stringify(wanted),
    ]);
    return rows[0]?.m ?? false;
  };

  test.each([
    ["an escaped NUL", String.raw`"\u0000"`],
    ["an escaped NUL after a backslash", String.raw`"\\\u0000"`],
    ["the first half of a pair", String.raw`"\ud83d"`],
    ["the second half of a pair", String.raw`"\uDE00"`],
    ["a pair in the wrong order", String.raw`"\ude00\ud83d"`],
    ["two first halves and a second one", String.raw`"\ud83d\ud83d\ude00"`],
    ["halves with a backslash between them", String.raw`"\ud83d\\\ude00"`],
  ])("match nothing: %s", async (_, value) => {
    expect(await matches(`{"a":"b","c":${value}}`, { a: "b" })).toBe(false);
    await expect(client.query("SELECT $1::json ->> 'a'", [`{"a":"b","c":${value}}`])).rejects.toThrow(
      /Unicode|json/,
    );
  });

  test.each([
    [String.raw`"\\u0000"`, String.raw`\u0000`],
    [String.raw`"\\ud83d"`, String.raw`\ud83d`],
    [String.raw`"\\\\u0000"`, String.raw`\\u0000`],
    [String.raw`"\uD83D\uDE00"`, "😀"],
    [String.raw`"\u0001"`, "\u0001"],
  ])("is not what %s is", async (value, text) => {
    expect(await matches(`{"a":${value}}`, { a: text })).toBe(true);
    expect(await matches(null, { a: text })).toBe(false);
  });
});
