/**
 * docker-compose.yml, as far as it can be tested without a container engine. Its own services run as processes with the
 * file's commands, environment, health checks and order. The other services are checked against their images' needs.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
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
import { clientFetch, pasteTokenRequest, requireReachable } from "../support/compose-reach.ts";
import {
  type ComposeRun,
  makePlace,
  type Place,
  prepareCompose,
  type RunOptions,
} from "../support/compose-run.ts";
import { type ComposeServers, startServers } from "../support/compose-servers.ts";
import type { createTlsFetch } from "../../src/lib/client/tls-fetch.ts";
import { newRoot, serverPair } from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { IMAGE_ENVIRONMENT, productionImage, runProcess } from "../support/processes.ts";
import { MISSED, NOT_OF_MIGRATE, OPTIONAL, REFUSED } from "../support/compose-settings.ts";
import { startReceiver, verifyReceived } from "../support/receiver-server.ts";

type Timeouts = Pick<RunOptions, "timeoutMs" | "willNotStart">;

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** Most dependent first, so that a service that starts too early is detected. */
const SERVICES = ["edge", "worker", "api", "migrate"] as const;
const LONG_TIMEOUTS: Timeouts = { timeoutMs: { start: 180_000, health: 180_000 } };
/** For services that should stay unhealthy: a start takes a second or two, a health check a tenth. */
const SHORT_TIMEOUTS: Timeouts = {
  timeoutMs: { start: 25_000, health: 1_500 },
  // A worker waits for Temporal forever.
  willNotStart: /Temporal cannot be reached/,
};

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");

let text: string;
let variables: Variables;
let file: ComposeFile;
let image: ImageFile;
let directory: string;
let servers: ComposeServers;

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

beforeAll(async () => {
  text = await read("docker-compose.yml");
  variables = await makeEnvFile();
  file = parseCompose(text, variables);
  image = parseDockerfile(await read("Dockerfile"));
  directory = await productionImage();
  servers = await startServers(file);
});

afterAll(async () => {
  await servers.close();
});

async function prepare(
  composed: ComposeFile,
  place: Place,
  options: Timeouts & Pick<RunOptions, "completed">,
): Promise<ComposeRun> {
  return await prepareCompose({ file: composed, image, directory, place, ...options });
}

interface Json {
  readonly [member: string]: unknown;
}

