/**
 * The only reader of the environment. Each setting is declared once, with its default and its meaning.
 * The README's table is generated from this file. All problems are reported at once.
 */
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import { CELL_SETTINGS, cellProblems } from "./cell-settings.ts";
import { CLIENT_SETTINGS } from "./client-settings.ts";
import { COMPLIANCE_SETTINGS, complianceProblems } from "./compliance.ts";
import { CONNECTION_SETTINGS, DATABASE_SETTINGS, URL_VARIABLES, withUrlFiles } from "./database-settings.ts";
import {
  DATABASE_TLS_SETTINGS,
  databaseTlsProblems,
  plainDatabaseProblems,
  withDatabaseTls,
} from "./database-tls.ts";
import { EDGE_SETTINGS, edgeProblems } from "./edge-settings.ts";
import { EGRESS_SETTINGS } from "./egress-settings.ts";
import { KEY_SETTINGS, keyProblems } from "./key-settings.ts";
import { ENDPOINT_SETTINGS } from "./endpoint-settings.ts";
import { homeDirectory } from "./home-directory.ts";
import { HUB_SETTINGS, hubProblems, missingDatabase } from "./hub-settings.ts";
import { LIMIT_SETTINGS } from "./limit-settings.ts";
import { MUTUAL_TLS_SETTINGS, type MutualTlsMode, resolveMutualTls } from "./mutual-tls.ts";
import { OPERATOR_SETTINGS } from "./operator-settings.ts";
import { PORTAL_SETTINGS, portalProblems } from "./portal-settings.ts";
import { REVOCATION_SETTINGS, revocationProblems, statusListProblems } from "./revocation.ts";
import { ROTATION_SETTINGS } from "./rotation-settings.ts";
import {
  formatListen,
  furtherProblems,
  integer,
  listen,
  oneOf,
  resourceIndicators,
  setting,
  text,
  url,
} from "./setting.ts";
import type { ListenAddress } from "#runtime/http-server.ts";
import {
  plainTemporalProblems,
  resolveTemporal,
  TEMPORAL_SETTINGS,
  type TemporalConnection,
} from "./temporal-settings.ts";
import { DEAD_LETTER_DAYS, DEAD_LETTER_MS, RETRY_WINDOW_MS } from "#domain/retry-schedule.ts";
import { readSecretFiles } from "./secret-files.ts";
import { TRACING_SETTINGS } from "./tracing-settings.ts";
import { mistypedSettings, unknownSettings } from "./unknown-settings.ts";
import { WORKER_VERSIONING_SETTINGS, workerVersioningProblems } from "./worker-versioning.ts";
import { messageOf } from "#runtime/thrown.ts";

export { formatListen, type ListenAddress };

