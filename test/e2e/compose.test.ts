/**
 * docker-compose.yml, as far as it can be tried without a container engine: its own services run as processes from the
 * file's commands, environment, health checks and order; the others are held to what their images need.
 */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { SETTINGS } from "../../src/config.ts";
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
  type ComposeRun,
  makePlace,
  type Place,
  prepareCompose,
  type RunOptions,
} from "../support/compose-run.ts";
import { eventually } from "../support/eventually.ts";
import { productionImage } from "../support/processes.ts";
import { startReceiver, verifyReceived } from "../support/receiver-server.ts";

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
/** The most demanding first: what starts before it may is found out. */
const SERVICES = ["worker", "api", "migrate"] as const;
const PATIENT = { start: 60_000, health: 60_000 };
/** For what is not expected to be healthy: a start takes a second or two, a health check a tenth. */
const IMPATIENT = { start: 8_000, health: 1_500 };

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");

let text: string;
let variables: Variables;
let file: ComposeFile;
let image: ImageFile;
let directory: string;

/** .env, made by the command in .env.example. */
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
}, 180_000);

async function prepare(
  composed: ComposeFile,
  place: Place,
  options: Pick<RunOptions, "patienceMs" | "completed">,
): Promise<ComposeRun> {
  return await prepareCompose({ file: composed, image, directory, place, ...options });
}

/** What must hold beside the services' own health checks for the whole to be of use. @throws when it does not */
async function requireReachable(compose: ComposeRun, names: readonly string[]): Promise<void> {
  for (const name of names.filter((service) => service !== "migrate")) {
    const metrics = await fetch(`${compose.reach(name, 9464)}/metrics`);
    if (!(await metrics.text()).includes("process_cpu_seconds_total")) {
      throw new Error(`${name} serves no metrics`);
    }
  }
  if (names.includes("api")) {
    const origin = compose.published(8080);
    const metadata = await fetch(`${origin}/.well-known/oauth-authorization-server`);
    const { issuer } = (await metadata.json()) as Json;
    if (issuer !== origin) {
      throw new Error(`the issuer is ${String(issuer)}, published is ${origin}`);
    }
  }
}

interface Json {
  readonly [member: string]: unknown;
}