async function call(
  tls: ReturnType<typeof createTlsFetch>,
  url: string,
  token: string | undefined,
  body?: Json,
): Promise<Json> {
  const response = await tls(url, {
    method: body === undefined ? "GET" : "POST",
    headers: {
      ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const answer = (await response.json()) as Json;
  expect(response.ok, JSON.stringify(answer)).toBe(true);
  return answer;
}

async function signet(compose: ComposeRun, args: readonly string[]): Promise<Json> {
  return JSON.parse(await compose.exec("api", ["signet", ...args, "--json"])) as Json;
}

/** Creates a client for webhooks, as an operator does. */
async function provision(compose: ComposeRun): Promise<Json> {
  const { id: tenant } = await signet(compose, ["tenant", "create", "Example", "--region", "eu"]);
  const of = ["--tenant", String(tenant)];
  const scopes = "webhooks:write webhooks:read events:publish";
  const { id: role } = await signet(compose, ["role", "create", "publisher", ...of, "--scopes", scopes]);
  const what = ["--role", String(role), "--region", "eu", "--environment", "production"];
  const { id: principal } = await signet(compose, ["principal", "create", "service", ...of, ...what]);
  const certificate = ["--san-uri", "spiffe://signet.compose/client/example"];
  return await signet(compose, ["credential", "create", "--principal", String(principal), ...certificate]);
}

describe("the services as the file runs them", () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace(file, servers);
  });

  afterAll(async () => {
    await place.close();
  });

  test("start in order, deliver an event for a tenant created inside the api container, and stop in time", async () => {
    // The receiver is on this machine, so allow its range and give the worker its CA.
    const opened = parseCompose(text, { ...variables, SIGNET_ALLOWED_TARGET_CIDRS: "127.0.0.0/8" });
    const root = await newRoot("Receivers");
    const rootFile = join(place.volumes, "receivers.crt");
    await writeFile(rootFile, root.cert);
    const { worker = {} } = opened.services;
    const trusting = { ...worker, environment: { ...worker.environment, NODE_EXTRA_CA_CERTS: rootFile } };
    const trustful = { ...opened, services: { ...opened.services, worker: trusting } };
    const compose = await prepare(trustful, place, LONG_TIMEOUTS);
    const receiver = await startReceiver({ tls: await serverPair(root) });
    try {
      await compose.up(SERVICES);
      await requireReachable(compose, SERVICES, place);
      // The runbook's command for operators.
      expect(await compose.exec("api", ["signet", "doctor"])).toMatch(/^(ok .*\n)+$/);
      const origin = compose.published(8443);
      const tls = await clientFetch(place);

      const client = await provision(compose);
      expect(await pasteTokenRequest(place, origin, client)).toMatchObject({ token_type: "Bearer" });
      const { client_id, client_secret } = client;
      const issued = await call(tls, `${origin}/v1/auth/token`, undefined, {
        client_id,
        client_secret,
        grant_type: "client_credentials",
      });
      const token = String(issued["access_token"]);
      const endpoint = await call(tls, `${origin}/v1/webhooks/endpoints`, token, {
        url: `${receiver.url}/hook`,
        events: ["inference.completed"],
      });
      const member = `${origin}/v1/webhooks/endpoints/${String(endpoint["id"])}`;
      await eventually(async () => (await call(tls, member, token))["state"] === "ACTIVE", "the endpoint");
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
    } finally {
      const ends = await compose.down();
      await receiver.close();
      for (const [name, { code, tookMs }] of ends) {
        expect.soft({ name, code }).toEqual({ name, code: 0 });
        expect.soft(tookMs).toBeLessThan(parseSeconds(file.services[name]?.stop_grace_period ?? ""));
      }
    }
  });

  /** Runs the start-up check of services and their dependencies, on shared or separate servers. */
  async function startUp(
    broken: ComposeFile,
    names: readonly string[],
    {
      own,
      timeouts = LONG_TIMEOUTS,
      completed = ["migrate"],
    }: { own: boolean; timeouts?: Timeouts; completed?: readonly string[] },
  ): Promise<void> {
    const there = own ? await makePlace(file, servers) : place;
    const compose = await prepare(broken, there, {
      ...timeouts,
      completed: own ? [] : completed,
    });
    try {
      await compose.up(names);
      await requireReachable(compose, names, there);
    } finally {
      await compose.down();
      if (own) {
        await there.close();
      }
    }
  }

  async function expectBroken(
    broken: ComposeFile,
    names: readonly string[],
    { own, because }: { own: boolean; because: RegExp },
  ): Promise<void> {
    const timeouts = because.source.includes("is not healthy") ? SHORT_TIMEOUTS : LONG_TIMEOUTS;
    // An edge alone does not get as far as calling the api.
    const completed = names.join() === "edge" ? ["migrate", "api"] : ["migrate"];
    await expect(startUp(broken, names, { own, timeouts, completed })).rejects.toThrow(because);
  }

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

  // All four have passed it above, on empty servers.
  test("pass the start-up check that the broken ones below fail", async () => {
    await startUp(file, ["api"], { own: false });
    await startUp(file, ["worker"], { own: false });
    await startUp(file, ["edge", "api"], { own: false });
    await startUp(file, ["edge"], { own: false, completed: ["migrate", "api"] });
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

  /** Returns the configuration errors for each environment, all from one process. */
  async function problemsOf(name: string, environments: readonly Variables[]): Promise<readonly string[]> {
    const script = `const { loadConfig } = await import("./dist/src/config/config.js");
      const problems = JSON.parse(process.argv[1]).map((environment) => {
        try { loadConfig(environment, ${name === "edge" ? '"edge"' : "undefined"}); return ""; }
        catch (error) { return error.message; }
      });
      console.log(JSON.stringify(problems));`;
    const command = ["node", "--input-type=module", "--eval", script, JSON.stringify(environments)];
    const printed = await runProcess({ command, cwd: directory, environment: IMAGE_ENVIRONMENT });
    return JSON.parse(printed) as string[];
  }

  test.for(SERVICES)("%s refuses to start without one of its settings", async (name) => {
    const environmentOf = async (composed: ComposeFile): Promise<Variables> =>
      (await prepare(composed, place, LONG_TIMEOUTS)).environment(name);
    const refused = Object.entries(REFUSED[name]);
    const environments = await Promise.all([
      environmentOf(file),
      ...refused.map(async ([key]) => await environmentOf(change(name, without(key)))),
    ]);
    const [whole, ...problems] = await problemsOf(name, environments);
    expect(whole).toBe("");
    for (const [index, [key, because]] of refused.entries()) {
      expect.soft(problems[index], key).toMatch(because);
    }
  });

  const removals = SERVICES.flatMap((name) =>
    [
      // Invalid settings end the process; one case of them is enough.
      ...Object.entries(REFUSED[name]).slice(0, 1),
      ...Object.entries(MISSED[name]),
    ].map(([key, because]) => [name, key, because] as const),
  );

  test.for(removals)("%s does not start up without %s", async ([name, key, because]) => {
    const own = name === "migrate";
    const beside = key === "SIGNET_EDGE_DATABASE_URL" ? ["edge", "api"] : ["api"];
    const names = own ? [...beside, "migrate"] : [name];
    await expectBroken(change(name, without(key)), names, { own, because });
  });

  const health =
    (from: string, to: string): Change =>
    ({ healthcheck, ...service }) => ({
      ...service,
      healthcheck: {
        timeout: healthcheck?.timeout ?? "",
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
  const independent: Change = ({ depends_on: _needs, ...service }) => service;

  test.for<readonly [name: string, what: string, how: Change, because: RegExp, beside?: "own" | "api"]>([
    ["migrate", "command", (service) => ({ ...service, command: ["migrat"] }), /unknown command/, "own"],
    ["api", "command", (service) => ({ ...service, command: ["apis"] }), /unknown command/],
    ["worker", "command", (service) => ({ ...service, command: [] }), /Usage: signet/],
    ["api", "health check's path", health("/readyz", "/ready"), /api is not healthy/],
    ["api", "health check's port", health(":9464", ":9465"), /api is not healthy/],
    ["worker", "health check's path", health("/readyz", "/ready"), /worker is not healthy/],
    ["worker", "health check's program", health("node", "curl"), /worker is not healthy/],
    ["api", "dependencies", independent, /schema is not up to date|password authentication failed/, "own"],
    ["worker", "dependencies", independent, /schema is not up to date|password authentication failed/, "own"],
    [
      "edge",
      "published port",
      (service) => ({ ...service, ports: ["127.0.0.1:8443:8444"] }),
      /cannot be reach/,
    ],
    ["edge", "command", (service) => ({ ...service, command: ["api"] }), /TEMPORAL_ADDRESS must be set/],
    ["edge", "health check's path", health("/readyz", "/ready"), /edge is not healthy/],
    ["edge", "host", set("SIGNET_EDGE_LISTEN", "0.0.0.0", "127.0.0.1"), /edge:8443 cannot be reached/],
    ["edge", "password", set("SIGNET_EDGE_DATABASE_URL", /:\w+@/, ":x@"), /password authentication failed/],
    ["edge", "certificate", set("SIGNET_EDGE_CERT_FILE", "edge.crt", "server.crt"), /edge ended with code/],
    ["edge", "api", set("SIGNET_EDGE_API_URL", "8443", "8444"), /the issuer is undefined/, "api"],
    ["edge", "name of the api", set("SIGNET_EDGE_API_NAMES", "api", "edge"), /issuer is undefined/, "api"],
    [
      "edge",
      "certificate for its clients",
      set("SIGNET_TLS_CERT_FILE", "server.crt", "edge.crt"),
      /edge ended with code/,
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
      "api",
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
    ["api", "database", set("SIGNET_DATABASE_URL", /signet$/, "x"), /database \\"x_\w+\\" does not exist/],
    ["api", "Temporal port", set("TEMPORAL_ADDRESS", "7233", "7234"), /api is not healthy:.*temporal/s],
    [
      "worker",
      "Temporal port",
      set("TEMPORAL_ADDRESS", "7233", "7234"),
      /worker is not healthy:.*Temporal cannot be/s,
    ],
    ["api", "CA of the database", set("SIGNET_DATABASE_CA_FILE", ...CLIENTS_CA), /certificate/],
    ["edge", "CA of the database", set("SIGNET_DATABASE_CA_FILE", ...CLIENTS_CA), /certificate/],
    [
      "worker",
      "CA of Temporal",
      set("TEMPORAL_TLS_SERVER_CA_CERT_PATH", ...CLIENTS_CA),
      /worker is not healthy:.*Temporal cannot be/s,
    ],
    [
      "worker",
      "certificate for Temporal, of the clients' CA",
      ofClients,
      /worker is not healthy:.*Temporal cannot be/s,
    ],
    ["api", "certificate for Temporal, of the clients' CA", ofClients, /api is not healthy:.*temporal/s],
    ["worker", "key", set("SIGNET_KEK_FILE", "kek", "kek-of-others"), /kek-of-others/],
    ["worker", "pepper", set("SIGNET_PEPPER_FILE", "pepper", "salt"), /SIGNET_PEPPER_FILE cannot be read/],
    ["api", "token", set("SIGNET_OPERATOR_TOKEN_FILE", "operator-token", "x"), /_TOKEN_FILE cannot be read/],
    [
      "api",
      "certificate",
      set("SIGNET_TLS_CERT_FILE", "server.crt", "clients-ca.crt"),
      /api ended with code/,
    ],
  ])("%s does not start up with a wrong %s", async ([name, , how, because, beside]) => {
    const own = beside === "own";
    const names = beside === undefined ? [name] : [name, own ? "migrate" : beside];
    await expectBroken(change(name, how), names, { own, because });
  });
});