/** All settings, in the order of the README's table. */
export const SETTINGS = {
  env: setting(
    "SIGNET_ENV",
    oneOf("development", "production"),
    "production",
    "`npm start` sets `development`, the only environment that allows plain HTTP, loopback receivers and generated keys",
  ),
  apiListen: setting("SIGNET_API_LISTEN", listen, "127.0.0.1:8080", "public API, JWKS and metadata"),
  adminListen: setting(
    "SIGNET_ADMIN_LISTEN",
    listen,
    "127.0.0.1:8081",
    "operators' API; keep it on loopback",
  ),
  edgeListen: setting("SIGNET_EDGE_LISTEN", listen, "127.0.0.1:8443", "mutual TLS listener"),
  ...MUTUAL_TLS_SETTINGS,
  ...EDGE_SETTINGS,
  ...HUB_SETTINGS,
  ...CELL_SETTINGS,
  metricsListen: setting("SIGNET_METRICS_LISTEN", listen, "127.0.0.1:9464", "Prometheus metrics"),
  publicUrl: setting(
    "SIGNET_PUBLIC_URL",
    url("https:", "http:"),
    undefined,
    "public address of the API and token issuer; must be https in production. Development: the API's own address",
  ),
  audience: setting(
    "SIGNET_AUDIENCE",
    text,
    "signet",
    "`aud` of access tokens requested without a `resource`, and the only one that this process accepts",
  ),
  resources: setting(
    "SIGNET_RESOURCES",
    resourceIndicators,
    undefined,
    "additional services that tokens may be requested for (`resource`, RFC 8707): absolute URIs, comma-separated; each is the `aud` of its tokens",
  ),
  ...DATABASE_SETTINGS,
  ...DATABASE_TLS_SETTINGS,
  embeddedDatabasePort: setting(
    "SIGNET_EMBEDDED_DATABASE_PORT",
    integer(1, 65_535),
    "54329",
    "port of the embedded PostgreSQL",
  ),
  ...TEMPORAL_SETTINGS,
  ...WORKER_VERSIONING_SETTINGS,
  embeddedTemporalPort: setting(
    "SIGNET_EMBEDDED_TEMPORAL_PORT",
    integer(1, 65_535),
    "7233",
    "port of the embedded Temporal",
  ),
  embeddedTemporalUiPort: setting(
    "SIGNET_EMBEDDED_TEMPORAL_UI_PORT",
    integer(1, 65_535),
    "8233",
    "port of the embedded Temporal's UI",
  ),
  home: setting("SIGNET_HOME", resolve, ".signet", "data of the embedded services, and development keys"),
  cache: setting(
    "SIGNET_CACHE",
    resolve,
    join(homeDirectory(), ".cache", "signet"),
    "where the downloaded Temporal binary is kept",
  ),
  ...OPERATOR_SETTINGS,
  ...CLIENT_SETTINGS,
  ...KEY_SETTINGS,
  ...ROTATION_SETTINGS,
  headerBrand: setting(
    "SIGNET_HEADER_BRAND",
    (value) => {
      if (!/^[A-Za-z][A-Za-z0-9-]{0,31}$/.test(value)) {
        throw new Error("must be letters, digits and hyphens");
      }
      return value;
    },
    "Service",
    "the brand in `X-Service-Signature-256` and the related headers",
  ),
  ...EGRESS_SETTINGS,
  retryWindowMs: setting(
    "SIGNET_RETRY_WINDOW_MS",
    integer(1_000, RETRY_WINDOW_MS),
    String(RETRY_WINDOW_MS),
    "length of the retry schedule, in milliseconds; development only, to try out failures in seconds",
  ),
  deadLetterMs: setting(
    "SIGNET_DEAD_LETTER_MS",
    integer(1_000, DEAD_LETTER_MS),
    String(DEAD_LETTER_MS),
    "how long dead letters are kept, in milliseconds; development only",
  ),
  sendConcurrency: setting(
    "SIGNET_SEND_CONCURRENCY",
    integer(1, 10_000),
    "256",
    "concurrent first attempts per worker process; further deliveries wait in the outbox",
  ),
  endpointConcurrency: setting(
    "SIGNET_ENDPOINT_CONCURRENCY",
    integer(1, 1_000),
    "16",
    "concurrent requests per worker to one endpoint that is retrying, slow or failing",
  ),
  failingEndpointRate: setting(
    "SIGNET_FAILING_ENDPOINT_PER_SECOND",
    integer(1, 100_000),
    String(250 * availableParallelism()),
    "attempts per second and worker to one endpoint that fails or is slow; 250 per core",
  ),
  claimsPerSecond: setting(
    "SIGNET_DELIVERY_CLAIMS_PER_SECOND",
    integer(1, 10_000),
    "60",
    "claims per second, of all workers together, that do not fill a list; claims of at most four deliveries have their own limit, four times as high",
  ),
  batchMax: setting(
    "SIGNET_DELIVERY_BATCH_MAX",
    integer(1, 64),
    "64",
    "maximum number of deliveries in one workflow; 1: no batching",
  ),
  retentionDays: setting(
    "SIGNET_RETENTION_DAYS",
    integer(8, 3_650),
    "30",
    `days that finished deliveries, events and attempts are kept; must exceed the ${DEAD_LETTER_DAYS} days of dead letters`,
  ),
  ...CONNECTION_SETTINGS,
  ...LIMIT_SETTINGS,
  ...ENDPOINT_SETTINGS,
  ...PORTAL_SETTINGS,
  ...REVOCATION_SETTINGS,
  ...COMPLIANCE_SETTINGS,
  ...TRACING_SETTINGS,
  demo: setting("SIGNET_DEMO", oneOf("on", "off"), "on", "whether `npm start` begins with the demo"),
  logLevel: setting(
    "SIGNET_LOG_LEVEL",
    oneOf("trace", "debug", "info", "warn", "error", "silent"),
    "info",
    "minimum severity that is logged",
  ),
} as const;

