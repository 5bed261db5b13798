/**
 * Clients that generators make from both OpenAPI documents, with the commands of docs/generated-clients.md, compile and
 * call a real api. The linters of OpenAPI find no error.
 */
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import {
  callWith,
  type GeneratedClient,
  generatedClient,
  LOG,
  npmPackages,
} from "../support/generated-clients.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess, spawnProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { createEndpoint, createTenant, rows } from "../support/tenant.ts";
import { CLIENTS } from "./generated-clients/clients.ts";

const MINUTES = 15;
allowMinutes(MINUTES);

const api = useSharedApi();

const LINTERS = ["@redocly/cli@2.77.0", "@stoplight/spectral-cli@6.16.3"];
const DOCS = join(import.meta.dirname, "..", "..", "docs");
const AUDIENCES = ["openapi.json", "openapi-operators.json"] as const;

async function execute(cwd: string, command: readonly string[], more: NodeJS.ProcessEnv): Promise<string> {
  return await runProcess({ command, cwd, environment: { ...process.env, ...more } });
}

async function scratch(name: string): Promise<string> {
  return await mkdtemp(join(inject("runDirectory"), `${name}-`));
}

interface Called {
  readonly endpoint: string;
  readonly event: string;
  readonly deliveries: readonly string[];
  readonly refused: string;
  readonly tenant: string;
}

test("docs/generated-clients.md has the commands that are tested", async () => {
  const text = await readFile(join(DOCS, "generated-clients.md"), "utf8");
  const [, block = ""] = /## Commands\n\n```sh\n(.*?)```/s.exec(text) ?? [];
  expect(block.trim().split("\n")).toEqual(CLIENTS.map(({ generate }) => generate));
});

for (const client of CLIENTS) {
  describe.skipIf(client.needs.some((command) => lacks(`the client of ${client.name}`, command)))(
    `the client of ${client.name}`,
    () => {
      test("generates clients of both documents that compile and call", async () => {
        const cwd = await generatedClient(client);
        const tenant = await createTenant(api);
        await createEndpoint(api, tenant);
        const called = (await callWith(client, cwd, {
          SIGNET_URL: api.publicUrl,
          CLIENT_ID: tenant.clientId,
          CLIENT_SECRET: tenant.clientSecret,
          OPERATORS_URL: api.adminUrl,
          OPERATOR_TOKEN: api.operatorToken,
          TENANT_ID: tenant.tenantId,
        })) as Called;
        expect(await tenant.get(`/v1/webhooks/endpoints/${called.endpoint}`)).toMatchObject({
          body: { description: "generated", events: ["inference.failed"] },
        });
        expect(await tenant.get(`/v1/events/${called.event}`)).toMatchObject({ body: { data: { run: 7 } } });
        const kept = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${called.event}`));
        expect(kept).toHaveLength(1);
        expect(called).toMatchObject({
          deliveries: kept.map(({ id }) => id),
          refused: "VALIDATION_FAILED",
          tenant: tenant.tenantId,
        });
      });
    },
  );
}

const python = CLIENTS.find(({ name }) => name === "openapi-python-client") as GeneratedClient;
test.skipIf(python.needs.some((command) => lacks(`the client of ${python.name}`, command)))(
  "openapi-python-client leaves three responses untyped: it knows neither NDJSON nor the type of status lists",
  async () => {
    const log = await readFile(join(await generatedClient(python), LOG), "utf8");
    const warnings = log.match(/WARNING parsing .*|Unable to process .*|Attempted to .*/g);
    expect(warnings).toEqual([
      expect.stringContaining("GET /.well-known/status-lists/{id}"),
      expect.stringContaining("GET /v1/webhooks/dlq/export"),
      expect.stringContaining("GET /admin/v1/audit/export"),
    ]);
  },
);

describe.skipIf(lacks("the linters of OpenAPI", "npm view @redocly/cli version"))("linters", () => {
  let packages: string;
  beforeAll(async () => {
    packages = await npmPackages(LINTERS);
  });

  test.each(AUDIENCES)("Redocly finds no error in %s", async (name) => {
    const tool = join(packages, "node_modules", ".bin", "redocly");
    const report = await execute(
      packages,
      [tool, "lint", "--extends=recommended", "--format=json", join(DOCS, name)],
      { REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" },
    );
    const { totals, problems } = JSON.parse(report) as {
      totals: { errors: number };
      problems: { ruleId: string }[];
    };
    expect(totals.errors).toBe(0);
    // Errors of no operation, such as 405, have examples and responses that nothing refers to.
    const known = ["no-unused-components", "no-required-schema-properties-undefined"];
    expect(problems.map(({ ruleId }) => ruleId).filter((rule) => !known.includes(rule))).toEqual([]);
  });

  test.each(AUDIENCES)("Spectral finds no error in %s", async (name) => {
    const cwd = await scratch("spectral");
    await writeFile(join(cwd, "ruleset.yaml"), 'extends: ["spectral:oas"]\n');
    const tool = join(packages, "node_modules", ".bin", "spectral");
    const report = join(cwd, "report.json");
    const command = [tool, "lint", "--ruleset", "ruleset.yaml", "--format", "json", "--output", report];
    // It ends with 1 if it has found an error, also a mistaken one.
    await spawnProcess({ command: [...command, join(DOCS, name)], cwd, environment: process.env }).ended;
    const found = JSON.parse(await readFile(report, "utf8")) as {
      code: string;
      severity: number;
      path: string[];
    }[];
    expect(found).not.toEqual([]);
    // An event type has the members `schema` and `examples`, so Spectral takes it for a media type.
    const mistaken = (path: string): boolean =>
      /event-types|EventType/.test(path) && path.includes("examples");
    const errors = found
      .filter(({ severity }) => severity === 0)
      .map(({ code, path }) => `${code} ${path.join("/")}`)
      .filter((error) => !(error.startsWith("oas3-valid-media-example") && mistaken(error)));
    expect(errors).toEqual([]);
    expect(new Set(found.map(({ code }) => code))).not.toContain("oas3-operation-security-defined");
  });
});
