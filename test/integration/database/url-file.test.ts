/** Logins rotate while the service runs: SIGNET_DATABASE_URL_FILE is read at each new connection. */
import { randomBytes } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { currentUrl, withUrlFile } from "#config/url-file.ts";
import { isDatabaseAway } from "#database/errors.ts";
import { createPool, type Pool, SERVICE_ROLES } from "#database/pool.ts";
import { createLogger } from "#observability/logger.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { grant, provision, type Provisioned } from "#test/support/factories.ts";
import {
  copyTemplate,
  execute,
  retireLogins,
  type TestDatabase,
  withDatabase,
} from "#test/support/test-database.ts";
import { sql } from "#test/support/tenant.ts";

const directory = mkdtempSync(join(tmpdir(), "signet-url-"));
const path = join(directory, "url");
/** The logins of the database. */
let [first, second] = ["", ""];
/** With characters that a URL must encode, as tokens have. */
const newPassword = (): string => `p@ss/${randomBytes(12).toString("base64")}`;
let database: TestDatabase;

function writeUrl(user: string, password: string): void {
  const url = withDatabase(database.adminUrl, database.name, {
    user,
    password: encodeURIComponent(password),
  });
  writeFileSync(`${path}.new`, `${url}\n`);
  renameSync(`${path}.new`, path);
}

async function setPassword(user: string, password: string): Promise<void> {
  await execute(inject("databaseUrl"), `ALTER ROLE ${user} PASSWORD '${password}'`);
}

async function prepare(): Promise<TestDatabase> {
  const made = await copyTemplate(inject("databaseUrl"));
  database = made;
  const password = newPassword();
  const suffix = randomBytes(6).toString("hex");
  [first, second] = [`first_${suffix}`, `second_${suffix}`];
  for (const user of [first, second]) {
    await execute(
      inject("databaseUrl"),
      `CREATE ROLE ${user} LOGIN NOINHERIT PASSWORD '${password}'; GRANT ${SERVICE_ROLES.join(", ")} TO ${user}`,
    );
  }
  writeUrl(first, password);
  return {
    ...made,
    drop: async () => {
      await made.drop();
      await retireLogins(inject("databaseUrl"), [first, second]);
    },
  };
}

describe("an api under load", () => {
  const api = useTestApi({
    database: prepare,
    environment: { SIGNET_DATABASE_URL: undefined, SIGNET_DATABASE_URL_FILE: path },
  });
  let client: Provisioned;
  const statuses = new Map<number, number>();
  const load: Promise<void>[] = [];
  let loaded = true;

  async function request(): Promise<number> {
    const { status } = await api.token(grant(client));
    statuses.set(status, (statuses.get(status) ?? 0) + 1);
    return status;
  }

  const addLoad = (count: number): void => {
    for (let index = 0; index < count; index += 1) {
      load.push(
        (async () => {
          // oxlint-disable-next-line no-unmodified-loop-condition -- the test changes it
          while (loaded) {
            await request();
          }
        })(),
      );
    }
  };

  async function sessionsOf(user: string): Promise<number> {
    const [row] = await sql<{ count: number }>(
      api,
      "SELECT count(*)::int FROM pg_stat_activity WHERE usename = $1 AND datname = current_database()",
      [user],
    );
    return row?.count ?? 0;
  }

  /** As when the server restarts. */
  async function endSessions(user: string): Promise<void> {
    await sql(api, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1", [user]);
  }

  beforeAll(async () => {
    client = await provision(api);
    addLoad(4);
  });
  afterAll(async () => {
    loaded = false;
    await Promise.all(load);
  });

  test("takes over another login without a failed request", async () => {
    await eventually(() => (statuses.get(200) ?? 0) > 20, "requests");
    expect(await sessionsOf(second)).toBe(0);
    const password = newPassword();
    await setPassword(second, password);
    writeUrl(second, password);
    // Of the pools, one that is not in use yet opens its first connection.
    expect(await api.admin("GET", "/audit?limit=1")).toMatchObject({ status: 200 });
    await eventually(async () => (await sessionsOf(second)) > 0, "a session of the other login");
    expect(Object.fromEntries(statuses)).toEqual({ 200: statuses.get(200) });
  });

  test("takes over a new password: only requests without a connection fail, with 503, until the file has it", async () => {
    const password = newPassword();
    await setPassword(second, password);
    await endSessions(first);
    await endSessions(second);
    // The file still has the old password.
    await eventually(() => (statuses.get(503) ?? 0) > 0, "requests that find no connection");
    writeUrl(second, password);
    await eventually(async () => (await request()) === 200, "the new password to work");
    expect(await sessionsOf(first)).toBe(0);
    const served = statuses.get(200) ?? 0;
    await eventually(() => (statuses.get(200) ?? 0) > served + 20, "further requests");
    expect([...statuses.keys()].toSorted((a, b) => a - b)).toEqual([200, 503]);
  });
});

describe("a pool", () => {
  let made: TestDatabase;
  let pool: Pool;
  const own = join(directory, "own");

  beforeAll(async () => {
    made = await prepare();
    writeFileSync(own, made.url);
    const log = createLogger({ level: "silent" });
    pool = createPool({ url: withUrlFile(made.url, own), role: "signet_api", max: 1, log });
  });
  afterAll(async () => {
    await pool.end();
    await made.drop();
    rmSync(directory, { recursive: true });
  });

  test.each([
    ["no file", () => rmSync(own)],
    ["an empty file", () => writeFileSync(own, "")],
    ["a file without a URL", () => writeFileSync(own, "secret")],
  ])("with %s has no connection, says so without the content, and recovers", async (_what, spoil) => {
    spoil();
    const failure = await pool.connect().catch((error: unknown) => error);
    expect(String(failure)).toContain(own);
    expect(String(failure)).not.toContain("secret");
    expect(isDatabaseAway(failure)).toBe(true);
    writeFileSync(own, made.url);
    const held = await pool.connect();
    expect((await held.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    held.release(true);
  });
});

test("only the login is read again: host, database and TLS stay as checked", () => {
  const other = join(directory, "..", `signet-url-${randomBytes(6).toString("hex")}`);
  writeFileSync(other, "postgres://new:p%40ss@elsewhere:1/other?sslmode=disable");
  const named = withUrlFile("postgres://old:old@here:5432/signet?sslmode=verify-full", other);
  expect(currentUrl(named)).toBe("postgres://new:p%40ss@here:5432/signet?sslmode=verify-full");
  expect(currentUrl("postgres://old:old@here:5432/signet")).toBe("postgres://old:old@here:5432/signet");
  rmSync(other);
});
