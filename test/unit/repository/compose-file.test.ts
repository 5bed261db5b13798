/** Properties of docker-compose.yml that are checked without a container engine. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { SETTINGS } from "#config/config.ts";
import { POSTGRES_SETTINGS } from "#test/bench/environment/shipped.ts";
import {
  type ComposeFile,
  type ComposeService,
  type ImageFile,
  mountsOf,
  parseDockerfile,
  parseEnvFile,
  parseSeconds,
  PINNED,
  readCompose,
  readComposeTexts,
} from "#test/support/compose-file.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
/** How long a process may take to exit by itself (src/processes/main.ts). */
const CLOSE_TIMEOUT_MS = 18_000;
/** The process with all parts, and the second one. */
const TOGETHER = ["signet", "signet-b"];

let text: string;
let example: string;
let file: ComposeFile;
let dockerfile: string;
let image: ImageFile;

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");

beforeAll(async () => {
  text = readComposeTexts(REPOSITORY).join("\n");
  example = await read(".env.example");
  dockerfile = await read("Dockerfile");
  image = parseDockerfile(dockerfile);
  const secrets = Object.keys(parseEnvFile(example)).map((name) => [name, `secret-of-${name}`]);
  file = readCompose(REPOSITORY, Object.fromEntries(secrets) as Record<string, string>);
});

function service(name: string): ComposeService {
  const found = file.services[name];
  if (found === undefined) {
    throw new Error(`there is no service ${name}`);
  }
  return found;
}

function environment(name: string): Readonly<Record<string, string>> {
  return service(name).environment ?? {};
}

const all = (): [string, ComposeService][] => Object.entries(file.services);
const isJob = ({ restart }: ComposeService): boolean => restart === "no";

