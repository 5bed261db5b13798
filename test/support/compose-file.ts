/**
 * Parses docker-compose.yml and Dockerfile like their programs, as far as this project uses them. In
 * test/containers/core.test.ts, Compose itself says the same of every service.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { type Node, Pair, parse, type Tags, YAMLMap } from "yaml";

/** An image's name with a full version, optionally with a distribution after it. */
export const PINNED = /^[a-z][a-z/-]*:v?\d+\.\d+(\.\d+)?(-[a-z-]+)?$/;

export interface ComposeService {
  readonly image?: string;
  readonly build?: string;
  readonly command?: readonly string[];
  readonly entrypoint?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly healthcheck?: {
    readonly test: readonly string[];
    readonly timeout: string;
    readonly retries: number;
  };
  /** `host address:host port:container port` */
  readonly ports?: readonly string[];
  readonly volumes?: readonly (
    | string
    | { readonly source: string; readonly target: string; readonly read_only?: boolean }
  )[];
  readonly restart?: string;
  readonly stop_grace_period?: string;
  readonly hostname?: string;
  readonly init?: boolean;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly cap_add?: readonly string[];
  readonly network_mode?: string;
  readonly networks?: readonly string[] | Readonly<Record<string, { readonly aliases?: readonly string[] }>>;
  readonly security_opt?: readonly string[];
  readonly privileged?: boolean;
  readonly user?: string;
  readonly profiles?: readonly string[];
  readonly cpu_shares?: number;
  readonly deploy?: { readonly resources: { readonly limits: unknown } };
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
}

export type Variables = Readonly<Record<string, string>>;

/** Returns a service's mounts: the volume or path, and where it is in the container. */
export function mountsOf({
  volumes = [],
}: ComposeService): readonly { readonly source: string; readonly target: string; readonly mode: string }[] {
  return volumes.map((volume) => {
    if (typeof volume !== "string") {
      return { ...volume, mode: volume.read_only === true ? "ro" : "" };
    }
    const [source = "", target = "", mode = ""] = volume.split(":");
    return { source, target, mode };
  });
}

/** Returns the names of the networks of a service. */
export function networksOf(file: ComposeFile, name: string): readonly string[] {
  const { networks = ["default"], network_mode: mode } = file.services[name] ?? {};
  if (mode?.startsWith("service:") === true) {
    return networksOf(file, mode.slice("service:".length));
  }
  return Array.isArray(networks) ? networks : Object.keys(networks);
}

/** `${NAME}`, `${NAME:-default}`, `${NAME:+replacement}`, `${NAME:?message}` and `$$`; the texts may contain variables. */
const VARIABLE = /\$\$|\$\{(\w+)(?::([-+?])((?:\$\{[^}]*\}|[^}])*))?\}/g;

function interpolate(text: string, variables: Variables): string {
  return text.replace(
    VARIABLE,
    (match, name: string | undefined, kind: string | undefined, rest: string | undefined) => {
      if (name === undefined) {
        return match.slice(1);
      }
      const value = variables[name] ?? "";
      if (value === "" && kind === "?") {
        throw new Error(`required variable ${name} is missing a value: ${rest}`);
      }
      const replaces = kind === "+" ? value !== "" : kind === "-" && value === "";
      return replaces ? interpolate(rest ?? "", variables) : kind === "+" ? "" : value;
    },
  );
}

function interpolateAll(value: unknown, variables: Variables): unknown {
  if (typeof value === "string") {
    return interpolate(value, variables);
  }
  if (Array.isArray(value)) {
    return value.map((item: unknown) => interpolateAll(item, variables));
  }
  if (value !== null && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, interpolateAll(item, variables)]),
    );
  }
  return value;
}

/** Names of the tags by which a service that extends another one replaces a member, or removes it. */
const MARKS = ["!override", "!reset"] as const;