type Values = {
  readonly [Name in keyof typeof SETTINGS]: (typeof SETTINGS)[Name]["fallback"] extends string
    ? ReturnType<(typeof SETTINGS)[Name]["parse"]>
    : ReturnType<(typeof SETTINGS)[Name]["parse"]> | undefined;
};

/** The service's settings, checked and frozen. */
export interface Config extends Omit<
  Values,
  "publicUrl" | "allowHttpTargets" | "allowedTargetCidrs" | "mtlsMode"
> {
  readonly mtlsMode: MutualTlsMode;
  readonly publicUrl: string;
  readonly allowHttpTargets: boolean;
  readonly allowedTargetCidrs: readonly string[];
  readonly temporalConnection: TemporalConnection;
  readonly development: boolean;
}

/** All problems of the environment in one error. Its `message` can be printed on a terminal. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`Invalid settings:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

const VARIABLES = Object.values(SETTINGS).map(({ variable }) => variable);

export type Environment = Readonly<Record<string, string | undefined>>;

function parse(environment: Environment, names: readonly string[], problems: string[]): Values {
  const values: Record<string, unknown> = {};
  for (const [name, declared] of Object.entries(SETTINGS)) {
    if (!names.includes(name)) {
      continue;
    }
    const given = environment[declared.variable];
    const raw = given === undefined || given === "" ? declared.fallback : given;
    if (raw === undefined) {
      continue;
    }
    try {
      values[name] = declared.parse(raw);
    } catch (error) {
      problems.push(`${declared.variable} ${messageOf(error)}`);
      // loadConfig will throw. The fallback only lets the later checks run.
      values[name] = declared.fallback === undefined ? undefined : declared.parse(declared.fallback);
    }
  }
  return values as Values;
}

/** Returns the settings that violate production's rules (contract 10; security decisions K). */
function productionProblems(
  values: Values & Pick<Config, "temporalConnection">,
  asks: Exclude<ConfigFor, "hub">,
): string[] {
  const problems: string[] = [];
  const edge = asks === "edge";
  const needed = (name: "temporalAddress" | "publicUrl" | "pepper"): void => {
    if (values[name] === undefined) {
      problems.push(`${SETTINGS[name].variable} must be set in production`);
    }
  };
  needed("publicUrl");
  // The edge holds none of the service's secrets and starts no workflows.
  if (!edge) {
    needed("temporalAddress");
    needed("pepper");
  }
  if (!edge && values.kek === undefined && values.kekFile === undefined && values.kmsKek === undefined) {
    problems.push("SIGNET_KEK, SIGNET_KEK_FILE or SIGNET_KEK_KMS must be set in production");
  }
  if (values.publicUrl?.startsWith("http:") === true) {
    problems.push("SIGNET_PUBLIC_URL must be https in production");
  }
  problems.push(...portalProblems(values));
  if (values.allowHttpTargets === "true") {
    problems.push("SIGNET_ALLOW_HTTP_TARGETS must not be true in production");
  }
  if (values.mtlsMode === "off") {
    problems.push("SIGNET_MTLS_MODE must not be off in production");
  }
  if (values.retryWindowMs !== RETRY_WINDOW_MS) {
    problems.push(`SIGNET_RETRY_WINDOW_MS must be ${RETRY_WINDOW_MS} in production`);
  }
  if (values.deadLetterMs !== DEAD_LETTER_MS) {
    problems.push(`SIGNET_DEAD_LETTER_MS must be ${DEAD_LETTER_MS} in production`);
  }
  // The edge does not connect to Temporal.
  const temporal = edge ? [] : plainTemporalProblems(values);
  return [...problems, ...revocationProblems(values), ...plainDatabaseProblems(values), ...temporal];
}

