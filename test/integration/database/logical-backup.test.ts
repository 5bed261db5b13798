/**
 * The restore drill of docs/operations.md, with its own commands and without a superuser, as on a managed PostgreSQL: an
 * owner that may only create roles migrates, a login with `signet_backup` dumps, also by the Helm chart's script, and the
 * owner restores into a new database. The service, a hub with its edge and a second cell continue on it.
 */
// oxlint-disable vitest/no-standalone-expect -- the databases are prepared by what is tested
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { describe, expect, inject, test } from "vitest";
import type { Environment } from "#config/config.ts";
import { migrateDatabase } from "#database/migrate.ts";
import { findSystemPostgres } from "#test/bench/environment/system-postgres.ts";
import { type OwnApi, useTestApi } from "#test/support/api.ts";
import { writeHubCertificates } from "#test/support/certificates.ts";
import { callOnce, CELL_SCOPES } from "#test/support/cells.ts";
import { checkpointSettings, openTestSigner } from "#test/support/checkpoints.ts";
import { labelledBlocks } from "#test/support/documents.ts";
import { EDGE_SCOPE, startEdgeProcesses, verdictOf } from "#test/support/edge-processes.ts";
import { eventually, PATIENCE_MS } from "#test/support/eventually.ts";
import { accessToken, provision, type Provisioned } from "#test/support/factories.ts";
import { freePorts } from "#test/support/free-port.ts";
import { createHubProcess } from "#test/support/hubs.ts";
import { allowMinutes } from "#test/support/limits.ts";
import {
  databaseOf,
  type ManagedDatabase,
  type ManagedServer,
  OWNER,
  startManagedServer,
} from "#test/support/managed-server.ts";
import { imageEnvironment, productionImage } from "#test/support/processes.ts";
import { startReceiver } from "#test/support/receiver-server.ts";
import { testNamespace } from "#test/support/services.ts";
import { skipUnless } from "#test/support/skips.ts";
import { useStarted } from "#test/support/started.ts";
import { execute, withDatabase } from "#test/support/test-database.ts";
import { asTenant, createTenant, renew, type Tenant, WEBHOOK_SCOPES } from "#test/support/tenant.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

allowMinutes(5);

const run = promisify(execFile);
const programs = await findSystemPostgres();
const skipped = skipUnless(
  programs !== undefined && existsSync(join(programs, "pg_dump")),
  "the restore drill",
  "PostgreSQL's server or pg_dump is missing; .ci/programs installs them",
);
const BACKUP = { user: "backup", password: "backup" };
const RESTORED = "restored";
/** Longer than the delay of the first retries. */
const RETRIED_MS = 240_000;
const [homePort = 0, usPort = 0] = await freePorts(2);
const [HOME_URL, US_URL] = [`http://127.0.0.1:${homePort}`, `http://127.0.0.1:${usPort}`];
const CELLS = { SIGNET_CELLS: `eu=${HOME_URL},us=${US_URL}`, SIGNET_PUBLIC_URL: HOME_URL };
const newSecret = (): string => randomBytes(32).toString("base64");
/** Settings of the home cell. Its secrets are kept beside a backup. */
const HOME = {
  ...CELLS,
  ...checkpointSettings(),
  SIGNET_CELL: "eu",
  SIGNET_API_LISTEN: `127.0.0.1:${homePort}`,
  SIGNET_KEK: newSecret(),
  SIGNET_PEPPER: newSecret(),
  SIGNET_LEASE_KEY: newSecret(),
};
const US = {
  ...CELLS,
  SIGNET_CELL: "us",
  SIGNET_API_LISTEN: `127.0.0.1:${usPort}`,
  SIGNET_KEK: newSecret(),
  SIGNET_PEPPER: newSecret(),
};

async function migrate({ url, ownerUrl }: ManagedDatabase): Promise<number> {
  const leaseKeys = [Buffer.from(HOME.SIGNET_LEASE_KEY, "base64")];
  return await migrateDatabase({
    timers: machineTimers,
    adminUrl: ownerUrl,
    serviceUrl: url,
    leaseKeys,
    nowMs: Date.now(),
  });
}