/** Returns the tags, whose values become objects with the tag's name as the only member. */
function markTags(): Tags {
  const marked = (tag: string, value: unknown): YAMLMap => {
    const map = new YAMLMap();
    map.items.push(new Pair(tag, value));
    return map;
  };
  return MARKS.flatMap((tag) => [
    { tag, collection: "map" as const, resolve: (value: Node) => marked(tag, value) },
    { tag, collection: "seq" as const, resolve: (value: Node) => marked(tag, value) },
    { tag, resolve: (text: string) => ({ [tag]: text }) },
  ]) as Tags;
}

type Members = Readonly<Record<string, unknown>>;

const isMembers = (value: unknown): value is Members =>
  value !== null && typeof value === "object" && !Array.isArray(value);
/** Where an item of a service's list leads, if later items of the same place replace it. */
const placeOf = (name: string, item: unknown): unknown =>
  name === "volumes" ? mountsOf({ volumes: [item as string] })[0]?.target : item;

/** Merges the member of a service into the one that it extends. */
function mergeMember(name: string, base: unknown, own: unknown): unknown {
  if (isMembers(own) && MARKS.some((mark) => mark in own)) {
    return own["!override"];
  }
  if (Array.isArray(base) && Array.isArray(own) && !["command", "entrypoint", "test"].includes(name)) {
    const places = new Map(
      [...(base as unknown[]), ...(own as unknown[])].map((item) => [placeOf(name, item), item]),
    );
    return [...places.values()];
  }
  return isMembers(base) && isMembers(own) ? mergeMembers(base, own) : own;
}

function mergeMembers(base: Members, own: Members): Members {
  const names = new Set([...Object.keys(base), ...Object.keys(own)]);
  return Object.fromEntries(
    [...names]
      .map((name) => [name, name in own ? mergeMember(name, base[name], own[name]) : base[name]])
      .filter(([, value]) => value !== undefined),
  );
}

interface ParsedFile {
  readonly services: Readonly<Record<string, Members & { readonly extends?: { readonly service: string } }>>;
  readonly include?: readonly { readonly path: string }[];
}

/** @throws Error if a variable that the file requires is missing or empty */
export function parseCompose(text: string, variables: Variables): ComposeFile {
  // The limit on aliases is against files of strangers.
  const parsed: unknown = parse(text, { merge: true, maxAliasCount: -1, customTags: markTags() });
  return interpolateAll(parsed, variables) as ComposeFile;
}

/** The texts of docker-compose.yml and of the files that it includes. */
export function readComposeTexts(directory: string): readonly string[] {
  const read = (path: string): string => readFileSync(join(directory, path), "utf8");
  const core = read("docker-compose.yml");
  const { include = [] } = parse(core, { merge: true, maxAliasCount: -1 }) as ParsedFile;
  return [core, ...include.map(({ path }) => read(path))];
}

/**
 * Returns the services of docker-compose.yml and of the files that it includes.
 * @param variables by default, the required ones are `x`
 * @throws Error if a variable that the files require is missing or empty
 */
export function readCompose(directory: string, variables?: Variables): ComposeFile {
  const texts = readComposeTexts(directory).map((text) =>
    variables === undefined ? text.replaceAll(/\$\{\w+:\?[^}]*\}/g, "x") : text,
  );
  const [core, ...included] = texts.map(
    (text) => parseCompose(text, variables ?? {}) as unknown as ParsedFile,
  );
  const services = { ...core?.services };
  for (const [name, { extends: of, ...own }] of included.flatMap((file) => Object.entries(file.services))) {
    services[name] = of === undefined ? own : mergeMembers(services[of.service] ?? {}, own);
  }
  return { services } as ComposeFile;
}

/** A service as `docker compose config` prints it, as far as it is compared. */
export interface ReadService {
  readonly image?: string;
  readonly user?: string;
  readonly command?: readonly string[] | null;
  readonly profiles?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>>;
  readonly network_mode?: string;
  readonly networks?: Readonly<Record<string, unknown>>;
  readonly volumes?: readonly {
    readonly source: string;
    readonly target: string;
    readonly read_only?: boolean;
  }[];
  readonly ports?: readonly {
    readonly host_ip: string;
    readonly published: string;
    readonly target: number;
  }[];
  readonly healthcheck?: { readonly test: readonly string[] };
}

