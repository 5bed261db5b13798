/** Temporal of the compose file: who may reach it, and the indexes of its visibility database. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { Connection, type TLSConfig } from "@temporalio/client";
import { describe, expect, test } from "vitest";
import type { ContainerStack } from "../support/container-stack.ts";
import { VIEWS } from "#temporal/views.ts";
import { TASK_QUEUES } from "#workflows/messages.ts";
import { eventually } from "../support/eventually.ts";

const ADDRESS = "localhost:7233";
/** How long a connection is tried that the server refuses, which looks to the SDK like one that is late. */
const REFUSED_MS = 1_500;
const DATABASE = "temporal_visibility";
const ORDER =
  "COALESCE(close_time, '9999-12-31 23:59:59'::timestamp without time zone) DESC, start_time DESC, run_id";

/** Asks Temporal from the machine, as its command line does. */
async function ask(tls: TLSConfig | false, connectTimeout = 10_000): Promise<unknown> {
  const connection = await Connection.connect({ address: ADDRESS, tls, connectTimeout });
  try {
    return await connection.workflowService.describeNamespace({ namespace: "signet" });
  } finally {
    await connection.close();
  }
}

/**
 * Declares the tests.
 *
 * @param stack returns the running stack, whose clone has `ca.crt`, `example.pem`, `internal-ca.crt` and `temporal.pem`
 * @param temporal runs the command line as docs/operations.md says
 */
