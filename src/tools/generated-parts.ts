/**
 * The parts of documents that are made from code. They stand between `<!-- generated: … -->` and
 * `<!-- end of generated -->`. `npm run docs` writes them, and a test fails when they are stale.
 */
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { SETTINGS } from "#config/config.ts";
import { type MetricDescription, OWN_METRICS } from "#observability/metrics.ts";
import { type View, VIEWS } from "#temporal/views.ts";
import { type Promised, PROMISES } from "#test/bench/scenarios/growth/promises.ts";
import type { Growth } from "#test/support/growth.ts";
import { CAPACITY_PARTS } from "./capacity-tables.ts";
import type { SdkLanguage } from "#api/openapi/sdk.ts";
import { fixedLimits, requestLimits, settableLimits } from "./limits.ts";
import { type Document, operationsOf, readOpenApi, withoutReferences } from "./openapi-schema.ts";
import { readText, ROOT } from "./repository.ts";
import { sdkTable } from "./sdk-methods.ts";
import { cell, table } from "./text.ts";

/** Documents with generated parts. */
export const GENERATED_DOCUMENTS = [
  "README.md",
  "docs/architecture.md",
  "docs/benchmarks/method.md",
  "docs/capacity.md",
  "docs/client.md",
  "docs/getting-started.md",
  "docs/observability.md",
  "docs/reference/limits.md",
  "docs/reference/operations.md",
  "docs/reference/settings.md",
  "docs/ssf.md",
  "docs/temporal.md",
  "docs/tour.md",
  "docs/tutorials/express.md",
  "docs/tutorials/fastapi.md",
  "docs/tutorials/go.md",
  "docs/tutorials/nextjs.md",
  "docs/verify-access-tokens.md",
  "docs/verify-webhooks.md",
  "sdk/go/README.md",
  "sdk/python/README.md",
] as const;

const PART = /(<!-- generated: ([^>]+) -->\n)[\s\S]*?(<!-- end of generated -->)/g;

/** Defaults that differ from machine to machine, as the table shows them. */
const OF_THE_MACHINE: Readonly<Record<string, string>> = {
  SIGNET_CACHE: "`~/.cache/signet`",
  SIGNET_CONFIG_DIR: "`~/.config/signet`",
};

interface SettingRow {
  readonly variable: string;
  readonly fallback: string | undefined;
  readonly doc: string;
}

/** Returns the table of every setting, in the order of src/config/config.ts. */
export function settingsTable(settings: readonly SettingRow[]): string {
  const rows = settings.map(({ variable, fallback, doc }) => {
    const value = OF_THE_MACHINE[variable] ?? (fallback === undefined ? "" : `\`${cell(fallback)}\``);
    return [`\`${variable}\``, value, cell(doc)];
  });
  return table(["Setting", "Default", "Meaning"], rows);
}

type SettingKey = keyof typeof SETTINGS;