/** Returns the settings of the page's commands. */
function commandSettings(
  { url, ownerUrl }: ManagedDatabase,
  { server, namespace }: { readonly server: ManagedServer; readonly namespace: string },
): Environment {
  return {
    ...HOME,
    SIGNET_ENV: "development",
    SIGNET_DATABASE_URL: url,
    SIGNET_DATABASE_ADMIN_URL: ownerUrl,
    TEMPORAL_ADDRESS: inject("temporalAddress"),
    TEMPORAL_NAMESPACE: namespace,
    BACKUP_URL: withDatabase(server.superuserUrl, "signet", BACKUP),
  };
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

async function readPage(): Promise<string> {
  return await readFile(join(import.meta.dirname, "../../../docs/operations.md"), "utf8");
}

/** Runs a labelled block of the page in a shell, with `signet` and PostgreSQL's programs on its path. */
async function paste(
  label: string,
  { server, environment }: { readonly server: ManagedServer; readonly environment: Environment },
): Promise<{ code: number; output: string }> {
  const page = await readPage();
  const script = `signet() { node "$IMAGE/dist/src/processes/main.js" "$@"; }\n${labelledBlocks(page).get(label)}`;
  const shell = run("bash", ["-euo", "pipefail", "-c", script], {
    cwd: server.directory,
    env: {
      ...(environment as Record<string, string>),
      ...imageEnvironment(),
      IMAGE: productionImage(),
      HOME: server.directory,
      PATH: [programs, dirname(process.execPath), process.env["PATH"]].join(delimiter),
    },
  });
  return await shell.then(
    ({ stdout, stderr }) => ({ code: 0, output: stdout + stderr }),
    (error: { code: number; stdout: string; stderr: string }) => ({
      code: error.code,
      output: error.stdout + error.stderr,
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
  const server = useStarted("the server", async () => await startManagedServer(programs ?? ""));
  const receiver = useStarted("the receiver", async () => await startReceiver());
  const namespaces = useStarted("the namespaces", async () => ({
    eu: await testNamespace(),
    us: await testNamespace(),
    close: async () => await Promise.resolve(),
  }));
  let tenant: Tenant;
  let holder: Provisioned;
  let token: string;
  let rows: Readonly<Record<string, number | undefined>>;
  let vkey: string;

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
  const revoke = async (api: Pick<OwnApi, "admin">): Promise<void> => {
    const path = `/credentials/${holder.credentialId}/revoke`;
    expect(await api.admin("POST", path, { reason: "compromised" })).toMatchObject({ status: 200 });
  };
  const on = async (label: string, database: ManagedDatabase) => {
    const options = { server: server.current, namespace: namespaces.current.eu };
    const environment = { ...commandSettings(database, options), VKEY: vkey };
    return await paste(label, { server: server.current, environment });
  };

  /** Starts the home cell, then a hub with an edge behind it, then the cell `us`. */
  function useService(database: () => Promise<ManagedDatabase>, first?: typeof revoke) {
    let current: ManagedDatabase;
    const home = useTestApi({
      worker: true,
      environment: async () => await Promise.resolve({ ...HOME, TEMPORAL_NAMESPACE: namespaces.current.eu }),
      database: async () => {
        current = await database();
        return current;
      },
    });
    const edge = useStarted("a hub with an edge", async () => {
      await first?.(home);
      const settings = await writeHubCertificates(server.current.directory);
      const hub = await createHubProcess({ ...settings.hub, SIGNET_DATABASE_URL: current.url });
      await hub.start();
      const behind = { ...settings.edge, SIGNET_HUBS: hub.url, SIGNET_LEASE_KEY: HOME.SIGNET_LEASE_KEY };
      const processes = await startEdgeProcesses({ api: home, settings: [behind] });
      const [started] = processes.edges;
      return {
        verdict: async () => started && (await verdictOf(started, token)).outcome,
        close: async () => {
          await processes.close();
          await hub.process.stop("SIGKILL");
        },
      };
    });
    useTestApi({
      worker: true,
      environment: async () => {
        const login = { user: "cell_us", password: "cell_us" };
        const url = withDatabase(server.current.superuserUrl, current.name, login);
        const cell = { url, name: "us" };
        await migrateDatabase({ timers: machineTimers, adminUrl: current.ownerUrl, cell, nowMs: Date.now() });
        return { ...US, TEMPORAL_NAMESPACE: namespaces.current.us, SIGNET_HOME_DATABASE_URL: url };
      },
      database: async () => await create("us"),
    });
    return { home, edge };
  }

  /** Creates and migrates a database, if the other `describe` has not. */
  async function create(name: string): Promise<ManagedDatabase> {
    const database = databaseOf(server.current, name);
    await execute(server.current.superuserUrl, `CREATE DATABASE ${name} OWNER ${OWNER.user}`).catch(
      () => undefined,
    );
    await migrate(database);
    return database;
  }

  const statusInUs = async (): Promise<number> =>
    await eventually(async () => {
      const { status } = await callOnce(US_URL, token, "/v1/webhooks/endpoints");
      return status !== 503 && status;
    }, "the second cell to know the tenant and the revocations");

  describe("of a service whose owner is not a superuser", () => {
    const { home: api, edge } = useService(async () => await create("signet"));

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

    test("is dumped, and a revocation after that is in no dump", async () => {
      holder = await provision(api, { region: "us", scopes: [EDGE_SCOPE, ...CELL_SCOPES] });
      token = await accessToken(api, holder);
      expect(await statusInUs()).toBe(200);
      expect(await edge.current.verdict()).toBe("admitted");
      const signer = openTestSigner(api);
      vkey = signer.key.verifierKey;
      await signer.sign();
      const source = databaseOf(server.current, "signet");
      await execute(
        source.ownerUrl,
        `CREATE ROLE ${BACKUP.user} LOGIN NOINHERIT PASSWORD '${BACKUP.password}'; GRANT signet_backup TO ${BACKUP.user}; GRANT CONNECT ON DATABASE signet TO ${BACKUP.user}`,
      );
      expect(await on("backup-dump", source)).toMatchObject({ code: 0 });
      const [script, block] = [
        await chartScript(),
        labelledBlocks(await readPage()).get("backup-dump") ?? "",
      ];
      const options = block.match(/--(?!file|dbname)\S+/g) ?? [];
      expect(options.filter((option) => !script.includes(option))).toEqual([]);
      expect(options).toHaveLength(3);
      await backUp(server.current.directory, withDatabase(server.current.superuserUrl, "signet", BACKUP));
      const { tenants, credentials, endpoints, events, deliveries } = await countRows(source.adminUrl);
      rows = { tenants, credentials, endpoints, events, deliveries };
      await revoke(api);
      await signer.sign();
      await signer.close();
      expect(await statusInUs()).toBe(401);
      expect(await edge.current.verdict()).toBe("TOKEN_REVOKED");
    });
  });

  describe("restored into a new database by the page's steps", () => {
    const restored = async (): Promise<ManagedDatabase> => {
      const target = databaseOf(server.current, RESTORED);
      await execute(server.current.superuserUrl, `CREATE DATABASE ${RESTORED} OWNER ${OWNER.user}`);
      expect(await on("backup-restore", target)).toMatchObject({ code: 0 });
      expect(await countRows(target.adminUrl)).toMatchObject(rows);
      // Hours later.
      await execute(
        target.adminUrl,
        `UPDATE deliveries SET next_attempt_at = now() - interval '2 hours', claimed_at = now() - interval '3 hours'
          WHERE state = 'RETRYING'; DELETE FROM endpoint_health`,
      );
      expect(await on("backup-epoch", target)).toMatchObject({ code: 0 });
      const examined = await on("backup-examine", target);
      // `signet doctor` has exited with 0, or the shell would have ended before.
      for (const text of [
        "the database was restored at …, and workers go on with it once they start",
        "entry 6 and all later ones are missing",
      ]) {
        expect(await readPage()).toContain(`"${text}"`);
        expect(examined.output).toMatch(
          new RegExp(text.replace("…", String.raw`\S+`).replace("6", String.raw`\d+`)),
        );
      }
      expect(examined.code).toBe(1);
      return target;
    };
    const { home: api, edge } = useService(restored, revoke);

    test("serves its clients, delivers what was open and what is new, and adds up", async () => {
      receiver.current.answer([{ kind: "answer" }]);
      const back = await renew(api, asTenant(api, tenant, ""));
      await publish(back, "now.one");
      await untilDelivered(back, 22);
      await untilAddsUp(api, { accepted: 22, delivered: 22 });
    });

    test("a lost revocation that was repeated holds behind hubs and in the other cell", async () => {
      expect(await edge.current.verdict()).toBe("TOKEN_REVOKED");
      expect(await statusInUs()).toBe(401);
    });
  });
});
