/**
 * A restore drill without a superuser, as on a managed PostgreSQL: an owner that may only create roles migrates, a login
 * with `signet_backup` dumps by the Helm chart's script, and the owner restores into a new database, on which the service continues.
 */
// oxlint-disable vitest/no-standalone-expect -- the databases are prepared by what is tested
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { describe, expect, inject, test } from "vitest";
import { migrateDatabase } from "../../../src/database/migrate.ts";
import { findSystemPostgres, prepareSystemPostgres } from "../../bench/environment/system-postgres.ts";
import { type OwnApi, useTestApi } from "../../support/api.ts";
import { eventually, PATIENCE_MS } from "../../support/eventually.ts";
import { freePort } from "../../support/free-port.ts";
import { allowMinutes } from "../../support/limits.ts";
import { startReceiver } from "../../support/receiver-server.ts";
import { skipUnless } from "../../support/skips.ts";
import { useStarted } from "../../support/started.ts";
import {
  execute,
  SERVICE_LOGIN,
  type TestDatabase,
  THROWN_AWAY,
  withDatabase,
} from "../../support/test-database.ts";
import { asTenant, createTenant, renew, type Tenant, WEBHOOK_SCOPES } from "../../support/tenant.ts";

allowMinutes(5);

const run = promisify(execFile);
const programs = await findSystemPostgres();
const skipped = skipUnless(
  programs !== undefined && existsSync(join(programs, "pg_dump")),
  "the restore drill",
  "PostgreSQL's server or pg_dump is missing; .ci/programs installs them",
);
const OWNER = { user: "owner", password: "owner" };
const BACKUP = { user: "backup", password: "backup" };
const RESTORED = "restored";
/** Longer than the delay of the first retries. */
const RETRIED_MS = 240_000;
/** What is kept beside a backup. */
const SECRETS = {
  SIGNET_KEK: randomBytes(32).toString("base64"),
  SIGNET_PEPPER: randomBytes(32).toString("base64"),
};

/** A server of its own: roles belong to the whole server. */
interface Server {
  readonly directory: string;
  readonly superuserUrl: string;
  close(): Promise<void>;
}

async function startServer(): Promise<Server> {
  const directory = await mkdtemp(join(inject("runDirectory"), "backup-"));
  await chmod(directory, 0o755);
  const { url, launch } = await prepareSystemPostgres({
    programs: programs ?? "",
    directory,
    port: await freePort(),
    settings: THROWN_AWAY,
  });
  const launched = await launch();
  // What a provider's console does.
  await execute(
    url,
    `CREATE ROLE ${OWNER.user} LOGIN CREATEROLE NOSUPERUSER NOBYPASSRLS PASSWORD '${OWNER.password}'`,
  );
  return {
    directory,
    superuserUrl: url,
    close: async () => {
      await launched.stop();
      await rm(directory, { recursive: true });
    },
  };
}

function databaseOf({ superuserUrl }: Server, name: string): TestDatabase & { readonly ownerUrl: string } {
  return {
    name,
    url: withDatabase(superuserUrl, name, SERVICE_LOGIN),
    adminUrl: withDatabase(superuserUrl, name),
    ownerUrl: withDatabase(superuserUrl, name, OWNER),
    drop: async () => await Promise.resolve(),
  };
}

async function migrate({ url, ownerUrl }: ReturnType<typeof databaseOf>): Promise<number> {
  return await migrateDatabase({ adminUrl: ownerUrl, serviceUrl: url, nowMs: Date.now() });
}

async function countRows(url: string): Promise<Readonly<Record<string, number>>> {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>(
      "SELECT oid::regclass::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') ORDER BY 1",
    );
    const counts: Record<string, number> = {};
    for (const { name } of rows) {
      const counted = await client.query<{ count: number }>(`SELECT count(*)::int FROM ${name}`);
      counts[name] = counted.rows[0]?.count ?? 0;
    }
    return counts;
  } finally {
    await client.end();
  }
}

/** Returns the commands of the section on `pg_dump`, without those of psql. */
async function documentedCommands(): Promise<Readonly<Record<string, readonly string[]>>> {
  const text = await readFile(join(import.meta.dirname, "../../../docs/operations.md"), "utf8");
  const [, block = ""] = /\*\*With `pg_dump`\*\*[\s\S]*?```sh\n([\s\S]*?)```/.exec(text) ?? [];
  return Object.fromEntries(
    block
      .replaceAll("\\\n", " ")
      .split("\n")
      .filter((line) => line.startsWith("pg_"))
      .map((line) => {
        const [program = "", ...options] = line.split(/\s+/).filter((word) => word !== "");
        return [program, options.filter((option) => option.startsWith("--") && !option.includes("$"))];
      }),
  );
}

/** Returns the script of the Helm chart's backup, which has no template in it. */
async function chartScript(): Promise<string> {
  const template = join(import.meta.dirname, "../../../deploy/helm/signet/templates/backup.yaml");
  const [, script = ""] = /- \|\n([\s\S]*?)\n +env:/.exec(await readFile(template, "utf8")) ?? [];
  return script;
}