/** The settings that production needs: the processes that read them, and when. */
const IN_PRODUCTION: readonly (readonly [keys: readonly SettingKey[], processes: string, when: string])[] = [
  [["publicUrl"], "all", "always: an https URL, and the issuer of tokens, so it cannot change later"],
  [["databaseUrlFile"], "api, worker, migrate", "always; or `SIGNET_DATABASE_URL`"],
  [["databaseCaFile"], "all", "unless the URL has `sslmode=verify-full`"],
  [["databaseAdminUrlFile"], "migrate", "if the service's login may not create roles"],
  [["databaseDirectUrlFile"], "api, worker", "behind a pooler in transaction mode"],
  [["temporalAddress", "temporalNamespace"], "api, worker, migrate", "always"],
  [["temporalApiKeyFile"], "api, worker, migrate", "with an API key of Temporal Cloud"],
  [
    ["temporalCaFile", "temporalCertFile", "temporalKeyFile"],
    "api, worker, migrate",
    "with mutual TLS to Temporal",
  ],
  [["pepperFile", "kekFile"], "api, worker", "always; keep copies apart from the database's backups"],
  [["kmsKek"], "api, worker", "with a key in AWS KMS or Google Cloud KMS instead of `SIGNET_KEK_FILE`"],
  [["operatorTokenFile"], "api", "until the first operator is created"],
  [
    ["checkpointKeyFile", "checkpointName", "checkpointDir"],
    "worker; the name also for the command line",
    "always; the name cannot change later",
  ],
  [["checkpointBucket"], "worker", "to keep checkpoints in S3 instead of a directory"],
  [["apiListen", "adminListen", "metricsListen"], "by name", "if the defaults on loopback do not fit"],
  [["mtlsMode"], "api", "`proxy` behind the edge or another proxy, else `native`"],
  [
    ["edgeListen", "tlsKeyFile", "tlsCertFile", "clientCaFile"],
    "the process that terminates mutual TLS: edge or api",
    "always, unless a proxy terminates it",
  ],
  [["trustedProxies", "proxyCaFile", "proxyNames"], "api", "with `SIGNET_MTLS_MODE=proxy`"],
  [["edgeDatabaseUrlFile"], "edge, migrate", "with an edge"],
  [
    ["edgeApiUrl", "edgeApiCaFile", "edgeApiNames", "edgeKeyFile", "edgeCertFile"],
    "edge",
    "with an edge in front of the api",
  ],
  [["edgeRoutes"], "edge", "with an edge in front of a data plane"],
];

/** Returns the table of the settings that production needs. */
function productionTable(): string {
  const rows = IN_PRODUCTION.map(([keys, processes, when]) => {
    const names = keys.map((key) => `\`${SETTINGS[key].variable}\``).join(", ");
    return [names, processes, when];
  });
  return table(["Settings", "Processes", "Needed"], rows);
}

/** Returns the table of what each axis of the bench's scenario `growth` promises. */
function growthTable(): string {
  const rows = Object.entries<Promised>(PROMISES).map(([axis, { of, costs }]) => {
    const named = (wanted: Growth): string =>
      Object.entries(costs)
        .flatMap(([cost, growth]) => (growth === wanted ? [`\`${cost}\``] : []))
        .join(", ");
    return [`\`${axis}\``, of, named("flat"), named("linear")];
  });
  return table(["axis", "a unit", "flat", "linear"], rows);
}

/** Returns the table of every metric that Signet defines, in the order of src/observability/metrics.ts. */
function metricsTable(metrics: readonly MetricDescription[]): string {
  const rows = metrics.map(({ name, type, labels, processes, help }) => {
    const shown = labels.map((label) => `\`${label}\``).join(", ");
    return [`\`${name}\``, type, shown, processes.join(", "), cell(help)];
  });
  return table(["Metric", "Type", "Labels", "Process", "Meaning"], rows);
}

/** Languages of code blocks by the ending of the source file. */
const LANGUAGES: Readonly<Record<string, string>> = { mjs: "js", py: "python", rs: "rust" };

/**
 * Returns the lines of a source file between `// region NAME` and `// endregion` (`#` in Python, `--` in SQL), as a code block
 * without common indentation. An import from `src/lib` becomes that of the package, which a comment after it names.
 */
