/** Derives the schema for docker-compose.yml from a Go module: smaller. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);
const DOWNLOAD_MS = 180_000;

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
export type JsonObject = { readonly [name: string]: Json };

export interface Source {
  /** Go module and version, and a file's path in it. */
  readonly module: string;
  readonly version: string;
  readonly path: string;
  /** Path of the derived schema, relative to this file. */
  readonly file: string;
  readonly derive: (source: JsonObject) => JsonObject;
}

const isObject = (value: Json | undefined): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Removes descriptions, which are most of a schema. A property may itself be called `description`. */
function withoutDescriptions(schema: Json, names = false): Json {
  if (Array.isArray(schema)) {
    return schema.map((item: Json) => withoutDescriptions(item));
  }
  if (!isObject(schema)) {
    return schema;
  }
  const kept = Object.entries(schema).filter(
    ([name]) => names || (name !== "description" && name !== "title"),
  );
  return Object.fromEntries(
    kept.map(([name, value]) => [
      name,
      withoutDescriptions(value, !names && /^(properties|patternProperties|definitions|\$defs)$/.test(name)),
    ]),
  );
}

export const SOURCES: readonly Source[] = [
  {
    module: "github.com/compose-spec/compose-go/v2",
    version: "v2.16.2",
    path: "schema/compose-spec.json",
    file: "compose-spec.json",
    derive: (schema) => withoutDescriptions(schema) as JsonObject,
  },
];

/**
 * Returns the module's directory in Go's cache. Downloads the module if it is not there.
 *
 * @throws if Go is missing, or the module is neither in the cache nor reachable
 */
export async function findModule({ module, version }: Source): Promise<string> {
  const { stdout } = await run("go", ["mod", "download", "-json", `${module}@${version}`], {
    cwd: "/",
    env: { ...process.env, GOFLAGS: "-mod=mod" },
    timeout: DOWNLOAD_MS,
  });
  return (JSON.parse(stdout) as { readonly Dir: string }).Dir;
}

/** Returns the schema derived from a module's directory, as it is checked in. */
export async function deriveFrom(directory: string, source: Source): Promise<string> {
  const { module, version, path, derive } = source;
  const schema = JSON.parse(await readFile(join(directory, path), "utf8")) as JsonObject;
  const comment = `From ${path} of the Go module ${module} ${version}, Apache-2.0, without descriptions (test/schemas/run-derive.ts)`;
  return `${JSON.stringify({ $comment: comment, ...derive(schema) })}\n`;
}
