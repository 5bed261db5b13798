/** The second region and the second cell of the compose file, as far as the files themselves show them. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import {
  type ComposeFile,
  type ComposeService,
  mountsOf,
  networksOf,
  readCompose,
} from "#test/support/compose-file.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

let file: ComposeFile;

const read = async (name: string): Promise<string> => await readFile(join(REPOSITORY, name), "utf8");

beforeAll(() => {
  file = readCompose(REPOSITORY);
});

const all = (): [string, ComposeService][] => Object.entries(file.services);
const service = (name: string): ComposeService => file.services[name] ?? {};
const environment = (name: string): Readonly<Record<string, string>> => service(name).environment ?? {};
const networks = (name: string): readonly string[] => networksOf(file, name);
const ofProfile = (profile: string): readonly string[] =>
  all().flatMap(([name, { profiles = [] }]) => (profiles.includes(profile) ? [name] : []));

/** Services of no profile that wait for one inside. */
const waitingFor = (names: readonly string[]): readonly string[] =>
  all().flatMap(([name, { depends_on: needs = {}, profiles }]) =>
    profiles !== undefined || !Object.keys(needs).some((need) => names.includes(need)) ? [] : [name],
  );

describe("the second region", () => {
  // The one process takes no certificate from an edge, so an api stands beside it.
  const REGION = ["api", "hub-a", "hub-b", "remote-edge"];

  test("starts only with its profile, beside services that do not wait for it", () => {
    expect(ofProfile("region")).toEqual(REGION);
    expect(waitingFor(REGION)).toEqual([]);
  });

  test("has an edge without a login and without a network that leads to PostgreSQL", () => {
    expect(Object.keys(environment("remote-edge")).join()).not.toContain("DATABASE_URL");
    expect(networks("remote-edge").filter((network) => networks("postgres").includes(network))).toEqual([]);
    for (const hub of ["hub-a", "hub-b", "api"]) {
      expect(networks("remote-edge").filter((network) => networks(hub).includes(network))).toContain(
        "region",
      );
    }
    expect(environment("remote-edge")["SIGNET_HUBS"]).toBe("wss://hub-a:8446,wss://hub-b:8446");
  });

  test("has names in its certificates that the other side asks for", async () => {
    const script = await read("compose/init.sh");
    expect(script).toContain(
      `"$hub/hub" serverAuth,clientAuth "${environment("remote-edge")["SIGNET_HUB_NAMES"]}"`,
    );
    expect(script).toContain(`"$edge/edge" clientAuth "${environment("hub-a")["SIGNET_HUB_NAMES"]}"`);
  });
});

describe("the second cell", () => {
  const CELL = [
    "init-us",
    "postgres-us",
    "temporal-schema-us",
    "temporal-us",
    "migrate-us",
    "api-us",
    "worker-us",
  ];

  test("starts only with its profile, and the home cell knows of it only with its password", () => {
    expect(ofProfile("cell")).toEqual(CELL);
    expect(waitingFor(CELL)).toEqual([]);
    for (const name of ["SIGNET_CELLS", "SIGNET_CELL", "SIGNET_HOME_DATABASE_URL"]) {
      expect(environment("migrate")[name]).toBe("");
    }
  });

  test("shares a network with the home cell's PostgreSQL only, and only its api and worker do", () => {
    const others = all().filter(([name]) => !CELL.includes(name) && !name.startsWith("init"));
    for (const name of CELL.filter((candidate) => candidate !== "init-us")) {
      const near = others.filter(([other]) =>
        networks(other).some((network) => network !== "metrics" && networks(name).includes(network)),
      );
      expect(
        near.map(([other]) => other),
        name,
      ).toEqual(["api-us", "worker-us"].includes(name) ? ["postgres"] : []);
    }
  });

  test("shares with the home cell only the authorities' volumes and configuration", () => {
    const sources = (inside: boolean): readonly string[] =>
      all()
        .filter(([name]) => CELL.includes(name) === inside)
        .flatMap(([, of]) => mountsOf(of).map(({ source }) => source));
    const home = new Set(sources(false));
    expect(new Set(sources(true).filter((source) => home.has(source)))).toEqual(
      new Set(["./compose", "ca", "trust", "config", "initdb"]),
    );
  });

  test("differs from the home cell only in its settings of cells, databases and Temporal", () => {
    const differing = (name: string): readonly string[] =>
      Object.keys({ ...environment(name), ...environment(`${name}-us`) }).filter(
        (key) => environment(name)[key] !== environment(`${name}-us`)[key],
      );
    expect(differing("worker").toSorted()).toEqual([
      "SIGNET_CELL",
      "SIGNET_DATABASE_URL",
      "SIGNET_HOME_DATABASE_URL",
      "TEMPORAL_ADDRESS",
    ]);
    expect(differing("temporal-schema")).toEqual(["SQL_HOST"]);
    expect(environment("temporal-us")).toMatchObject({
      POSTGRES_SEEDS: environment("temporal-schema-us")["SQL_HOST"],
      TEMPORAL_TLS_FRONTEND_SERVER_NAME: "temporal-us",
      TEMPORAL_TLS_INTERNODE_SERVER_NAME: "temporal-us",
    });
  });
});
