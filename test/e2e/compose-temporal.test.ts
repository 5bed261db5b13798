/**
 * docker-compose.yml's Temporal as the real server: its schema job and its server run as processes with the file's own
 * commands and environment, on a TLS-only PostgreSQL. They must refuse clients without a certificate.
 */
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { loadConfig } from "../../src/config/config.ts";
import { checkNamespace, createLazyClient, temporalOptions } from "../../src/temporal/client.ts";
import { ensureNamespace } from "../../src/temporal/namespace.ts";
import { Client, type QueryResult } from "pg";
import { temporalDirectory } from "../bench/environment/temporal-programs.ts";
import { CACHE } from "../support/cache.ts";
import { type ComposeFile, parseCompose } from "../support/compose-file.ts";
import { type ComposeServers, startServers, VOLUMES } from "../support/compose-servers.ts";
import { savedViews, shellLines } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import { freePorts } from "../support/free-port.ts";
import { runProcess, type SpawnedProcess, spawnProcess } from "../support/processes.ts";
import { startKnownWorkflows } from "../support/known-workflows.ts";
import { allowMinutes } from "../support/limits.ts";
import { skipUnless } from "../support/skips.ts";
import { paste } from "../support/temporal-cli.ts";
import { execute } from "../support/test-database.ts";

allowMinutes(4);

const PASSWORDS = {
  POSTGRES_PASSWORD: "a",
  TEMPORAL_DATABASE_PASSWORD: "b",
  SIGNET_DATABASE_PASSWORD: "c",
  SIGNET_EDGE_DATABASE_PASSWORD: "d",
};

/** The images' programs. */
const BUILT = temporalDirectory(CACHE);
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** The jobs on Temporal's databases, in order. */
const JOBS = ["temporal-indexes-back", "temporal-schema", "temporal-indexes"] as const;
const NOT_BUILT = skipUnless(
  [join(BUILT, "server"), join(BUILT, "sql"), "/usr/bin/psql"].every(existsSync),
  "the tests of Temporal's own server with TLS",
  `${BUILT} or /usr/bin/psql does not exist; .ci/programs fetches them`,
);

