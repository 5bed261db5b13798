/**
 * All api instances return the same successor to simultaneous requests, and no secret appears in their logs or tables.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { type ApiProcess, startApi } from "#processes/api.ts";
import { useTestApi } from "#test/support/api.ts";
import { eventually } from "#test/support/eventually.ts";
import { grant, provision } from "#test/support/factories.ts";
import { sql } from "#test/support/tenant.ts";

const INSTANCES = 3;
const REQUESTS = 60;
const api = useTestApi();
const lines: string[] = [];
const instances: ApiProcess[] = [];

/** Each instance has its own pools, caches and recorders; they share only the database. */
beforeAll(async () => {
  const environment = {
    ...api.environment,
    SIGNET_API_LISTEN: "127.0.0.1:0",
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
  };
  const config = loadConfig(environment);
  const { databaseUrl = "", temporalAddress = "" } = config;
  const log = createLogger({ level: "trace", destination: { write: (line) => void lines.push(line) } });
  for (let count = 0; count < INSTANCES; count += 1) {
    instances.push(await startApi({ config: { ...config, databaseUrl, temporalAddress }, log }));
  }
});

afterAll(async () => {
  await Promise.all(instances.map(async (started) => await started.close()));
});

interface Answer {
  readonly credential_rotation?: { readonly version: number; readonly client_secret: string };
}

test("60 simultaneous requests to three api instances get one successor", async () => {
  const client = await provision(api);
  await sql(api, "UPDATE secret_versions SET due_at = now() - interval '1 second' WHERE credential_id = $1", [
    client.credentialId,
  ]);
  const answers = await Promise.all(
    Array.from({ length: REQUESTS }, async (_, index) => {
      const response = await fetch(
        `http://127.0.0.1:${instances[index % INSTANCES]?.publicAddress.port}/v1/auth/token`,
        {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(grant(client)),
        },
      );
      expect(response.status).toBe(200);
      return (await response.json()) as Answer;
    }),
  );
  const secrets = answers.map(({ credential_rotation: rotation }) => rotation?.client_secret ?? "none");
  expect(new Set(secrets).size).toBe(1);
  const [successor = ""] = secrets;
  expect(successor).toMatch(/^sgn_live_sk_/);
  const versions = await sql(api, "SELECT version, state FROM secret_versions WHERE credential_id = $1", [
    client.credentialId,
  ]);
  expect(versions).toEqual([
    { version: 1, state: "ACTIVE" },
    { version: 2, state: "PENDING" },
  ]);
  await eventually(
    async () =>
      (await sql(api, "SELECT FROM secret_versions WHERE delivered_count = $1", [REQUESTS])).length === 1,
    "every delivery to be counted",
  );

  expect(await api.token(grant({ ...client, clientSecret: successor }))).toMatchObject({ status: 200 });
  const tables = await sql<{ name: string }>(
    api,
    "SELECT relname AS name FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace",
  );
  const rows = await Promise.all(
    tables.map(async ({ name }) => await sql(api, `SELECT t::text AS row FROM public.${name} AS t`)),
  );
  const entries = await sql(api, "SELECT convert_from(entry, 'UTF8') AS entry FROM clog");
  const logs = [...api.log, ...lines].join("");
  const written = JSON.stringify([rows, entries]) + logs;
  expect(written).toContain(client.credentialId);
  const leaked = [client.clientSecret, successor].filter((secret) => written.includes(secret));
  expect(leaked).toHaveLength(0);
});