export function describeTemporal(
  stack: () => ContainerStack,
  temporal: (command: string) => Promise<string>,
): void {
  const read = (name: string): Buffer => readFileSync(join(stack().directory, name));
  const pair = (name: string): NonNullable<TLSConfig["clientCertPair"]> => ({
    crt: read(name),
    key: read(name),
  });
  const sql = async (database: string, text: string): Promise<string> =>
    await stack().run(
      `docker compose exec -T postgres psql --no-psqlrc --username postgres --dbname ${database} ` +
        `--tuples-only --no-align --command "${text}"`,
    );

  describe("Temporal", () => {
    test("answers the machine with a certificate of the internal authority only", async () => {
      const internal = read("internal-ca.crt");
      await ask({ serverRootCACertificate: internal, clientCertPair: pair("temporal.pem") });
      for (const [what, tls] of [
        ["no certificate", { serverRootCACertificate: internal }],
        [
          "a client's certificate",
          { serverRootCACertificate: internal, clientCertPair: pair("example.pem") },
        ],
        [
          "the wrong authority",
          { serverRootCACertificate: read("ca.crt"), clientCertPair: pair("temporal.pem") },
        ],
        ["no TLS", false],
      ] as const) {
        await expect(ask(tls, REFUSED_MS), what).rejects.toThrow(
          /UNAVAILABLE|DEADLINE_EXCEEDED|Failed to connect/,
        );
      }
    });

    test("accepts the queries of all views", async () => {
      for (const { name, query } of Object.values(VIEWS)) {
        expect(await temporal(`workflow count --query '${query}'`), name).toMatch(/Total: \d+/);
      }
    });

    test(
      "lists a workflow whose tasks fail as stuck, after five failures",
      { timeout: 180_000 },
      async () => {
        const id = `--workflow-id of-an-unknown-type`;
        await temporal(`workflow start --type unknown --task-queue ${TASK_QUEUES.control} ${id}`);
        try {
          await eventually(
            async () =>
              (await temporal(`workflow count --query '${VIEWS.stuck.query}'`)).includes("Total: 1"),
            "the stuck workflow to be listed",
            150_000,
          );
        } finally {
          await temporal(`workflow terminate ${id}`);
        }
      },
    );

    test("connects to PostgreSQL only with TLS, as every other service must", async () => {
      const connections =
        "SELECT DISTINCT ssl, version FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'temporal'";
      expect(await sql("postgres", connections)).toBe("t|TLSv1.3\n");
      const ways = "SELECT type, database FROM pg_hba_file_rules WHERE error IS NULL ORDER BY rule_number";
      expect(await sql("postgres", ways)).toBe("local|{all}\nlocal|{replication}\nhostssl|{all}\n");
    });

    describe("visibility indexes", () => {
      const indexes = async (): Promise<ReadonlyMap<string, string>> => {
        const text =
          "SELECT indexname || '|' || indexdef FROM pg_indexes JOIN pg_index ON indexrelid = to_regclass(indexname)" +
          " WHERE tablename = 'executions_visibility' AND indisvalid";
        const lines = (await sql(DATABASE, text)).trimEnd().split("\n");
        return new Map(
          lines.map((line) => [line.slice(0, line.indexOf("|")), line.slice(line.indexOf("|") + 1)]),
        );
      };
      const job = async (name: string): Promise<string> =>
        await stack().run(`docker compose run --rm --no-deps -T ${name}`);
      const file = async (name: string): Promise<string> =>
        await stack().run(
          `docker compose exec -T postgres psql --no-psqlrc --username postgres --dbname ${DATABASE} ` +
            `--file /run/signet/config/${name}`,
        );

      test("that the UI's list and searches by Signet's attributes need remain, small", async () => {
        const kept = await indexes();
        const definition = (name: string): string | undefined => kept.get(name)?.replace(/.* USING /, "");
        expect(definition("default_idx")).toBe(`btree (namespace_id, ${ORDER})`);
        for (const [name, column] of [
          ["workflow_id", "workflow_id"],
          ["workflow_type", "workflow_type_name"],
          ["status", "status"],
        ]) {
          expect(definition(`by_${name}`)).toBe(`btree (namespace_id, ${column}, ${ORDER})`);
        }
        const described = (await ask({
          serverRootCACertificate: read("internal-ca.crt"),
          clientCertPair: pair("temporal.pem"),
        })) as { config: { customSearchAttributeAliases: Readonly<Record<string, string>> } };
        const columns = Object.entries(described.config.customSearchAttributeAliases);
        // Temporal assigns each attribute to any free column of its type, at random.
        expect(
          Object.fromEntries(columns.map(([column, name]) => [name, column.replace(/\d+$/, "")])),
        ).toEqual({
          SignetAttempt: "Int",
          SignetDead: "Int",
          SignetDelivery: "KeywordList",
          SignetEndpoint: "KeywordList",
          SignetExpires: "Datetime",
          SignetOpen: "Int",
          SignetState: "Keyword",
          SignetTenant: "KeywordList",
        });
        for (const [name] of columns) {
          const column = name.toLowerCase();
          const [, type = "", number = ""] = /^(.*?)(\d+)$/.exec(name) ?? [];
          const prefix = {
            Keyword: "by_keyword_",
            KeywordList: "by_keyword_list_",
            Int: "by_int_",
            Datetime: "by_datetime_",
          }[type];
          expect(definition(`${prefix}${number}`)).toBe(
            type === "KeywordList"
              ? `gin (namespace_id, ${column} jsonb_path_ops)`
              : `btree (namespace_id, ${column}, ${ORDER}) WHERE (${column} IS NOT NULL)`,
          );
        }
      });

      test("all come back before the schema is updated, and are pruned again after it", async () => {
        const pruned = await indexes();
        const partial = [...pruned.values()].filter((definition) => definition.includes(" WHERE "));
        expect([pruned.size, partial.length]).toEqual([42, 16]);
        // An interrupted run leaves an invalid index of the same name.
        await sql(DATABASE, "CREATE INDEX by_text_03 ON executions_visibility (run_id)");
        const invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'by_text_03'::regclass";
        await sql(DATABASE, invalid);
        // As before a newer schema.
        const version = (await sql(DATABASE, "SELECT curr_version FROM schema_version")).trim();
        await sql(DATABASE, "UPDATE schema_version SET curr_version = '1.13'");
        await job("temporal-indexes-back");
        await sql(DATABASE, `UPDATE schema_version SET curr_version = '${version}'`);
        const all = await indexes();
        expect(all.size).toBe(74);
        expect([...all.values()].filter((definition) => definition.includes(" WHERE "))).toEqual([]);
        await file("restore-visibility-indexes.sql");
        expect(await indexes()).toEqual(all);
        for (const name of [
          "temporal-schema",
          "temporal-indexes",
          "temporal-indexes",
          "temporal-indexes-back",
        ]) {
          await job(name);
        }
        expect(await indexes()).toEqual(pruned);
      });
    });
  });
}
