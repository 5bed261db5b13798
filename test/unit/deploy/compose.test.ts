/** docker-compose.yml matches Compose's own schema and restricts its services. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { parse } from "yaml";
import {
  type ComposeFile,
  parseCompose,
  parseDockerfile,
  readCompose,
  readComposeTexts,
} from "#test/support/compose-file.ts";
import { type Check, composeCheck } from "#test/support/schemas.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");
const PASSWORDS = {
  POSTGRES_PASSWORD: "a",
  TEMPORAL_DATABASE_PASSWORD: "b",
  SIGNET_DATABASE_PASSWORD: "c",
  SIGNET_EDGE_DATABASE_PASSWORD: "d",
};
/** Services that differ from the others. */
const ROOT = ["init", "init-us"];

let check: Check;
let file: ComposeFile;
let text: string;

beforeAll(async () => {
  text = await read("docker-compose.yml");
  file = readCompose(REPOSITORY, PASSWORDS);
  check = await composeCheck();
});

test("is a compose file, as are the files that it includes", () => {
  expect(check(file)).toEqual([]);
  for (const part of readComposeTexts(REPOSITORY)) {
    expect(check(parse(part, { merge: true, maxAliasCount: -1, logLevel: "error" }))).toEqual([]);
  }
});

test.for<[name: string, from: string, to: string]>([
  ["an unknown key", "read_only: true", "readonly: true"],
  ["an unknown condition", "service_healthy", "service_is_healthy"],
  ["a port in an unknown form", '["127.0.0.1:8443:8443"]', "[{ 8443: 8443 }]"],
])("the schema rejects %s", ([, from, to]) => {
  expect(check(parseCompose(text.replace(from, to), PASSWORDS))).not.toEqual([]);
});

test("Temporal's server weighs a quarter of what first attempts need", () => {
  const weighed = Object.entries(file.services).filter(([, service]) => service.cpu_shares !== undefined);
  expect(weighed.map(([name, service]) => [name, service.cpu_shares])).toEqual([
    ["temporal", 1_024 / 4],
    ["temporal-us", 1_024 / 4],
  ]);
});

test("no service runs as root, can write to its image, has capabilities, or exceeds its limits", async () => {
  const { user } = parseDockerfile(await read("Dockerfile"));
  expect(user).toBe("node");
  const services = Object.entries(file.services);
  expect(services.length).toBeGreaterThan(10);
  for (const [name, service] of services) {
    expect(service.cap_drop, name).toEqual(["ALL"]);
    expect(service.security_opt, name).toEqual(["no-new-privileges:true"]);
    expect(service.read_only, name).toBe(true);
    expect(service.privileged, name).toBeUndefined();
    expect(service.deploy?.resources.limits, name).toMatchObject({
      memory: expect.stringMatching(/^\d+[MG]$/) as string,
      pids: expect.any(Number) as number,
    });
    const own = service.image === "signet" ? user : service.user;
    expect(own, name).toBeDefined();
    expect(own === "root", name).toBe(ROOT.includes(name));
    expect(service.cap_add !== undefined, name).toBe(ROOT.includes(name));
  }
});

test("Prometheus and Grafana start only with their profile, with the files of deploy/", async () => {
  const monitoring = Object.entries(file.services).filter(([, { profiles }]) =>
    profiles?.includes("monitoring"),
  );
  expect(monitoring.map(([name, { profiles, volumes }]) => [name, profiles, volumes?.[0]])).toEqual([
    ["prometheus", ["monitoring"], "config:/run/signet/config:ro"],
    ["grafana", ["monitoring"], "config:/run/signet/config:ro"],
  ]);
  const home = file.services["grafana"]?.environment?.["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] ?? "";
  expect(JSON.parse(await read(home.replace("/run/signet/config", "deploy")))).toHaveProperty("panels");
});

test("Prometheus asks every process but a second one: those of a profile by name service, so that none is down without it", async () => {
  const { scrape_configs: scraped } = parse(await read("deploy/prometheus/prometheus.yml")) as {
    readonly scrape_configs: readonly {
      readonly static_configs?: readonly { readonly targets: readonly string[] }[];
      readonly dns_sd_configs?: readonly { readonly names: readonly string[]; readonly port: number }[];
    }[];
  };
  const fixed = scraped.flatMap(({ static_configs: groups = [] }) =>
    groups.flatMap(({ targets }) => targets),
  );
  const found = scraped.flatMap(({ dns_sd_configs: groups = [] }) =>
    groups.flatMap(({ names, port }) => names.map((name) => `${name}:${port}`)),
  );
  const ours = Object.entries(file.services).filter(
    ([name, { image, restart, command }]) =>
      image === "signet" && restart !== "no" && command !== undefined && name !== "signet-b",
  );
  const listener = (name: string): string => {
    const { network_mode: shared, environment } = file.services[name] ?? {};
    const port = environment?.["SIGNET_METRICS_LISTEN"]?.split(":")[1];
    // The edges share the network of `signet`. They are there if `api-b` is.
    return `${shared === undefined || name === "signet" ? name : "api-b"}:${port}`;
  };
  const always = ours.filter(([, { profiles }]) => profiles === undefined);
  expect(fixed.toSorted()).toEqual(always.map(([name]) => listener(name)).toSorted());
  const others = ours.filter(([, { profiles }]) => profiles !== undefined);
  expect(found.toSorted()).toEqual(others.map(([name]) => listener(name)).toSorted());
});

test("compose/split.yml starts the parts apart in place of the one process", async () => {
  const split = parse(await read("compose/split.yml"), { logLevel: "error" }) as ComposeFile;
  const changed = (profiles: readonly string[]): readonly string[] =>
    Object.entries(split.services)
      .filter(([, { profiles: set }]) => String(set) === String(profiles))
      .map(([name]) => name);
  const of = (command: string): readonly string[] =>
    Object.entries(file.services)
      .filter(([name, { command: own }]) => String(own) === command && !/-us$|^remote-/.test(name))
      .map(([name]) => name);
  expect(changed(["together"])).toEqual(of("all"));
  const parts = [...of("api"), ...of("worker"), ...of("edge")];
  expect(changed([])).toEqual(parts);
  for (const name of parts) {
    expect(file.services[name]?.profiles?.[0], name).toBe("split");
  }
  expect([file.services["signet"]?.profiles, file.services["signet-b"]?.profiles]).toEqual([
    undefined,
    ["pair"],
  ]);
});