export function region(source: string, name: string, ending = "ts"): string {
  const lines = new RegExp(
    `^[ \\t]*(?://|#|--) region ${name}\\n([\\s\\S]*?)^[ \\t]*(?://|#|--) endregion$`,
    "m",
  );
  const [, text] = lines.exec(source) ?? [];
  if (text === undefined) {
    throw new Error(`there is no region ${name}`);
  }
  const [indentation = ""] = /^[ \t]*/.exec(text) ?? [];
  const moved = text
    .replaceAll(new RegExp(`^${indentation}`, "gm"), "")
    .replaceAll(/ from "[^"]*\/src\/lib\/[^"]+"; \/\/ ("[^"]+")/g, " from $1;")
    .trim();
  return `\`\`\`${LANGUAGES[ending] ?? ending}\n${moved}\n\`\`\``;
}

/** Operations that require something other than a token with scopes. */
const OWN_PROOF: Readonly<Record<string, string>> = {
  "POST /v1/auth/revoke": "the client's own credentials",
  "POST /v1/auth/introspect": "the client's own credentials, or `tokens:introspect`",
};

/** Returns the table of every operation with its scope, in the order of the OpenAPI document. */
function operationsTable(document: Document): string {
  const rows = operationsOf(document).map(({ route, security }) => {
    const scopes = security?.[0]?.bearer?.map((scope) => `\`${scope}\``).join(", ");
    return [`\`${route}\``, scopes ?? OWN_PROOF[route] ?? ""];
  });
  return table(["Request", "Scope"], rows).replaceAll("|  |", "| |");
}

/** Returns the table of the methods of an SDK, in the order of the OpenAPI document. */
async function methodsTable(language: SdkLanguage): Promise<string> {
  const rows = sdkTable(await readOpenApi("tenants"), language).map(([name, methods]) => {
    return [`\`${name}\``, methods.map((method) => `\`${method}\``).join(", ")];
  });
  return table(["Member", "Calls"], rows);
}

/** Returns the table of the views of Temporal's list, in the order of src/temporal/views.ts. */
function viewsTable(): string {
  const rows = Object.values<View>(VIEWS).map(({ name, shows, query, columns }) => {
    const added = columns.map((column) => `\`${column.name}\``).join(", ");
    return [name, shows, `\`${query}\``, added];
  });
  return table(["View", "Shows", "Query", "Columns to add"], rows).replaceAll("|  |", "| |");
}

/** Returns the list of decisions, by number. */
async function decisionList(): Promise<string> {
  const names = await readdir(join(ROOT, "docs", "decisions"));
  const lines = names.toSorted().map(async (name) => {
    const text = await readText(`docs/decisions/${name}`);
    const [, number = "", title = ""] = /^# (\d+)\. (.*)$/m.exec(text) ?? [];
    return `${number}. [${title}](decisions/${name})`;
  });
  return (await Promise.all(lines)).join("\n");
}

/** The parts by their names. Others are regions of files. */
const PARTS: Readonly<Record<string, () => string | Promise<string>>> = {
  ...CAPACITY_PARTS,
  decisions: decisionList,
  growth: growthTable,
  limits: fixedLimits,
  "limits by settings": settableLimits,
  "limits of requests": async () => requestLimits(withoutReferences(await readOpenApi("tenants")).paths),
  "limits of operators' requests": async () =>
    requestLimits(withoutReferences(await readOpenApi("operators")).paths),
  "methods in TypeScript": async () => await methodsTable("typescript"),
  "methods in Go": async () => await methodsTable("go"),
  "methods in Python": async () => await methodsTable("python"),
  metrics: () => metricsTable(OWN_METRICS),
  operations: async () => operationsTable(await readOpenApi("tenants")),
  settings: () => settingsTable(Object.values(SETTINGS)),
  "settings for production": productionTable,
  views: viewsTable,
};

async function part(name: string): Promise<string> {
  const make = PARTS[name];
  if (make !== undefined) {
    return await make();
  }
  const [path = "", regionName = ""] = name.split("#");
  return region(await readText(path), regionName, path.slice(path.lastIndexOf(".") + 1));
}

/** Returns the document with each generated part as the code has it now. */
export async function withGeneratedParts(document: string): Promise<string> {
  const parts = new Map<string, string>();
  for (const [, , name = ""] of document.matchAll(PART)) {
    parts.set(name, await part(name));
  }
  return document.replaceAll(PART, (_all, begin: string, name: string, end: string) => {
    return `${begin}${parts.get(name)}\n${end}`;
  });
}