async function call(url: string, token: string | undefined, body?: Json): Promise<Json> {
  const response = await fetch(url, {
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

/** A client that may use the webhooks, made as an operator makes one. */
async function provision(compose: ComposeRun): Promise<Json> {
  const { id: tenant } = await signet(compose, ["tenant", "create", "Example", "--region", "eu"]);
  const of = ["--tenant", String(tenant)];
  const scopes = "webhooks:write webhooks:read events:publish";
  const { id: role } = await signet(compose, ["role", "create", "publisher", ...of, "--scopes", scopes]);
  const what = ["--role", String(role), "--region", "eu", "--environment", "development"];
  const { id: principal } = await signet(compose, ["principal", "create", "service", ...of, ...what]);
  return await signet(compose, ["credential", "create", "--principal", String(principal)]);
}

describe("the services as the file runs them", () => {
  let place: Place;

  beforeAll(async () => {
    place = await makePlace(file);
  });

  afterAll(async () => {
    await place.close();
  });

  test("come up in order, deliver an event for a tenant made inside the api container, and end in time", async () => {
    const compose = await prepare(file, place, { patienceMs: PATIENT });
    const receiver = await startReceiver();
    try {
      await compose.up(SERVICES);
      await requireReachable(compose, SERVICES);
      const origin = compose.published(8080);

      const { client_id, client_secret } = await provision(compose);
      const issued = await call(`${origin}/v1/auth/token`, undefined, {
        client_id,
        client_secret,
        grant_type: "client_credentials",
      });
      const token = String(issued["access_token"]);
      const endpoint = await call(`${origin}/v1/webhooks/endpoints`, token, {
        url: `${receiver.url}/hook`,
        events: ["inference.completed"],
      });
      const member = `${origin}/v1/webhooks/endpoints/${String(endpoint["id"])}`;
      await eventually(async () => (await call(member, token))["state"] === "ACTIVE", "the endpoint");
      const event = await call(`${origin}/v1/events`, token, {
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
  }, 180_000);

  /** The start-up check: of the service and what it needs of ours, on servers that it may share or has for itself. */
  async function startUp(
    broken: ComposeFile,
    names: readonly string[],
    { own, patienceMs }: { own: boolean; patienceMs: RunOptions["patienceMs"] },
  ): Promise<void> {
    const there = own ? await makePlace(file) : place;
    const compose = await prepare(broken, there, {
      patienceMs,
      completed: own ? [] : ["migrate"],
    });
    try {
      await compose.up(names);
      await requireReachable(compose, names);
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
    const patienceMs = because.source.includes("is not healthy") ? IMPATIENT : PATIENT;
    await expect(startUp(broken, names, { own, patienceMs })).rejects.toThrow(because);
  }

  type Change = (service: ComposeService) => ComposeService;

  function change(name: string, how: Change): ComposeFile {
    const service = file.services[name];
    if (service === undefined) {
      throw new Error(`there is no service ${name}`);
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

  test("pass the start-up check that the broken ones below fail", async () => {
    await startUp(file, SERVICES, { own: true, patienceMs: PATIENT });
    await startUp(file, ["api"], { own: false, patienceMs: PATIENT });
    await startUp(file, ["worker"], { own: false, patienceMs: PATIENT });
  }, 60_000);

  /** Why a service cannot do without the key: what the start-up check says when it is gone. */
  const NEEDED: Readonly<Record<string, Readonly<Record<string, RegExp>>>> = {
    migrate: {
      SIGNET_ENV: /SIGNET_PUBLIC_URL must be set in production/,
      SIGNET_DATABASE_URL: /api ended with code 1:.*role .* does not exist|password authentication failed/s,
      SIGNET_DATABASE_ADMIN_URL: /migrate ended with code 1:.*password authentication failed/s,
      TEMPORAL_ADDRESS: /api is not healthy:.*Namespace .* is not found/s,
    },
    api: {
      SIGNET_ENV: /SIGNET_PUBLIC_URL must be https in production/,
      SIGNET_DATABASE_URL: /SIGNET_DATABASE_URL must be set/,
      TEMPORAL_ADDRESS: /TEMPORAL_ADDRESS must be set/,
      SIGNET_PEPPER: /\.signet\/pepper/,
      SIGNET_KEK: /\.signet\/kek/,
      SIGNET_OPERATOR_TOKEN: /\.signet\/operator-token/,
      SIGNET_METRICS_LISTEN: /api:9464 cannot be reached/,
      SIGNET_API_LISTEN: /api:8080 cannot be reached/,
      SIGNET_PUBLIC_URL: /issuer/,
    },
    worker: {
      SIGNET_ENV: /SIGNET_PUBLIC_URL must be set in production/,
      SIGNET_DATABASE_URL: /SIGNET_DATABASE_URL must be set/,
      TEMPORAL_ADDRESS: /TEMPORAL_ADDRESS must be set/,
      SIGNET_PEPPER: /\.signet\/pepper/,
      SIGNET_KEK: /\.signet\/kek/,
      SIGNET_METRICS_LISTEN: /worker:9464 cannot be reached/,
      SIGNET_CHECKPOINT_KEY: /\.signet\/checkpoint-key/,
      SIGNET_CHECKPOINT_DIR: /\.signet\/checkpoints/,
    },
  };
  /** Settings that may be left out, and what `migrate` has only in common with the others. */
  const OPTIONAL = ["SIGNET_ALLOWED_TARGET_CIDRS", "SIGNET_LOG_LEVEL"];
  const NOT_OF_MIGRATE = ["SIGNET_PEPPER", "SIGNET_KEK", "SIGNET_METRICS_LISTEN"];

  test("have no setting in the file that nobody needs", () => {
    for (const name of SERVICES) {
      const optional = [...OPTIONAL, ...(name === "migrate" ? NOT_OF_MIGRATE : [])];
      const given = Object.keys(file.services[name]?.environment ?? {});
      const needed = given.filter((key) => !optional.includes(key));
      expect(needed.toSorted()).toEqual(Object.keys(NEEDED[name] ?? {}).toSorted());
      const known = Object.values(SETTINGS).map(({ variable }): string => variable);
      expect(known).toEqual(expect.arrayContaining(given));
    }
  });

  const removals = Object.entries(NEEDED).flatMap(([name, keys]) =>
    Object.entries(keys).map(([key, because]) => [name, key, because] as const),
  );

  test.for(removals)("%s does not start up without %s", async ([name, key, because]) => {
    const own = name === "migrate";
    const names = own ? ["api", "migrate"] : [name];
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
  const independent: Change = ({ depends_on: _needs, ...service }) => service;

  test.for<readonly [name: string, what: string, how: Change, because: RegExp, own?: "own"]>([
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
      "api",
      "published port",
      (service) => ({ ...service, ports: ["127.0.0.1:8080:8081"] }),
      /cannot be reach/,
    ],
    ["api", "host", set("SIGNET_API_LISTEN", "0.0.0.0", "127.0.0.1"), /api:8080 cannot be reached/],
    ["api", "port", set("SIGNET_API_LISTEN", "8080", "8082"), /api:8080 cannot be reached/],
    ["worker", "metrics host", set("SIGNET_METRICS_LISTEN", "0.0.0.0", "127.0.0.1"), /cannot be reached/],
    ["worker", "metrics port", set("SIGNET_METRICS_LISTEN", "9464", "9465"), /worker is not healthy/],
    ["api", "public URL", set("SIGNET_PUBLIC_URL", "8080", "8081"), /issuer/],
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
    ["worker", "key", set("SIGNET_KEK", /^.{30}/, ""), /SIGNET_KEK must be at least 32 bytes/],
    ["api", "token", set("SIGNET_OPERATOR_TOKEN", /^.{40}/, ""), /SIGNET_OPERATOR_TOKEN must have 32/],
  ])("%s does not start up with another %s", async ([name, , how, because, own]) => {
    const names = own === undefined ? [name] : [name, "migrate"];
    await expectBroken(change(name, how), names, { own: own !== undefined, because });
  });
});
