/**
 * Clients that generators make from the OpenAPI documents compile, and call a real api. The linters of OpenAPI find no
 * error. docs/generated-clients.md has the table.
 */
import { copyFile, mkdir, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import { CACHE } from "../support/cache.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess, spawnProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { createEndpoint, createTenant, rows } from "../support/tenant.ts";

const MINUTES = 10;
allowMinutes(MINUTES);

const api = useSharedApi();

const OPENAPI_TYPESCRIPT = ["openapi-typescript@7.13.0", "openapi-fetch@0.17.0", "typescript@5.9.3"];
const OAPI_CODEGEN = "github.com/oapi-codegen/oapi-codegen/v2@v2.8.2";
const OAPI_RUNTIME = "github.com/oapi-codegen/runtime@v1.8.0";
const OPENAPI_PYTHON_CLIENT = "openapi-python-client==0.29.1";
const LINTERS = ["@redocly/cli@2.77.0", "@stoplight/spectral-cli@6.16.3"];

const PROGRAMS = join(import.meta.dirname, "generated-clients");
const DOCS = join(import.meta.dirname, "..", "..", "docs");
const AUDIENCES = ["openapi.json", "openapi-operators.json"] as const;
/** Tools stay here between runs, by their versions. */
const GENERATORS = join(CACHE, "generators");

async function execute(
  cwd: string,
  command: readonly string[],
  more: NodeJS.ProcessEnv = {},
): Promise<string> {
  return await runProcess({ command, cwd, environment: { ...process.env, ...more } });
}

/** Returns a directory with the packages, installed unless an earlier run did. */
async function npmPackages(packages: readonly string[]): Promise<string> {
  const directory = join(GENERATORS, packages.join("+").replaceAll("/", "-"));
  await mkdir(directory, { recursive: true });
  const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--prefer-offline"];
  await execute(directory, ["npm", "install", "--prefix", directory, ...flags, ...packages]);
  return directory;
}

async function scratch(name: string): Promise<string> {
  return await mkdtemp(join(inject("runDirectory"), `${name}-`));
}

/** Writes the document of the running api for tenants and returns its path. */
async function servedDocument(directory: string): Promise<string> {
  const path = join(directory, "openapi.json");
  await writeFile(path, JSON.stringify((await api.request("/openapi.json")).body));
  return path;
}

interface Called {
  readonly endpoint: string;
  readonly event: string;
  readonly deliveries: readonly string[];
  readonly refused: string;
}

/**
 * Lets a program get a token, register an endpoint, publish, list deliveries and be refused, and compares what it read to
 * what the service has.
 */
async function expectToCall(cwd: string, command: readonly string[]): Promise<Called> {
  const tenant = await createTenant(api);
  await createEndpoint(api, tenant);
  const output = await execute(cwd, command, {
    SIGNET_URL: api.publicUrl,
    CLIENT_ID: tenant.clientId,
    CLIENT_SECRET: tenant.clientSecret,
  });
  const called = JSON.parse(output) as Called;
  expect(await tenant.get(`/v1/webhooks/endpoints/${called.endpoint}`)).toMatchObject({
    body: { description: "generated", events: ["inference.failed"] },
  });
  expect(await tenant.get(`/v1/events/${called.event}`)).toMatchObject({ body: { data: { run: 7 } } });
  const kept = rows(await tenant.get(`/v1/webhooks/deliveries?event_id=${called.event}`));
  expect(kept).toHaveLength(1);
  expect(called.deliveries).toEqual(kept.map(({ id }) => id));
  expect(called.refused).toBe("VALIDATION_FAILED");
  return called;
}

describe.skipIf(lacks("openapi-typescript's client", "npm view openapi-typescript version"))(
  "openapi-typescript",
  () => {
    let packages: string;
    beforeAll(async () => {
      packages = await npmPackages(OPENAPI_TYPESCRIPT);
    });

    test("generates types, strict and with their own libraries checked, through which openapi-fetch calls", async () => {
      const cwd = await scratch("typescript");
      const bin = join(packages, "node_modules", ".bin");
      await writeFile(join(cwd, "package.json"), '{ "type": "module" }');
      await execute(cwd, ["ln", "-s", join(packages, "node_modules"), "node_modules"]);
      await execute(cwd, [join(bin, "openapi-typescript"), await servedDocument(cwd), "-o", "api.d.ts"]);
      await copyFile(join(PROGRAMS, "call.ts.txt"), join(cwd, "call.ts"));
      const types = ["--types", "node", "--typeRoots", join(DOCS, "..", "node_modules", "@types")];
      const modules = ["--module", "nodenext", "--target", "es2023", "--rewriteRelativeImportExtensions"];
      await execute(cwd, [join(bin, "tsc"), "--strict", ...types, ...modules, "call.ts", "api.d.ts"]);
      await expectToCall(cwd, [process.execPath, "call.js"]);
    });

    test("generates types of the operators' API", async () => {
      const cwd = await scratch("typescript-operators");
      const bin = join(packages, "node_modules", ".bin");
      const document = join(DOCS, "openapi-operators.json");
      await execute(cwd, [join(bin, "openapi-typescript"), document, "-o", "api.d.ts"]);
      await execute(cwd, [join(bin, "tsc"), "--strict", "--noEmit", "api.d.ts"]);
      expect(await readFile(join(cwd, "api.d.ts"), "utf8")).toContain("RevokedSigningKey: {");
    });
  },
);

describe.skipIf(lacks("oapi-codegen's client", `go list -m ${OAPI_CODEGEN}`))("oapi-codegen", () => {
  /** Generates a client into the package `api` of a module. */
  async function generate(name: string, document: string): Promise<string> {
    const cwd = await scratch(name);
    const [tool = "", version = ""] = OAPI_CODEGEN.split("@");
    await mkdir(join(cwd, "api"));
    await writeFile(join(cwd, "go.mod"), "module generated\n\ngo 1.24\n");
    const command = ["go", "run", `${tool}/cmd/oapi-codegen@${version}`, "-generate", "types,client"];
    await execute(cwd, [...command, "-package", "api", "-o", join("api", "api.gen.go"), document]);
    await execute(cwd, ["go", "get", OAPI_RUNTIME]);
    return cwd;
  }

  test("generates a client that compiles, and calls", async () => {
    const cwd = await generate("go", await servedDocument(await scratch("go-document")));
    await copyFile(join(PROGRAMS, "call.go"), join(cwd, "main.go"));
    await execute(cwd, ["go", "mod", "tidy"]);
    await execute(cwd, ["go", "vet", "./..."]);
    await execute(cwd, ["go", "build", "-o", "call", "."]);
    await expectToCall(cwd, ["./call"]);
  });

  test("generates a client of the operators' API that compiles", async () => {
    const cwd = await generate("go-operators", join(DOCS, "openapi-operators.json"));
    await execute(cwd, ["go", "mod", "tidy"]);
    await execute(cwd, ["go", "vet", "./..."]);
  });
});

const PIP = "python3 -m pip index versions openapi-python-client";
describe.skipIf(lacks("openapi-python-client's client", PIP))("openapi-python-client", () => {
  const environment = join(GENERATORS, OPENAPI_PYTHON_CLIENT);
  const python = join(environment, "bin", "python");

  beforeAll(async () => {
    await mkdir(GENERATORS, { recursive: true });
    await execute(GENERATORS, ["python3", "-m", "venv", environment]);
    await execute(GENERATORS, [python, "-m", "pip", "install", "--quiet", OPENAPI_PYTHON_CLIENT]);
  });

  /** Generates a client into the package `generated`. */
  async function generate(name: string, document: string): Promise<{ cwd: string; warnings: string[] }> {
    const cwd = await scratch(name);
    const tool = join(environment, "bin", "openapi-python-client");
    const command = [tool, "generate", "--path", document, "--output-path", "generated", "--meta", "none"];
    const child = spawnProcess({ command, cwd, environment: process.env });
    expect(await child.ended).toMatchObject({ code: 0 });
    const output = child.output();
    return { cwd, warnings: output.match(/WARNING parsing .*|Unable to process .*|Attempted to .*/g) ?? [] };
  }

  test("generates a client whose every module imports, and calls", async () => {
    const { cwd, warnings } = await generate(
      "python",
      await servedDocument(await scratch("python-document")),
    );
    // These responses stay untyped: the tool knows neither the type of status lists nor NDJSON.
    expect(warnings).toEqual([
      expect.stringContaining("GET /.well-known/status-lists/{id}"),
      expect.stringContaining("GET /v1/webhooks/dlq/export"),
    ]);
    await copyFile(join(PROGRAMS, "call.py"), join(cwd, "call.py"));
    expect(await expectToCall(cwd, [python, "call.py"])).toMatchObject({
      modules: expect.toSatisfy((count: number) => count > 200) as number,
    });
  });

  test("generates a client of the operators' API", async () => {
    const { cwd, warnings } = await generate("python-operators", join(DOCS, "openapi-operators.json"));
    expect(warnings).toEqual([expect.stringContaining("GET /admin/v1/audit/export")]);
    const imports = [
      "import generated, importlib, pkgutil",
      "names = [found.name for found in pkgutil.walk_packages(generated.__path__, 'generated.')]",
      "for name in names: importlib.import_module(name)",
      "print(len(names))",
    ].join("\n");
    expect(Number(await execute(cwd, [python, "-c", imports]))).toBeGreaterThan(150);
  });
});

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