describe("every service", () => {
  test("runs a pinned image other than auto-setup, or one built here", () => {
    for (const [name, { image: used, build }] of all()) {
      expect(used, name).toMatch(used === "signet" ? /^/ : PINNED);
      // One service builds the image of all, which otherwise has an id for each.
      expect(build, name).toBe(name === "migrate" ? "." : undefined);
    }
    expect(text).not.toContain("auto-setup");
    expect(text).not.toContain("latest");
  });

  test("that keeps running has a health check and restarts", () => {
    const running = all().filter(([, candidate]) => !isJob(candidate));
    expect(running.map(([name]) => name)).toEqual([
      "postgres",
      "temporal",
      "temporal-ui",
      "edge-port",
      "signet",
      "signet-b",
      "api",
      "api-b",
      "worker",
      "edge",
      "edge-b",
      "postgres-us",
      "temporal-us",
      "api-us",
      "worker-us",
      "prometheus",
      "grafana",
      "hub-a",
      "hub-b",
      "remote-edge",
    ]);
    for (const [name, { healthcheck, restart }] of running) {
      // It only sleeps.
      expect(healthcheck?.test[0], name).toBe(name === "edge-port" ? undefined : "CMD");
      expect(restart, name).toBe("unless-stopped");
    }
  });

  test("waits for services to be healthy and for jobs to finish", () => {
    for (const [name, { depends_on: needs = {} }] of all()) {
      for (const [need, { condition }] of Object.entries(needs)) {
        const expected = isJob(service(need)) ? "service_completed_successfully" : "service_healthy";
        expect(condition, `${name} on ${need}`).toBe(expected);
      }
    }
  });

  test("publishes ports on loopback only, each once", () => {
    const ports = all().flatMap(([, { ports: published = [] }]) => published);
    expect(ports.map((port) => port.split(":")[0])).toEqual(ports.map(() => "127.0.0.1"));
    const hostPorts = ports.map((port) => port.split(":")[1]);
    expect(new Set(hostPorts).size).toBe(hostPorts.length);
  });

  test("gains no new privileges", () => {
    for (const [name, { security_opt: options }] of all()) {
      expect(options, name).toEqual(["no-new-privileges:true"]);
    }
  });

  test("leaves the CA's key and the writing of keys to the job that creates them", () => {
    const mounts = all().flatMap(([name, of]) =>
      mountsOf(of).map(({ source, target, mode }) => [name, source, target, mode] as const),
    );
    const holders = (volume: string): readonly string[] =>
      mounts.filter(([, source]) => source === volume).map(([name]) => name);
    expect(holders("ca")).toEqual(["init", "init-us"]);
    for (const name of ["postgres", "temporal", "temporal-ui"]) {
      expect(holders(`${name}-tls`)).toEqual(["init", name]);
    }
    expect(holders("initdb")).toEqual(["init", "postgres", "postgres-us"]);
    for (const [name, source, target, mode] of mounts.filter(([, , path]) => path.startsWith("/run/"))) {
      expect(target).toBe(`/run/signet/${source.replace(/-us\b/, "")}`);
      expect(mode, name).toBe(name.startsWith("init") ? "" : "ro");
    }
    expect(holders("api")).toEqual(["init", ...TOGETHER, "api", "api-b"]);
    expect(holders("worker")).toEqual(["init", ...TOGETHER, "worker"]);
    for (const own of ["api", "worker"]) {
      expect(holders(`${own}-us`)).toEqual(["init-us", `${own}-us`]);
    }
    expect(holders("edge")).toEqual(["init", "signet", "signet-b", "edge", "edge-b", "remote-edge"]);
    expect(holders("hub")).toEqual(["init", "hub-a", "hub-b"]);
    // Hubs hold no key of PostgreSQL's proofs.
    expect(holders("lease")).toEqual(["init", "migrate", "remote-edge"]);
    expect(service("init")).toMatchObject({ network_mode: "none", read_only: true, cap_drop: ["ALL"] });
    expect(service("init").image).toBe(service("postgres").image);
  });

  test("reads only keys and certificates that init creates, which test/e2e/compose-init.test.ts runs", async () => {
    const script = await read("compose/init.sh");
    const settings = new Map(
      [...script.matchAll(/\b([a-z]+)="\$(SIGNET_INIT_[A-Z_]+)"/g)].map(([, variable, setting = ""]) => [
        variable,
        environment("init")[setting],
      ]),
    );
    const made = (pattern: RegExp, endings: readonly string[]): readonly string[] =>
      [...script.matchAll(pattern)].flatMap(([, variable, name]) =>
        endings.map((ending) => `${settings.get(variable)}/${name}${ending}`),
      );
    const created = [
      ...made(/^ *keep [a-z]+ "\$([a-z]+)\/([a-z-]+)"/gm, [".key", ".crt"]),
      ...made(/\bput "\$([a-z]+)\/([a-z.-]+)"/g, [""]),
      ...made(/^ *keep_authority "\$([a-z]+)\/([a-z-]+)"/gm, [".crt"]),
    ];
    const copied = [...script.matchAll(/[a-z_-]+(?:\/[a-z-]+)*\.(?:conf|ya?ml|sql|json|crt)\b/g)];
    const configuration = new Set(copied.map(([path]) => `/run/signet/config/${path}`));
    const used = new Set(
      JSON.stringify(file.services).match(
        /\/run\/signet\/[a-z-]+\/[a-z./_-]+\.[a-z]+\b|\/run\/signet\/[a-z-]+\/[a-z-]+(?=")/g,
      ),
    );
    expect(used.size).toBeGreaterThan(15);
    const directories = ["/run/signet/config/grafana"];
    const known = [...created, ...configuration, ...directories];
    expect([...used].filter((path) => !known.includes(path))).toEqual([]);
  });

  test("gets its passwords from .env, which .env.example lists", () => {
    const required = [...text.matchAll(/\$\{(\w+):\?/g)].map(([, name]) => name);
    const listed = [...example.matchAll(/^(\w+)=$/gm)].map(([, name]) => name);
    expect(new Set(required)).toEqual(new Set(listed));
    expect(() => readCompose(REPOSITORY, {})).toThrow(
      /required variable \w+ is missing a value: see \.env\.example/,
    );
    const optional = [...text.matchAll(/\$\{(\w+):[-+]/g)].map(([, name]) => name);
    const commented = [...example.matchAll(/^#(\w+)=/gm)].map(([, name]) => name);
    // Compose itself reads the names of its files.
    expect(new Set([...optional, "COMPOSE_FILE"])).toEqual(new Set(commented));
    for (const name of listed) {
      expect(example, "made by the command at the top").toMatch(new RegExp(`^#   .*\\b${name}\\b`, "m"));
    }
  });
});

test("the service needs PostgreSQL and Temporal, and nothing else", () => {
  const others = all()
    .filter(([, { profiles = [], build }]) => profiles.length === 0 && build === undefined)
    .map(([, { image: used = "" }]) => used)
    .filter((used) => !/^(?:signet|postgres:|temporalio\/)/.test(used));
  expect(others).toEqual([]);
});

describe("our services", () => {
  test("have no writable files and no capabilities, and exit before they are killed", () => {
    for (const [name] of all().filter(([, { image: used }]) => used === "signet")) {
      expect(service(name)).toMatchObject({ init: true, read_only: true, cap_drop: ["ALL"] });
      expect(parseSeconds(service(name).stop_grace_period ?? "")).toBeGreaterThan(CLOSE_TIMEOUT_MS);
    }
  });

  test("run in production, as set by the image", () => {
    expect(image.environment["SIGNET_ENV"]).toBe("production");
    for (const [name] of all()) {
      expect(environment(name)).not.toHaveProperty("SIGNET_ENV");
      // In production, the default is native.
      expect(environment(name)["SIGNET_MTLS_MODE"]).toBe(/^api(-b)?$/.test(name) ? "proxy" : undefined);
    }
  });

  test("have settings that exist", () => {
    const settings = new Set(Object.values(SETTINGS).map(({ variable }): string => variable)).add(
      "NODE_OPTIONS",
    );
    for (const [name] of all().filter(([, { image: used }]) => used === "signet")) {
      expect(
        Object.keys(environment(name)).filter((key) => !settings.has(key)),
        name,
      ).toEqual([]);
    }
  });

  test("keep the operators' API inside the container", () => {
    // The second process shares the network of the first.
    const listens = all().map(([name]) => environment(name)["SIGNET_ADMIN_LISTEN"]);
    expect(new Set(listens)).toEqual(new Set([undefined, "127.0.0.1:8083"]));
    expect(SETTINGS.adminListen.fallback).toMatch(/^127\.0\.0\.1:/);
    for (const [name] of all()) {
      expect("SIGNET_OPERATOR_TOKEN_FILE" in environment(name)).toBe(
        /^(signet|signet-b|api|api-b|api-us)$/.test(name),
      );
      expect("SIGNET_DATABASE_ADMIN_URL" in environment(name)).toBe(/^migrate(-us)?$/.test(name));
    }
  });
});

describe("the edge", () => {
  test("or the one process is the only way in, over a port that all of them share and the api does not publish", () => {
    expect(service("edge-port").ports).toEqual(["127.0.0.1:8443:8443"]);
    const sharing = [...TOGETHER, "edge", "edge-b"];
    for (const name of sharing) {
      expect(service(name)).toMatchObject({ network_mode: "service:edge-port" });
      expect(environment(name)).toMatchObject({
        SIGNET_EDGE_LISTEN: "0.0.0.0:8443",
        SIGNET_EDGE_LISTEN_SHARED: "on",
      });
    }
    // Also while a stack moves from one form to the other.
    const listens = sharing.flatMap((name) =>
      Object.entries(environment(name)).filter(([key]) => /(METRICS|API|ADMIN)_LISTEN$/.test(key)),
    );
    expect(new Set(listens.map(([, value]) => value)).size).toBe(listens.length);
    expect([service("api").ports, environment("api")["SIGNET_API_LISTEN"]]).toEqual([undefined, undefined]);
    expect(SETTINGS.apiListen.fallback).toMatch(/^127\.0\.0\.1:/);
  });

  test("has none of the service's secrets and no access to Temporal", () => {
    expect(service("edge").volumes).toEqual(["trust:/run/signet/trust:ro", "edge:/run/signet/edge:ro"]);
    for (const name of ["SIGNET_PEPPER_FILE", "SIGNET_KEK_FILE", "TEMPORAL_ADDRESS"]) {
      expect(environment("api")).toHaveProperty(name);
      expect(environment("edge")).not.toHaveProperty(name);
    }
  });

  test("is known to the api by the name from init, which no client's certificate can have", async () => {
    const script = await read("compose/init.sh");
    const name = environment("api")["SIGNET_PROXY_NAMES"] ?? "";
    expect(script).toContain(`clientAuth "${name}"`);
    expect(script).toContain('clientAuth "URI:spiffe://signet.compose/$1/$2"');
    expect(script).toMatch(/^ {2}client \| temporal\)$/m);
    expect(name).not.toContain("/temporal/");
    expect(name).not.toContain("/client/");
    expect(script).toContain(`serverAuth "${environment("edge")["SIGNET_EDGE_API_NAMES"]}$of,`);
  });
});

describe("the worker", () => {
  test("keeps checkpoints of the compliance log in a volume of its own, as the user of the image", () => {
    const { SIGNET_CHECKPOINT_DIR: directory } = environment("worker");
    expect(service("worker").volumes).toContain(`checkpoints:${directory}`);
    const others = all().filter(([name]) => ![...TOGETHER, "worker"].includes(name));
    expect(others.flatMap(([, of]) => mountsOf(of).map(({ source }) => source))).not.toContain("checkpoints");
    expect(directory).toBe("/var/lib/signet/checkpoints");
    expect(dockerfile).toContain(" /image/state/checkpoints ");
    expect(image.copies).toContain(
      `--from=build --chown=${image.user}:${image.user} /image/state/ /var/lib/signet/`,
    );
  });
});

describe("PostgreSQL", () => {
  test("keeps its data in a volume, at the path of version 18", () => {
    expect(service("postgres").image).toMatch(/^postgres:18\./);
    expect(service("postgres").volumes?.[0]).toBe("postgres:/var/lib/postgresql");
  });

  test("accepts no network connections without TLS", async () => {
    const { command = [] } = service("postgres");
    expect(command).toContain("--ssl=on");
    expect(command).toContain("--hba_file=/run/signet/config/pg_hba.conf");
    const rules = await read("compose/pg_hba.conf");
    const network = rules.split("\n").filter((rule) => /^[^#]/.test(rule) && !rule.startsWith("local "));
    expect(network).toEqual(["hostssl all all all scram-sha-256"]);
  });

  test("has a login for Temporal that is not a superuser, with the password that Temporal uses", async () => {
    const { POSTGRES_USER: user, POSTGRES_PWD: password } = environment("temporal");
    expect(service("postgres").volumes).toContain("initdb:/docker-entrypoint-initdb.d:ro");
    const script = await read("compose/initdb/temporal-login.sh");
    expect(script).toContain(`CREATE ROLE ${user} LOGIN CREATEDB PASSWORD :'password'`);
    expect(script).toContain('--set=password="$TEMPORAL_DATABASE_PASSWORD"');
    expect(environment("postgres")["TEMPORAL_DATABASE_PASSWORD"]).toBe(password);
    expect(environment("temporal-schema")).toMatchObject({ SQL_USER: user, SQL_PASSWORD: password });
  });

  test("has the settings of the bench and of the embedded server", async () => {
    const embedded = await read("src/processes/embedded/postgres.ts");
    // A development machine has less memory and disk.
    const {
      max_connections: _connections,
      shared_buffers: _memory,
      max_wal_size: _disk,
      ...same
    } = POSTGRES_SETTINGS;
    expect(Object.keys(same).length).toBeGreaterThan(2);
    for (const [name, value] of Object.entries(same)) {
      expect(embedded).toContain(`${name}: "${value}"`);
    }
  });

  test("accepts as many connections as the others may open", async () => {
    const most = Number(/max_connections=(\d+)/.exec(service("postgres").command?.join(" ") ?? "")?.[1]);
    // Temporal's four services: 20 each, and 10 each for visibility. Ours are in a table of docs/operations.md.
    const temporal = 4 * (20 + 10);
    const table = await read("docs/operations.md");
    const sumOf = (...names: readonly string[]): number =>
      names
        .map((name) => Number(new RegExp(`^\\| ${name} \\| .* \\| .* \\| (\\d+) \\|`, "m").exec(table)?.[1]))
        .reduce((sum, count) => sum + count, 0);
    // Two of the one process during an upgrade, beside the api of the second region.
    const [apart, together] = [
      sumOf("api", "api", "worker", "edge", "edge", "hub", "hub"),
      sumOf("all", "all", "api", "hub", "hub"),
    ];
    expect([apart, together]).toEqual([154, 220]);
    expect(most).toBeGreaterThan(temporal + Math.max(apart, together) + 20);
  });
});

describe("Temporal", () => {
  test("has server and tools of one version", () => {
    const version = (name: string): string | undefined => service(name).image?.split(":")[1];
    expect(version("temporal-schema")).toBe(version("temporal"));
  });

  test("gets both databases created and upgraded by the job, for the plugin that the server uses", () => {
    const job = service("temporal-schema").command?.join("\n") ?? "";
    for (const [database, schema] of [
      ["temporal", "postgresql/v12/temporal"],
      ["temporal_visibility", "postgresql/v12/visibility"],
    ]) {
      for (const step of [
        "create-database",
        "setup-schema --version 0.0",
        `update-schema --schema-name ${schema}`,
      ]) {
        expect(job.split("\n")).toContain(`temporal-sql-tool --database ${database} ${step}`);
      }
    }
    expect(environment("temporal-schema")).toMatchObject({
      SQL_PLUGIN: environment("temporal")["DB"],
      SQL_HOST: environment("temporal")["POSTGRES_SEEDS"],
      SQL_PORT: environment("temporal")["DB_PORT"],
    });
    expect(environment("temporal")).toMatchObject({ DB: "postgres12_pgx", POSTGRES_SEEDS: "postgres" });
  });

  test("reads its dynamic configuration: bounded cache, fairness by tenant, pauses", async () => {
    expect(environment("temporal")["DYNAMIC_CONFIG_FILE_PATH"]).toBe(
      "/run/signet/config/temporal-dynamic-config.yaml",
    );
    const settings = parse(await read("compose/temporal-dynamic-config.yaml")) as Record<string, unknown>;
    expect(settings).toEqual({
      "history.hostLevelCacheMaxSize": [{ value: 5_000 }],
      "matching.enableFairness": [{ value: true }],
      "frontend.WorkflowPauseEnabled": [{ value: true }],
    });
  });

  test("has no configs, which Compose cannot put into read-only services", () => {
    expect(text).not.toMatch(/^ *configs:/m);
  });

  test("listens for other containers, and its UI opens with our namespace and asks nobody else", () => {
    expect(environment("temporal")["BIND_ON_IP"]).toBe("0.0.0.0");
    expect(environment("temporal-ui")).toMatchObject({
      TEMPORAL_ADDRESS: environment("api")["TEMPORAL_ADDRESS"],
      TEMPORAL_DEFAULT_NAMESPACE: SETTINGS.temporalNamespace.fallback,
      TEMPORAL_DISABLE_NEWS_FETCH: "true",
    });
  });
});