/** The kind of process that loads the settings. Edges and hubs require other settings than the service. */
export type ConfigFor = "service" | "edge" | "hub";

/** Replaces the database URL with the edges' login, if there is one. Hubs use it, too. */
function withOwnLogin(values: Values, asks: ConfigFor): Values {
  const databaseUrl =
    asks === "service" ? values.databaseUrl : (values.edgeDatabaseUrl ?? values.databaseUrl);
  return { ...values, databaseUrl };
}

/**
 * Reads and checks the environment.
 *
 * @throws ConfigError with every problem found
 */
export function loadConfig(given: Environment, asks: ConfigFor = "service"): Config {
  const { environment, problems } = readSecretFiles(given, [
    ...Object.values(URL_VARIABLES),
    "SIGNET_PEPPER",
    "SIGNET_OPERATOR_TOKEN",
    "SIGNET_OUTBOUND_PROXY",
    "SIGNET_LEASE_KEY",
  ]);
  const parsed = withOwnLogin(withUrlFiles(parse(environment, Object.keys(SETTINGS), problems)), asks);
  // The edge does not connect to Temporal.
  const temporal = resolveTemporal(asks === "service" ? environment : {}, parsed, problems);
  const values = { ...withDatabaseTls(parsed), ...temporal };
  const development = values.env === "development";
  const mutualTls = resolveMutualTls(values, development);
  // If SIGNET_ENV is invalid, skip the production checks.
  if (!development && !problems.some((problem) => problem.startsWith(`${SETTINGS.env.variable} `))) {
    // A hub has no secrets, no listener for clients and no Temporal.
    const found = asks === "hub" ? plainDatabaseProblems(values) : productionProblems(values, asks);
    problems.push(...furtherProblems(problems, [...missingDatabase(values, asks), ...found]));
  }
  problems.push(
    ...databaseTlsProblems(parsed),
    ...(asks === "edge" ? edgeProblems({ ...values, ...mutualTls }, development) : []),
    ...hubProblems(values, asks, development),
    ...cellProblems(values, asks, development),
    ...keyProblems(values),
    ...complianceProblems(values),
    ...workerVersioningProblems(values),
    ...(asks === "service" ? statusListProblems(values) : []),
  );
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  return Object.freeze({
    ...values,
    ...mutualTls,
    development,
    publicUrl: values.publicUrl ?? `http://${formatListen(values.apiListen)}`,
    allowHttpTargets:
      values.allowHttpTargets === undefined ? development : values.allowHttpTargets === "true",
    allowedTargetCidrs: values.allowedTargetCidrs ?? (development ? ["127.0.0.0/8", "::1/128"] : []),
  });
}

const OPERATOR_SETTING_NAMES = [
  "adminListen",
  "adminUrl",
  "adminCaFile",
  "operatorToken",
  "operatorKeyFile",
  "operatorCertFile",
  "checkpointKey",
  "checkpointKeyFile",
  "checkpointName",
  "home",
] as const;

/** Settings with which the command line reaches a running service. The server's own settings may be invalid. */
export type OperatorSettings = Pick<Config, (typeof OPERATOR_SETTING_NAMES)[number]> & {
  /** Whether SIGNET_ENV is set to `production`; false if it is unset. */
  readonly production: boolean;
};

/**
 * Reads and checks the settings of the command line.
 *
 * @throws ConfigError with every problem found
 */