/** Without what Compose adds: a service waits for the one whose network it shares. */
const conditionsOf = (needs: ReadService["depends_on"] = {}): Members =>
  Object.fromEntries(
    Object.entries(needs)
      .map(([need, { condition }]) => [need, condition])
      .filter(([, condition]) => condition !== "service_started"),
  );

/** Returns what is compared of a service as Compose has read it. */
export function comparedOf(service: ReadService, directory: string): Members {
  const { image, user, command, profiles = [], environment = {}, network_mode: mode, healthcheck } = service;
  return {
    image,
    user,
    command: command ?? undefined,
    profiles,
    environment,
    mode,
    test: healthcheck?.test,
    needs: conditionsOf(service.depends_on),
    networks: Object.keys(service.networks ?? {}).toSorted(),
    volumes: (service.volumes ?? []).map(
      ({ source, target, read_only: fixed = false }) =>
        `${source.replace(`${directory}/`, "./")}:${target}:${fixed ? "ro" : ""}`,
    ),
    ports: (service.ports ?? []).map(
      ({ host_ip: host, published, target }) => `${host}:${published}:${target}`,
    ),
  };
}

/** Returns the same of a service as the tests read it. */
export function comparedIn(file: ComposeFile, name: string): Members {
  const service = file.services[name] ?? {};
  const { image, user, command, profiles = [], environment = {}, network_mode: mode, healthcheck } = service;
  return {
    image,
    user,
    command,
    profiles,
    environment,
    mode,
    test: healthcheck?.test,
    needs: conditionsOf(service.depends_on),
    networks: mode === undefined ? networksOf(file, name).toSorted() : [],
    volumes: mountsOf(service).map(({ source, target, mode: access }) => `${source}:${target}:${access}`),
    ports: service.ports ?? [],
  };
}

/** Parses the variables of a .env file. */
export function parseEnvFile(text: string): Variables {
  const lines = text.split("\n").filter((line) => /^\w+=/.test(line));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}

/** The instructions of a Dockerfile's last stage, and the base images of all stages. */
export interface ImageFile {
  readonly bases: readonly string[];
  readonly workdir: string;
  readonly user: string;
  readonly entrypoint: readonly string[];
  readonly environment: Variables;
  /** Arguments of its COPY instructions. */
  readonly copies: readonly string[];
  /** Its RUN instructions. */
  readonly runs: readonly string[];
}

/** Returns a Dockerfile's instructions: names and the rest of their lines. */
function instructionsOf(text: string): readonly (readonly [string, string])[] {
  return text
    .replace(/^#.*\n/gm, "")
    .replace(/\\\n\s*/g, "")
    .split("\n")
    .filter((line) => line !== "")
    .map((line): readonly [string, string] => [line.replace(/ .*/, ""), line.replace(/^\S+ /, "")]);
}

export function parseDockerfile(text: string): ImageFile {
  const instructions = instructionsOf(text);
  const last = instructions.slice(instructions.findLastIndex(([name]) => name === "FROM"));
  const all = (name: string): readonly string[] =>
    last.filter(([instruction]) => instruction === name).map(([, rest]) => rest);
  return {
    bases: instructions
      .filter(([name]) => name === "FROM")
      .map(([, rest]) => rest.replace(/^--platform=\S+ /, "").replace(/ AS .*/, "")),
    workdir: all("WORKDIR").at(-1) ?? "/",
    user: all("USER").at(-1) ?? "root",
    entrypoint: JSON.parse(all("ENTRYPOINT").at(-1) ?? "[]") as string[],
    environment: Object.fromEntries(
      all("ENV").flatMap((line) =>
        [...line.matchAll(/(\w+)=(?:"([^"]*)"|(\S*))/g)].map(([, name = "", quoted, bare = ""]) => [
          name,
          quoted ?? bare,
        ]),
      ),
    ),
    copies: all("COPY"),
    runs: all("RUN"),
  };
}

/** Converts a duration such as `20s` to milliseconds. */
export function parseSeconds(text: string): number {
  const seconds = /^(\d+)s$/.exec(text)?.[1];
  if (seconds === undefined) {
    throw new Error(`${text} is not a number of seconds`);
  }
  return Number(seconds) * 1_000;
}
