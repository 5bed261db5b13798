/**
 * Requests that Schemathesis generates from both OpenAPI documents, to a real service. With ids of objects that exist,
 * each optional member in turn, nothing is a 500: each statement runs as the role of its pool, so a right that a role
 * lacks shows here. With ids that earlier responses have brought, by the documents' links, every response is a
 * documented one.
 */
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { type ServiceUnderTest, useTestApi } from "../support/api.ts";
import { CACHE, pythonWith } from "../support/cache.ts";
import { provision } from "../support/factories.ts";
import { allowMinutes } from "../support/limits.ts";
import { spawnProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { createEndpoint, createTenant, publish, rows, type Tenant } from "../support/tenant.ts";

allowMinutes(10);

const DOCUMENTS = join(import.meta.dirname, "..", "..", "docs");
const TOOL = "schemathesis==4.32.5";
const ENVIRONMENT = join(CACHE, "generated-requests", TOOL);
/** Answers that do not end, or wait. */
const ENDLESS = "/v1/webhooks/deliveries/stream|/v1/ssf/poll/";
const lacksPython = lacks("generated requests", "python3 -m pip index versions schemathesis");

interface Document {
  readonly components: {
    readonly securitySchemes: Readonly<
      Record<string, { readonly flows?: { readonly clientCredentials: { readonly scopes: object } } }>
    >;
  };
}

/** One exchange in the tool's report, in the HTTP Archive format. */
interface Exchange {
  readonly request: {
    readonly method: string;
    readonly url: string;
    readonly postData?: { readonly text?: string };
  };
  readonly response: { readonly status: number; readonly content?: { readonly text?: string } };
}

/** What ends something that other requests need. */
const ENDING = "/(?:revoke|revocations|erase|hold|suspend|cancel|content)$|/auth/";

interface Service {
  readonly document: string;
  readonly url: string;
  readonly token: string;
  /** Objects that exist, by the prefixes of their ids. */
  readonly ids: Readonly<Record<string, string>>;
}

interface Run extends Service {
  readonly options: string;
  /** Which operations are requested. */
  readonly only: readonly string[];
}

/** What a run of the tool has found. */
interface Found {
  readonly exchanges: readonly Exchange[];
  readonly exitCode: number | null;
  readonly output: string;
}

/** Each optional member in turn. */
const EACH_MEMBER = "--mode positive --phases examples,coverage --checks not_a_server_error";
/** Valid and invalid requests, alone and in chains of links. */
const IN_CHAINS =
  "--mode all --phases fuzzing,stateful --checks not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,response_schema_conformance";
/** Chains follow the document's own links. A true 503 of a busy machine is no fault. */
const SETTINGS = `
[generation]
max-examples = 16
[phases.stateful]
max-steps = 10
[phases.stateful.inference]
algorithms = []
[phases.stateful.generation]
max-examples = 60
[checks.not_a_server_error]
expected-statuses = ["2XX", "3XX", "4XX", 503]
`;

/** First what leaves objects as they are, or changes them; then what ends them. */
const TURNS = [
  ["--exclude-path-regex", `${ENDING}|${ENDLESS}`, "--exclude-method", "DELETE"],
  ["--include-path-regex", ENDING, "--exclude-method", "DELETE"],
  ["--include-method", "DELETE"],
] as const;

/**
 * Puts ids that exist in place of the document's patterns and examples, and leaves idempotency keys out: the same one
 * would end all requests but the first.
 */
function withIds(document: string, ids: Run["ids"]): string {
  let text = document.replaceAll(/"name": "idempotency-key"/gi, '"name": "x-unused"');
  for (const [prefix, id] of Object.entries(ids)) {
    text = text
      .replaceAll(new RegExp(`"pattern":\\s*"\\^${prefix}_[^"]*"`, "g"), `"const": "${id}"`)
      .replaceAll(new RegExp(`"${prefix}_[0-9A-Za-z]{24}"`, "g"), `"${id}"`);
  }
  return text;
}

async function allScopes(): Promise<string[]> {
  const text = await readFile(join(DOCUMENTS, "openapi.json"), "utf8");
  const { securitySchemes } = (JSON.parse(text) as Document).components;
  return Object.values(securitySchemes).flatMap(({ flows }) =>
    Object.keys(flows?.clientCredentials.scopes ?? {}),
  );
}

/** Creates one object of each kind: a dead letter of a disabled endpoint, for instance. @returns their ids by prefix */
async function ownedBy(api: ServiceUnderTest, tenant: Tenant): Promise<Run["ids"]> {
  const { id: endpoint } = await createEndpoint(api, tenant, { state: "DISABLED" });
  const event = await publish(tenant);
  const [delivery] = rows(await tenant.get("/v1/webhooks/deliveries"));
  const { body: job } = await tenant.post("/v1/webhooks/dlq/replay", { filter: {} });
  return { ep: endpoint, evt: event, dlv: String(delivery?.["id"]), rpl: String(job["id"]) };
}

describe.skipIf(lacksPython)("generated requests", () => {
  const api = useTestApi({
    worker: true,
    environment: {
      SIGNET_API_RATE_PER_TENANT: "0",
      SIGNET_PUBLIC_RATE_PER_ADDRESS: "0",
      SIGNET_TOKEN_RATE_PER_ADDRESS: "0",
      SIGNET_TOKEN_RATE_PER_CLIENT: "0",
    },
  });

  beforeAll(async () => {
    await pythonWith([TOOL], ENVIRONMENT);
  });

  /** Runs the tool. */
  async function generate({ document, url, token, ids, options, only }: Run): Promise<Found> {
    const directory = await mkdtemp(join(inject("runDirectory"), "requests-"));
    const [path, report, settings] = [document, "report.har", "schemathesis.toml"].map((name) =>
      join(directory, name),
    ) as [string, string, string];
    await writeFile(path, withIds(await readFile(join(DOCUMENTS, document), "utf8"), ids));
    await writeFile(settings, SETTINGS);
    const always = "--generation-deterministic --seed 1 --no-shrink --no-color --warnings off";
    const limits = "--continue-on-failure --request-timeout 20 --suppress-health-check all";
    const program = spawnProcess({
      command: [
        join(ENVIRONMENT, "bin", "st"),
        "--config-file",
        settings,
        "run",
        path,
        "--url",
        url,
        "--header",
        `Authorization: Bearer ${token}`,
        "--report-har-path",
        report,
        ...`${options} ${always} ${limits}`.split(" "),
        ...only,
      ],
      cwd: directory,
      environment: process.env,
    });
    const { code: exitCode } = await program.ended;
    const text = await readFile(report, "utf8").catch(() => {
      throw new Error(program.output());
    });
    const { entries } = (JSON.parse(text) as { readonly log: { readonly entries: Exchange[] } }).log;
    return { exchanges: entries, exitCode, output: program.output() };
  }

  /** Makes all requests, expects no 500, and returns how many paths were answered with success. */
  async function successes(service: Service): Promise<number> {
    const found: Exchange[] = [];
    for (const only of TURNS) {
      // The tool's own verdict does not count: a 503 may be true on a busy machine.
      found.push(...(await generate({ ...service, options: EACH_MEMBER, only })).exchanges);
    }
    const faults = found.filter(({ response }) => response.status === 500);
    expect(
      faults.map(({ request, response }) => [
        `${request.method} ${request.url}`,
        request.postData?.text,
        response.content?.text,
      ]),
    ).toEqual([]);
    const good = found.filter(({ response }) => response.status < 400);
    return new Set(good.map(({ request }) => `${request.method} ${new URL(request.url).pathname}`)).size;
  }

  /** Follows links, and expects documented responses only. */
  async function follow(service: Omit<Service, "ids">): Promise<void> {
    // The id in a list may be that of the requests' own credential.
    const only = ["--exclude-path-regex", `${ENDLESS}|/v1/credentials/.id./revoke`];
    const { exchanges, exitCode, output } = await generate({ ...service, ids: {}, options: IN_CHAINS, only });
    expect(exitCode, output).toBe(0);
    expect(exchanges.length).toBeGreaterThanOrEqual(1_000);
    // The token stayed good, so most requests got beyond it.
    expect(exchanges.filter(({ response }) => response.status === 401).length).toBeLessThan(100);
    expect(exchanges.filter(({ response }) => response.status < 300).length).toBeGreaterThan(100);
  }

  test("of a tenant with all scopes are answered, and none with 500", async () => {
    const tenant = await createTenant(api, await allScopes());
    // Another of its credentials may be revoked.
    const { body: spare } = await tenant.post("/v1/credentials", {});
    const ids = {
      ...(await ownedBy(api, tenant)),
      crd: String(spare["id"]),
      cl: String(spare["client_id"]),
    };
    const service = { document: "openapi.json", url: api.publicUrl, token: tenant.token };
    expect(await successes({ ...service, ids })).toBeGreaterThan(55);
  });

  test("of an operator are answered, and none with 500", async () => {
    const client = await provision(api);
    const { body: operator } = await api.admin("POST", "/operators", { name: "generated", role: "read" });
    const ids = {
      ...(await ownedBy(api, await createTenant(api))),
      ten: client.tenantId,
      prn: client.principalId,
      crd: client.credentialId,
      cl: client.clientId,
      opr: String(operator["id"]),
    };
    const service = { document: "openapi-operators.json", url: api.adminUrl, token: api.operatorToken };
    expect(await successes({ ...service, ids })).toBeGreaterThan(55);
  });

  test("of a tenant that follow links get documented responses", async () => {
    const { token } = await createTenant(api, await allScopes());
    await follow({ document: "openapi.json", url: api.publicUrl, token });
  });

  test("of an operator that follow links get documented responses", async () => {
    await follow({ document: "openapi-operators.json", url: api.adminUrl, token: api.operatorToken });
  });
});