export function loadOperatorSettings(given: Environment): OperatorSettings {
  const { environment, problems } = readSecretFiles(given, ["SIGNET_OPERATOR_TOKEN"]);
  const settings = parse(environment, OPERATOR_SETTING_NAMES, problems);
  if ((settings.operatorKeyFile === undefined) !== (settings.operatorCertFile === undefined)) {
    problems.push("SIGNET_OPERATOR_KEY_FILE and SIGNET_OPERATOR_CERT_FILE must be set together");
  }
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  return { ...settings, production: environment[SETTINGS.env.variable] === "production" };
}

const CLIENT_SETTING_NAMES = [
  ...(Object.keys(CLIENT_SETTINGS) as (keyof typeof CLIENT_SETTINGS)[]),
  "apiListen",
  "home",
] as const;

/** Settings with which the command line reaches a running service as a tenant. */
export type ClientSettings = Pick<Config, (typeof CLIENT_SETTING_NAMES)[number]> & {
  /** Whether SIGNET_ENV is set to `production`; false if it is unset. */
  readonly production: boolean;
};

/**
 * Reads and checks the settings of a tenant's commands.
 *
 * @throws ConfigError with every problem found
 */
export function loadClientSettings(given: Environment): ClientSettings {
  const { environment, problems } = readSecretFiles(given, ["SIGNET_CLIENT_SECRET"]);
  const settings = parse(environment, CLIENT_SETTING_NAMES, problems);
  if ((settings.clientKeyFile === undefined) !== (settings.clientCertFile === undefined)) {
    problems.push("SIGNET_CLIENT_KEY_FILE and SIGNET_CLIENT_CERT_FILE must be set together");
  }
  if (problems.length > 0) {
    throw new ConfigError(problems);
  }
  return { ...settings, production: environment[SETTINGS.env.variable] === "production" };
}

/**
 * Returns a warning for each variable that looks like a setting and is none. It is no error, because another version of the
 * program may know it.
 *
 * @param likelyOnly leaves out what resembles no setting: on a machine of people, other programs have variables, too
 */
export function settingWarnings(given: Environment, likelyOnly = false): string[] {
  return likelyOnly ? mistypedSettings(given, VARIABLES) : unknownSettings(given, VARIABLES);
}

/** Calls {@link settingWarnings} with the environment of this process. */
export function settingWarningsFromProcess(likelyOnly = false): string[] {
  return settingWarnings(process.env, likelyOnly);
}

/** Calls {@link loadConfig} with the environment of this process. */
export function configFromProcess(asks?: ConfigFor): Config {
  return loadConfig(process.env, asks);
}

/** Calls {@link loadConfig} with the environment of this process and SIGNET_ENV set to `development`. */
export function developmentConfigFromProcess(): Config {
  return loadConfig({ ...process.env, SIGNET_ENV: "development" });
}

/** Calls {@link loadOperatorSettings} with the environment of this process. */
export function operatorSettingsFromProcess(): OperatorSettings {
  return loadOperatorSettings(process.env);
}

/** Calls {@link loadClientSettings} with the environment of this process. */
export function clientSettingsFromProcess(): ClientSettings {
  return loadClientSettings(process.env);
}

/**
 * Whether to print in colour. FORCE_COLOR decides first, as in Node itself; then NO_COLOR (no-color.org), and whether
 * the output is a terminal that shows colours.
 */
export function wantsColour(isTerminal: boolean, environment: Environment = process.env): boolean {
  const { FORCE_COLOR: forced = "", NO_COLOR: off = "", TERM: terminal } = environment;
  return forced === "" ? isTerminal && off === "" && terminal !== "dumb" : !/^(0|false)$/.test(forced);
}

/** Whether npx started this process. npx stands between the command and its terminal. */
export function startedByNpx(): boolean {
  return process.env["npm_command"] === "exec";
}

/** Returns the whole environment, for child processes that read their own variables. */
export function processEnvironment(): Environment {
  return process.env;
}