/** Backs up with the chart's script into a directory that has two dumps, of which one is to stay. @returns the new dump */
async function backUp(directory: string, url: string): Promise<string> {
  const urlFile = join(directory, "backup-url");
  const dumps = join(directory, "dumps");
  const [oldest, older] = ["signet-20260101T000000Z.dump", "signet-20260102T000000Z.dump"] as const;
  await mkdir(dumps);
  await Promise.all([oldest, older].map(async (name) => await writeFile(join(dumps, name), "")));
  await writeFile(urlFile, url);
  await run("sh", ["-euc", await chartScript()], {
    env: {
      PATH: `${programs}:${process.env["PATH"]}`,
      BACKUP_DIRECTORY: dumps,
      BACKUP_URL_FILE: urlFile,
      BACKUP_KEEP: "2",
    },
  });
  const kept = (await readdir(dumps)).toSorted();
  expect(kept).toHaveLength(2);
  expect(kept[0]).toBe(older);
  return join(dumps, kept[1] ?? "");
}

/** Waits until the reconciliation of the last hour adds up to these counts. */
async function untilAddsUp(api: Pick<OwnApi, "admin">, counted: object): Promise<void> {
  const since = new Date(Date.now() - 3_600_000).toISOString();
  await expect
    .poll(async () => await api.admin("GET", `/reconciliation?since=${since}`), { timeout: PATIENCE_MS })
    .toMatchObject({ status: 200, body: { adds_up: true, counted } });
}

describe.skipIf(skipped)("a logical backup", () => {
  const server = useStarted("the server", startServer);
  const receiver = useStarted("the receiver", async () => await startReceiver());
  let tenant: Tenant;
  let rows: Readonly<Record<string, number>>;

  const publish = async (as: Tenant, type: string): Promise<void> => {
    expect(await as.post("/v1/events", { type, data: {} })).toMatchObject({ status: 202 });
  };
  const untilDelivered = async (as: Tenant, count: number): Promise<void> => {
    await eventually(
      async () => {
        const { body } = await as.get("/v1/webhooks/deliveries?state=DELIVERED&limit=100");
        return (body["data"] as readonly unknown[]).length === count;
      },
      `${count} deliveries`,
      RETRIED_MS,
    );
  };

  describe("of a service whose owner is not a superuser", () => {
    const api = useTestApi({
      worker: true,
      environment: SECRETS,
      database: async () => {
        const { superuserUrl } = server.current;
        await execute(superuserUrl, `CREATE DATABASE signet OWNER ${OWNER.user}`);
        const database = databaseOf(server.current, "signet");
        expect(await migrate(database)).toBeGreaterThan(0);
        return database;
      },
    });

    test("has events that were delivered and one that was not", async () => {
      tenant = await createTenant(api, [...WEBHOOK_SCOPES]);
      for (const type of ["now.one", "later.one"]) {
        const url = `${receiver.current.url}/${type}`;
        const { body } = await tenant.post("/v1/webhooks/endpoints", { url, events: [type] });
        await eventually(
          async () =>
            (await tenant.get(`/v1/webhooks/endpoints/${String(body["id"])}`)).body["state"] === "ACTIVE",
          "the endpoint to be ACTIVE",
        );
      }
      receiver.current.answer(({ path }) => ({ kind: "answer", status: path === "/later.one" ? 500 : 200 }));
      await publish(tenant, "later.one");
      for (let count = 0; count < 20; count += 1) {
        await publish(tenant, "now.one");
      }
      await untilDelivered(tenant, 20);
      await untilAddsUp(api, { delivered: 20, open: 1 });
    });
  });

  describe("restored into a new database", () => {
    const api = useTestApi({
      worker: true,
      environment: SECRETS,
      database: async () => {
        const { superuserUrl, directory } = server.current;
        const source = databaseOf(server.current, "signet");
        const target = databaseOf(server.current, RESTORED);
        const { pg_dump: dumpOptions = [], pg_restore: restoreOptions = [] } = await documentedCommands();
        await execute(
          source.ownerUrl,
          `CREATE ROLE ${BACKUP.user} LOGIN NOINHERIT PASSWORD '${BACKUP.password}'; GRANT signet_backup TO ${BACKUP.user}; GRANT CONNECT ON DATABASE signet TO ${BACKUP.user}`,
        );
        rows = await countRows(source.adminUrl);
        const script = await chartScript();
        const differ = dumpOptions.filter(
          (option) => !option.startsWith("--file=") && !script.includes(option),
        );
        expect(differ).toEqual([]);
        const dump = await backUp(directory, withDatabase(superuserUrl, "signet", BACKUP));
        await execute(superuserUrl, `CREATE DATABASE ${RESTORED} OWNER ${OWNER.user}`);
        await execute(target.ownerUrl, "GRANT CREATE, USAGE ON SCHEMA public TO signet_owner");
        await run(join(programs ?? "", "pg_restore"), [
          ...restoreOptions,
          `--dbname=${target.ownerUrl}`,
          dump,
        ]);
        expect(await countRows(target.adminUrl)).toEqual(rows);
        expect(await migrate(target)).toBe(0);
        await execute(
          target.ownerUrl,
          "SET ROLE signet_owner; UPDATE rev_clock SET epoch = gen_random_uuid()",
        );
        return target;
      },
    });

    test("serves its clients, delivers what was open and what is new, and adds up", async () => {
      receiver.current.answer([{ kind: "answer" }]);
      expect(rows["tenants"]).toBe(1);
      const back = await renew(api, asTenant(api, tenant, ""));
      await publish(back, "now.one");
      await untilDelivered(back, 22);
      await untilAddsUp(api, { accepted: 22, delivered: 22 });
    });
  });
});
