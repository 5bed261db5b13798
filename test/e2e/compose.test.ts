/**
 * docker-compose.yml, as far as it can be tested without a container engine. Its own services run as processes with the
 * file's commands, environment, health checks and order, once. Files with a fault are tried in one further process.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SETTINGS } from "../../src/config/config.ts";
import {
  type ComposeFile,
  type ComposeService,
  type ImageFile,
  parseCompose,
  parseDockerfile,
  parseEnvFile,
  parseSeconds,
  type Variables,
} from "../support/compose-file.ts";
import {
  activeEndpoint,
  call,
  clientFetch,
  pasteTokenRequest,
  provision,
  requireReachable,
} from "../support/compose-reach.ts";
import { type ComposeRun, makePlace, type Place, prepareCompose } from "../support/compose-run.ts";
import { startTrustedReceiver, withVariables } from "../support/compose-region.ts";
import { type ComposeServers, startServers } from "../support/compose-servers.ts";
import { type ComposeStarts, openStarts } from "../support/compose-starts.ts";
import { eventually } from "../support/eventually.ts";
import { productionImage } from "../support/processes.ts";
import { MISSED, NOT_OF_MIGRATE, OPTIONAL, REFUSED } from "../support/compose-settings.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import { type Receiver, verifyReceived } from "../support/receiver-server.ts";

allowMinutes(4);

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
const SERVICES = ["edge", "worker", "api", "migrate"] as const;

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");

let text: string;
let variables: Variables;
let file: ComposeFile;
let image: ImageFile;
let directory: string;
let servers: ComposeServers;
/** The file's services run here. */
let place: Place;
let compose: ComposeRun;
let receiver: Receiver;
/** PostgreSQL and Temporal as they are before `migrate`. */
let empty: Place;
let starts: ComposeStarts;