describe.skipIf(NOT_BUILT)("the real Temporal of docker-compose.yml", () => {
  let file: ComposeFile;
  let servers: ComposeServers;
  let home: string;
  let server: SpawnedProcess;
  let address: string;

  /** Returns a service's environment, with PostgreSQL's address replaced. */
  function environmentOf(name: string): Record<string, string> {
    const { hostname, port } = new URL(servers.databaseUrl);
    const given = { ...file.services[name]?.environment };
    for (const [variable, value] of Object.entries(given)) {
      given[variable] = value.replace(VOLUMES, servers.volumes).replace(/^postgres$/, hostname);
    }
    const ports = ["SQL_PORT", "DB_PORT", "PGPORT"].filter((variable) => variable in given);
    return { ...given, ...Object.fromEntries(ports.map((variable) => [variable, port])) };
  }

  /** Runs a job of the file, with another visibility database if one is given. */
  async function runJob(name: string, visibility = "temporal_visibility"): Promise<void> {
    const { command = [], configs = [] } = file.services[name] ?? {};
    const scripts = configs.map(({ source, target }): [string, string] => [
      target,
      join(REPOSITORY, file.configs[source]?.file ?? ""),
    ]);
    const replaced = scripts.reduce(
      (words, [target, path]) => words.map((word) => word.replace(target, path)),
      command.map((word) => word.replaceAll("temporal_visibility", visibility)),
    );
    const environment = environmentOf(name);
    await runProcess({
      command: replaced,
      cwd: home,
      environment: {
        ...environment,
        ...("PGDATABASE" in environment ? { PGDATABASE: visibility } : {}),
        PATH: `${home}:/usr/bin:/bin`,
      },
    });
  }

  async function makeSchema(): Promise<void> {
    const login = file.configs["temporal-login"]?.content ?? "";
    await execute(servers.databaseUrl, login);
    await symlink(join(BUILT, "sql"), join(home, "temporal-sql-tool"));
    for (const job of JOBS) {
      await runJob(job);
    }
  }

  /** Starts it on free ports of loopback, which the entrypoint chooses in a container. */
  async function startTemporal(): Promise<void> {
    const names = ["FRONTEND", "HISTORY", "MATCHING", "WORKER"];
    const ports = await freePorts(2 * names.length + 1);
    const own = names.flatMap((name, index) => [
      [`${name}_GRPC_PORT`, String(ports[2 * index])],
      [`${name}_MEMBERSHIP_PORT`, String(ports[2 * index + 1])],
    ]);
    const dynamic = join(home, "dynamic-config.yaml");
    await writeFile(dynamic, file.configs["temporal-dynamic-config"]?.content ?? "");
    server = spawnProcess({
      command: [join(BUILT, "server"), "start"],
      cwd: home,
      environment: {
        ...environmentOf("temporal"),
        ...(Object.fromEntries(own) as Record<string, string>),
        FRONTEND_HTTP_PORT: String(ports.at(-1)),
        BIND_ON_IP: "127.0.0.1",
        DYNAMIC_CONFIG_FILE_PATH: dynamic,
        HOME: home,
      },
    });
    address = `127.0.0.1:${ports[0]}`;
  }

  /** Returns the connection options of the service `migrate`, with changes. */
  function optionsOf(changed: Readonly<Record<string, string>>): ReturnType<typeof temporalOptions> {
    const settings = Object.entries(environmentOf("migrate")).filter(([name]) =>
      name.startsWith("TEMPORAL_"),
    );
    const environment = { ...(Object.fromEntries(settings) as Record<string, string>), ...changed };
    const config = loadConfig({ ...environment, SIGNET_ENV: "development" });
    return temporalOptions({ ...config, temporalAddress: address });
  }

  async function ask(changed: Readonly<Record<string, string>>): Promise<void> {
    const client = createLazyClient(optionsOf(changed));
    try {
      await checkNamespace(client);
    } finally {
      await client.connection.close();
    }
  }

  /** On a busy machine, an answer may take longer than it may for readiness. */
  async function untilAnswered(): Promise<void> {
    await eventually(async () => {
      await ask({});
      return true;
    }, "Temporal to answer");
  }

  beforeAll(async () => {
    file = parseCompose(
      await readFile(new URL("../../docker-compose.yml", import.meta.url), "utf8"),
      PASSWORDS,
    );
    servers = await startServers(file);
    home = await mkdtemp(join(inject("runDirectory"), "temporal-"));
    await makeSchema();
    await startTemporal();
    const client = createLazyClient(optionsOf({}));
    await eventually(
      async () => {
        await ensureNamespace(client.connection, optionsOf({}));
        return true;
      },
      "the namespace",
      120_000,
    );
    await client.connection.close();
  });

  afterAll(async () => {
    await server.stop();
    await servers.close();
    await rm(home, { recursive: true });
  });

  test("serves the service's certificate, and its own workflows run, so its services trust each other", async () => {
    await untilAnswered();
    // Temporal's own worker runs a schedule's workflow; it connects to the frontend with a certificate too.
    const client = createLazyClient(optionsOf({}));
    try {
      const handle = await client.schedule.create({
        scheduleId: "probe",
        spec: {},
        action: { type: "startWorkflow", workflowType: "none", taskQueue: "none", workflowId: "started" },
      });
      await handle.trigger();
      const workflows = client.workflow;
      await eventually(
        async () => {
          for await (const { type } of workflows.list()) {
            if (type === "none") {
              return true;
            }
          }
          return false;
        },
        "the workflow of the schedule",
        120_000,
      );
    } finally {
      await client.connection.close();
    }
  });

  test("connects to PostgreSQL only with TLS", async () => {
    const sql = new Client({ connectionString: servers.databaseUrl });
    await sql.connect();
    const { rows } = await sql.query<{ ssl: boolean; version: string }>(
      "SELECT DISTINCT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'temporal'",
    );
    expect(rows).toEqual([{ ssl: true, version: "TLSv1.3" }]);
    // No other network access is possible; a base backup is taken inside the container.
    const { rows: ways } = await sql.query<{ type: string; database: readonly string[] }>(
      "SELECT type, database FROM pg_hba_file_rules WHERE error IS NULL ORDER BY rule_number",
    );
    await sql.end();
    expect(ways).toEqual([
      { type: "local", database: ["all"] },
      { type: "local", database: ["replication"] },
      { type: "hostssl", database: ["all"] },
    ]);
  });

  test("accepts the saved views and its commands in docs/operations.md, unchanged", async () => {
    const client = createLazyClient(optionsOf({}));
    const shell = async (lines: string): Promise<string> =>
      await paste(address, `cd ${home}\n${lines.replaceAll("localhost:7233", address)}`);
    try {
      const expected = await startKnownWorkflows(client);
      // The engine would run this command, which prints the certificates.
      await writeFile(join(home, "internal-ca.crt"), await servers.init("internal-ca"));
      await writeFile(join(home, "temporal.pem"), await servers.init("temporal", "anna"));
      const [line = "exit 1"] = (await shellLines("docs/operations.md"))
        .map(({ text }) => text)
        .filter((text) => text.startsWith("temporal ") && text.includes("--tls-"));
      const list = async (query: string): Promise<readonly string[]> => {
        const printed = await shell(`${line} --output json --query '${query}'`);
        const found = JSON.parse(printed) as readonly {
          readonly execution: { readonly workflowId: string };
        }[];
        return found.map(({ execution }) => execution.workflowId).sort();
      };
      const views = await savedViews();
      expect(views.map(([name]) => name)).toEqual(Object.keys(expected));
      for (const [name, query] of views) {
        const filled = query
          .replaceAll(/(dlv|ep|ten)_…/g, "$1_known")
          .replace(/"\d{4}-[^"]+"/, `"${new Date(Date.now() + 60_000).toISOString()}"`);
        await eventually(
          async () => {
            const found = await list(filled);
            expect({ name, found }).toEqual({ name, found: expected[name] });
            return true;
          },
          `the view ${name}`,
          30_000,
        );
        expect((await client.workflow.count(filled)).count).toBe(expected[name]?.length);
      }
    } finally {
      await client.connection.close();
    }
  });

  describe("visibility indexes", () => {
    /** Returns definitions by name, and the schema's version. */
    async function indexesOf(
      database: string,
    ): Promise<{ version: string; indexes: ReadonlyMap<string, string> }> {
      const url = new URL(servers.databaseUrl);
      url.pathname = `/${database}`;
      const { rows } = await query(url.href, "SELECT curr_version AS version FROM schema_version");
      const { rows: found } = await query(
        url.href,
        "SELECT indexname, indexdef FROM pg_indexes JOIN pg_index ON indexrelid = to_regclass(indexname)" +
          " WHERE tablename = 'executions_visibility' AND indisvalid",
      );
      return {
        version: String(rows[0]?.["version"]),
        indexes: new Map(found.map(({ indexname, indexdef }) => [String(indexname), String(indexdef)])),
      };
    }

    async function query(url: string, sql: string): Promise<QueryResult<Record<string, unknown>>> {
      const client = new Client({ connectionString: url });
      await client.connect();
      try {
        return await client.query(sql);
      } finally {
        await client.end();
      }
    }

    /** Creates a visibility database of a version of the schema. */
    async function makeOlder(database: string, version: string): Promise<void> {
      const tool = async (...words: readonly string[]): Promise<string> =>
        await runProcess({
          command: [join(BUILT, "sql"), "--database", database, ...words],
          cwd: home,
          environment: environmentOf("temporal-schema"),
        });
      await tool("create-database");
      await tool("setup-schema", "--version", "0.0");
      await tool("update-schema", "--schema-name", "postgresql/v12/visibility", "--version", version);
    }

    test("are dropped or partial; a second run changes nothing, and all come back", async () => {
      const newest = file.services["temporal-indexes"]?.environment?.["SCHEMA_VERSION"] ?? "";
      await makeOlder("again_visibility", newest);
      const all = await indexesOf("again_visibility");
      await runJob("temporal-indexes", "again_visibility");
      const pruned = await indexesOf("again_visibility");
      const partial = [...pruned.indexes.values()].filter((definition) => definition.includes(" WHERE "));
      expect([all.indexes.size, pruned.indexes.size, partial.length]).toEqual([74, 39, 13]);
      for (const job of [...JOBS, "temporal-indexes"]) {
        await runJob(job, "again_visibility");
      }
      expect(await indexesOf("again_visibility")).toEqual(pruned);
      // An interrupted run leaves an invalid index of the same name.
      const url = new URL(servers.databaseUrl);
      url.pathname = "/again_visibility";
      await query(url.href, "CREATE INDEX by_text_03 ON executions_visibility (run_id)");
      await query(
        url.href,
        "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'by_text_03'::regclass",
      );
      const restore = [
        "psql",
        url.href,
        "--file",
        join(REPOSITORY, "compose/restore-visibility-indexes.sql"),
      ];
      for (let times = 0; times < 2; times += 1) {
        await runProcess({ command: restore, cwd: home, environment: {} });
        expect(await indexesOf("again_visibility")).toEqual(all);
      }
    });

    test("are complete while the schema is updated, and pruned again after it", async () => {
      await makeOlder("older_visibility", "1.12");
      const all = await indexesOf("older_visibility");
      await runJob("temporal-indexes", "older_visibility");
      expect((await indexesOf("older_visibility")).indexes.size).toBeLessThan(all.indexes.size);
      await runJob("temporal-indexes-back", "older_visibility");
      expect(await indexesOf("older_visibility")).toEqual(all);
      await runJob("temporal-schema", "older_visibility");
      await runJob("temporal-indexes", "older_visibility");
      expect(await indexesOf("older_visibility")).toEqual(await indexesOf("temporal_visibility"));
    });

    test("that the UI's list and searches by Signet's attributes need remain", async () => {
      const { indexes } = await indexesOf("temporal_visibility");
      const order =
        "COALESCE(close_time, '9999-12-31 23:59:59'::timestamp without time zone) DESC, start_time DESC, run_id";
      const definition = (name: string): string | undefined => indexes.get(name)?.replace(/.* USING /, "");
      expect(definition("default_idx")).toBe(`btree (namespace_id, ${order})`);
      for (const [name, column] of [
        ["workflow_id", "workflow_id"],
        ["workflow_type", "workflow_type_name"],
        ["status", "status"],
      ]) {
        expect(definition(`by_${name}`)).toBe(`btree (namespace_id, ${column}, ${order})`);
      }
      // Temporal assigns each attribute to any free column of its type, at random.
      const client = createLazyClient(optionsOf({}));
      const { config } = await client.connection.workflowService.describeNamespace({ namespace: "signet" });
      await client.connection.close();
      const columns = Object.entries(config?.customSearchAttributeAliases ?? {});
      const types = columns.map(([column, name]) => [name, column.replace(/\d+$/, "")] as const);
      expect(columns).toHaveLength(6);
      expect(Object.fromEntries(types)).toEqual({
        SignetAttempt: "Int",
        SignetDelivery: "KeywordList",
        SignetEndpoint: "KeywordList",
        SignetOpen: "Int",
        SignetState: "Keyword",
        SignetTenant: "KeywordList",
      });
      for (const [name] of columns) {
        const column = name.toLowerCase();
        const [, type = "", number = ""] = /^(.*?)(\d+)$/.exec(name) ?? [];
        const index = { Keyword: "by_keyword_", KeywordList: "by_keyword_list_", Int: "by_int_" }[type] ?? "";
        expect(definition(`${index}${number}`)).toBe(
          type === "KeywordList"
            ? `gin (namespace_id, ${column} jsonb_path_ops)`
            : `btree (namespace_id, ${column}, ${order}) WHERE (${column} IS NOT NULL)`,
        );
      }
    });
  });

  const none = { TEMPORAL_TLS_CLIENT_CERT_PATH: "", TEMPORAL_TLS_CLIENT_KEY_PATH: "" };
  test.concurrent.for<[what: string, changed: () => Readonly<Record<string, string>>]>([
    ["no certificate", () => none],
    [
      "a certificate of the clients' CA",
      () => ({
        TEMPORAL_TLS_CLIENT_CERT_PATH: `${servers.volumes}/edge/edge.crt`,
        TEMPORAL_TLS_CLIENT_KEY_PATH: `${servers.volumes}/edge/edge.key`,
      }),
    ],
    [
      "a server certificate of the internal CA",
      () => ({
        TEMPORAL_TLS_CLIENT_CERT_PATH: `${servers.volumes}/postgres-tls/server.crt`,
        TEMPORAL_TLS_CLIENT_KEY_PATH: `${servers.volumes}/postgres-tls/server.key`,
      }),
    ],
    ["the wrong CA", () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: `${servers.volumes}/edge/api-ca.crt` })],
    ["the wrong server name", () => ({ TEMPORAL_TLS_SERVER_NAME: "postgres" })],
    ["no TLS", () => ({ ...none, TEMPORAL_TLS_SERVER_CA_CERT_PATH: "" })],
  ])("is refused with %s", async ([, changed]) => {
    await untilAnswered();
    await expect(ask(changed())).rejects.toThrow(/UNAVAILABLE|DEADLINE_EXCEEDED/);
  });
});
