/** Parses docker-compose.yml and Dockerfile like their programs, as far as this project uses them. */
import { parse } from "yaml";

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

/** @throws Error if a variable that the file requires is missing or empty */
export function parseCompose(text: string, variables: Variables): ComposeFile {
  // The limit on aliases is against files of strangers.
  return interpolateAll(parse(text, { merge: true, maxAliasCount: -1 }), variables) as ComposeFile;
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