/** Creates .env with the command in .env.example. */
async function makeEnvFile(): Promise<Variables> {
  const example = await read(".env.example");
  const command = [...example.matchAll(/^# {3}(.*)$/gm)].map(([, line]) => line).join("\n");
  const scratch = await mkdtemp(join(tmpdir(), "signet-compose-"));
  try {
    await run("sh", ["-euc", command], { cwd: scratch });
    return parseEnvFile(await readFile(join(scratch, ".env"), "utf8"));
  } finally {
    await rm(scratch, { recursive: true });
  }
}

async function prepare(composed: ComposeFile, where = place, beside?: ComposeRun): Promise<ComposeRun> {
  return await prepareCompose({ file: composed, image, directory, place: where, beside });
}

beforeAll(async () => {
  text = await read("docker-compose.yml");
  variables = await makeEnvFile();
  file = parseCompose(text, variables);
  image = parseDockerfile(await read("Dockerfile"));
  directory = productionImage();
  servers = await startServers(file);
  [place, empty, starts] = await Promise.all([
    makePlace(file, servers),
    makePlace(file, servers),
    openStarts(directory),
  ]);
  const trusted = await startTrustedReceiver(place);
  ({ receiver } = trusted);
  const opened = parseCompose(text, { ...variables, SIGNET_ALLOWED_TARGET_CIDRS: "127.0.0.0/8" });
  compose = await prepare(withVariables(opened, { worker: trusted.variables }));
  await compose.up(SERVICES);
});

afterAll(async () => {
  await compose?.down();
  await starts?.close();
  await receiver?.close();
  await Promise.all([place?.close(), empty?.close()]);
  await servers?.close();
});

describe("the services as the file runs them", () => {
  test("start in order, and serve what clients and Prometheus reach", async () => {
    for (const name of ["api", "worker", "edge"]) {
      await requireReachable(compose, name, place);
    }
    // The runbook's command for operators.
    expect(await compose.exec("api", ["signet", "doctor"])).toMatch(/^(ok .*\n)+$/);
  });

  test("deliver an event for a tenant created inside the api container", async () => {
    const origin = compose.published(8443);
    const tls = clientFetch(place);
    const client = await provision(compose);
    expect(await pasteTokenRequest(place, origin, client)).toMatchObject({ token_type: "Bearer" });
    const { client_id, client_secret } = client;
    const issued = await call(tls, `${origin}/v1/auth/token`, undefined, {
      client_id,
      client_secret,
      grant_type: "client_credentials",
    });
    const token = String(issued["access_token"]);
    const endpoint = await activeEndpoint(tls, origin, token, `${receiver.url}/hook`);
    const event = await call(tls, `${origin}/v1/events`, token, {
      type: "inference.completed",
      data: { tokens: 42 },
    });

    const requests = await receiver.waitFor(2);
    const delivered = requests.map(
      (request) => verifyReceived(request, [String(endpoint["secret"])]).payload,
    );
    expect(delivered).toMatchObject([
      { type: "ping" },
      { type: "inference.completed", id: event["id"], data: { tokens: 42 } },
    ]);
  });

  test("have no unnecessary setting in the file", () => {
    for (const name of SERVICES) {
      const optional = [...OPTIONAL, ...(name === "migrate" ? NOT_OF_MIGRATE : [])];
      const given = Object.keys(file.services[name]?.environment ?? {});
      const needed = given.filter((key) => !optional.includes(key));
      const known = [...Object.keys(REFUSED[name]), ...Object.keys(MISSED[name])];
      expect(needed.toSorted()).toEqual(known.toSorted());
      const settings = Object.values(SETTINGS).map(({ variable }): string => variable);
      expect(settings).toEqual(expect.arrayContaining(given));
    }
  });
});

type Change = (service: ComposeService) => ComposeService;

function change(name: string, how: Change): ComposeFile {
  const service = file.services[name];
  if (service === undefined) {
    throw new Error(`no service ${name}`);
  }
  return { ...file, services: { ...file.services, [name]: how(service) } };
}

const without =
  (key: string): Change =>
  ({ environment: { [key]: removed, ...environment } = {}, ...service }) => {
    expect(removed).toBeDefined();
    return { ...service, environment };
  };

const set =
  (key: string, from: string | RegExp, to: string): Change =>
  ({ environment = {}, ...service }) => {
    const value = environment[key]?.replace(from, to) ?? "";
    expect(value).not.toBe(environment[key]);
    return { ...service, environment: { ...environment, [key]: value } };
  };

/** A service that starts, but has not everything that it needs. */
const NOT_READY = /is not ready/;

/** Starts one service of a file. Returns what is wrong with it, or an empty string. */
async function problemOf(
  name: string,
  composed: ComposeFile,
  { where = place, expected = /^$/ }: { readonly where?: Place; readonly expected?: RegExp } = {},
): Promise<string> {
  const trial = await prepare(composed, where, name === "edge" ? compose : undefined);
  const started = await starts.start(name, trial.environment(name));
  const readiness = async (): Promise<Response> => await fetch(`${trial.metrics(name)}/readyz`);
  try {
    if (started.state === "ended") {
      return `${name} ended:\n${started.text}`;
    }
    if (NOT_READY.test(expected.source)) {
      const answer = await (await readiness()).text();
      return (await trial.isHealthy(name)) ? "" : `${name} is not ready:\n${answer}\n${started.text}`;
    }
    await eventually(async () => (await readiness()).ok, `${name} to be ready`);
    if (!(await trial.isHealthy(name))) {
      return `${name} is not healthy`;
    }
    await requireReachable(trial, name, where);
    return "";
  } catch (error) {
    const { cause } = error as Error;
    return cause instanceof Error ? `${String(error)}: ${cause.message}` : String(error);
  } finally {
    await started.stop();
  }
}

async function expectProblem(name: string, how: Change, expected: RegExp): Promise<void> {
  expect(await problemOf(name, change(name, how), { expected })).toMatch(expected);
}

test.for(SERVICES)("%s refuses to start without one of its settings", async (name) => {
  const environmentOf = async (composed: ComposeFile): Promise<Variables> =>
    (await prepare(composed)).environment(name);
  const refused = Object.entries(REFUSED[name]);
  const environments = await Promise.all([
    environmentOf(file),
    ...refused.map(async ([key]) => await environmentOf(change(name, without(key)))),
  ]);
  const [whole, ...problems] = await starts.problemsOf(name, environments);
  expect(whole).toBe("");
  for (const [index, [key, because]] of refused.entries()) {
    expect.soft(problems[index], key).toMatch(because);
  }
});

const RUNNING = ["api", "worker", "edge"] as const;

test.concurrent.for(RUNNING)("%s passes the check that files with a fault fail", async (name) => {
  expect(await problemOf(name, file)).toBe("");
});

const removals = RUNNING.flatMap((name) =>
  Object.entries(MISSED[name]).map(([key, because]) => [name, key, because] as const),
);

test.concurrent.for(removals)("%s does not start up without %s", async ([name, key, because]) => {
  await expectProblem(name, without(key), because);
});

describe.concurrent("migrate", () => {
  /** Tries both `migrate` and the edge, for which it makes a login, on new databases. */
  async function problemOfMigrate(key: string): Promise<string> {
    const where = await makePlace(file, servers);
    try {
      const composed = change("migrate", without(key));
      const trial = await prepare(composed, where);
      const migrated = await starts.start("migrate", trial.environment("migrate"));
      return migrated.state === "ended"
        ? `migrate ended:\n${migrated.text}`
        : await problemOf("edge", composed, { where });
    } finally {
      await where.close();
    }
  }

  test.for(Object.entries(MISSED.migrate))("does not do its work without %s", async ([key, because]) => {
    expect(await problemOfMigrate(key)).toMatch(because);
  });

  // `up` starts a service that does not wait for `migrate` before it.
  test.for(RUNNING)("comes before %s", async (name) => {
    expect(await problemOf(name, file, { where: empty })).toMatch(
      /schema is not up to date|password authentication failed/,
    );
  });
});

const health =
  (from: string, to: string): Change =>
  ({ healthcheck, ...service }) => ({
    ...service,
    healthcheck: {
      timeout: healthcheck?.timeout ?? "",
      retries: healthcheck?.retries ?? 1,
      test: healthcheck?.test.map((word) => word.replace(from, to)) ?? [],
    },
  });
/** The authority that issues client certificates to tenants. */
const CLIENTS_CA = ["trust/internal-ca.crt", "edge/clients-ca.crt"] as const;
const ofClients: Change = (service) =>
  set(
    "TEMPORAL_TLS_CLIENT_CERT_PATH",
    "keys/temporal",
    "edge/edge",
  )(set("TEMPORAL_TLS_CLIENT_KEY_PATH", "keys/temporal", "edge/edge")(service));

test.concurrent.for<readonly [name: string, command: readonly string[], because: RegExp]>([
  ["migrate", ["migrat"], /unknown command/],
  ["api", ["apis"], /unknown command/],
  ["worker", [], /Usage: signet/],
  ["edge", ["api"], /TEMPORAL_ADDRESS must be set/],
])("%s does not start up with the command %j", async ([name, command, because]) => {
  const trial = await prepare(change(name, (service) => ({ ...service, command })));
  const ended = await trial.end(name);
  expect(ended).toMatch(/ ended with code [12]:/);
  expect(ended).toMatch(because);
});

test.concurrent.for<readonly [name: string, what: string, how: Change, because: RegExp]>([
  ["api", "health check's path", health("/readyz", "/ready"), /api is not healthy/],
  ["api", "health check's port", health(":9464", ":9465"), /api is not healthy/],
  ["worker", "health check's path", health("/readyz", "/ready"), /worker is not healthy/],
  ["worker", "health check's program", health("node", "curl"), /worker is not healthy/],
  [
    "edge",
    "published port",
    (service) => ({ ...service, ports: ["127.0.0.1:8443:8444"] }),
    /cannot be reach/,
  ],
  ["edge", "health check's path", health("/readyz", "/ready"), /edge is not healthy/],
  ["edge", "host", set("SIGNET_EDGE_LISTEN", "0.0.0.0", "127.0.0.1"), /edge:8443 cannot be reached/],
  ["edge", "password", set("SIGNET_EDGE_DATABASE_URL", /:\w+@/, ":x@"), /password authentication failed/],
  ["edge", "certificate", set("SIGNET_EDGE_CERT_FILE", "edge.crt", "server.crt"), /edge ended/],
  ["edge", "api", set("SIGNET_EDGE_API_URL", "8443", "8444"), /the issuer is undefined/],
  ["edge", "name of the api", set("SIGNET_EDGE_API_NAMES", "api", "edge"), /issuer is undefined/],
  [
    "edge",
    "certificate for its clients",
    set("SIGNET_TLS_CERT_FILE", "server.crt", "edge.crt"),
    /edge ended/,
  ],
  [
    "edge",
    "certificate and key for the api",
    ({ environment = {}, ...service }) => ({
      ...service,
      environment: {
        ...environment,
        SIGNET_EDGE_CERT_FILE: environment["SIGNET_TLS_CERT_FILE"] ?? "",
        SIGNET_EDGE_KEY_FILE: environment["SIGNET_TLS_KEY_FILE"] ?? "",
      },
    }),
    /the issuer is undefined/,
  ],
  ["api", "name of the edge", set("SIGNET_PROXY_NAMES", "edge", "client/example"), /issuer is undefined/],
  ["api", "mode", set("SIGNET_MTLS_MODE", "proxy", "off"), /SIGNET_MTLS_MODE must not be off/],
  ["api", "host", set("SIGNET_EDGE_LISTEN", "0.0.0.0", "127.0.0.1"), /api:8443 cannot be reached/],
  ["api", "port", set("SIGNET_EDGE_LISTEN", "8443", "8444"), /api:8443 cannot be reached/],
  ["worker", "metrics host", set("SIGNET_METRICS_LISTEN", "0.0.0.0", "127.0.0.1"), /cannot be reached/],
  ["worker", "metrics port", set("SIGNET_METRICS_LISTEN", "9464", "9465"), /worker is not healthy/],
  ["api", "public URL", set("SIGNET_PUBLIC_URL", "8443", "8444"), /issuer/],
  ["api", "password", set("SIGNET_DATABASE_URL", /:\w+@/, ":x@"), /password authentication failed/],
  ["worker", "password", set("SIGNET_DATABASE_URL", /:\w+@/, ":x@"), /password authentication failed/],
  ["api", "database", set("SIGNET_DATABASE_URL", /signet$/, "x"), /database "x_\w+" does not exist/],
  ["api", "Temporal port", set("TEMPORAL_ADDRESS", "7233", "7234"), /api is not ready:.*temporal/s],
  [
    "worker",
    "Temporal port",
    set("TEMPORAL_ADDRESS", "7233", "7234"),
    /worker is not ready:.*Temporal cannot be/s,
  ],
  ["api", "CA of the database", set("SIGNET_DATABASE_CA_FILE", ...CLIENTS_CA), /certificate/],
  ["edge", "CA of the database", set("SIGNET_DATABASE_CA_FILE", ...CLIENTS_CA), /certificate/],
  [
    "worker",
    "CA of Temporal",
    set("TEMPORAL_TLS_SERVER_CA_CERT_PATH", ...CLIENTS_CA),
    /worker is not ready:.*Temporal cannot be/s,
  ],
  [
    "worker",
    "certificate for Temporal, of the clients' CA",
    ofClients,
    /worker is not ready:.*Temporal cannot be/s,
  ],
  ["api", "certificate for Temporal, of the clients' CA", ofClients, /api is not ready:.*temporal/s],
  ["worker", "key", set("SIGNET_KEK_FILE", "kek", "kek-of-others"), /kek-of-others/],
  ["worker", "pepper", set("SIGNET_PEPPER_FILE", "pepper", "salt"), /SIGNET_PEPPER_FILE cannot be read/],
  ["api", "token", set("SIGNET_OPERATOR_TOKEN_FILE", "operator-token", "x"), /_TOKEN_FILE cannot be read/],
  ["api", "certificate", set("SIGNET_TLS_CERT_FILE", "server.crt", "clients-ca.crt"), /api ended/],
])("%s does not start up with a wrong %s", async ([name, , how, because]) => {
  await expectProblem(name, how, because);
});

test("the services end with code 0 in their time", async () => {
  let ended = false;
  await withoutPause(async () => {
    if (ended) {
      await compose.up(SERVICES);
    }
    ended = true;
    const ends = await compose.down();
    expect(ends.size).toBe(RUNNING.length);
    for (const [name, { code, tookMs }] of ends) {
      expect({ name, code }).toEqual({ name, code: 0 });
      expect(tookMs, name).toBeLessThan(parseSeconds(file.services[name]?.stop_grace_period ?? ""));
    }
  });
});
