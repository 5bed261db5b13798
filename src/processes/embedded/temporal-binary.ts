/** Sources of the `temporal` program: PATH, the cache, the official download, the Go toolchain. */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { accessSync, constants } from "node:fs";
import { chmod, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Environment } from "#config/config.ts";
import { messageOf } from "#runtime/thrown.ts";
import { startUpError } from "./start-up-error.ts";
import { buildTemporal } from "./temporal-build.ts";
import { downloadTemporal, type Fetch, OFFICIAL_RELEASE, type TemporalRelease } from "./temporal-download.ts";

const run = promisify(execFile);

/** The version whose digests `OFFICIAL_RELEASE` lists; the build from source has the same server. */
const TEMPORAL_CLI_VERSION = "1.9.1";
/** Incremented when the same version is built differently, so that no older build is used. */
const CACHE_REVISION = 1;
/** The oldest server version in the CLI that supports the workflows. */
const OLDEST_SERVER = [1, 24] as const;
const CONNECT_TIMEOUT_MS = 5_000;
const ABANDONED_DRAFT_MS = 3_600_000;

export type TemporalOrigin = "path" | "cache" | "download" | "go";

export interface TemporalBinary {
  readonly path: string;
  readonly origin: TemporalOrigin;
}

export interface ResolveTemporalOptions {
  /** `temporal` and `go` are searched on its PATH; Go gets all of it (GOPROXY, GOFLAGS, HOME). */
  readonly environment: Environment;
  /** SIGNET_CACHE. */
  readonly cacheDir: string;
  /** Prints one line for people. */
  readonly log: (line: string) => void;
  /** Called with how far a long step is; `log` by default. */
  readonly progress?: (text: string) => void;
  readonly fetch?: Fetch;
  readonly release?: TemporalRelease;
  /** Timeout of connecting to a host. */
  readonly connectTimeoutMs?: number;
  readonly signal?: AbortSignal;
}

/** The first executable file of that name on a PATH. */
export function findOnPath(environment: Environment, name: string): string | undefined {
  for (const directory of (environment["PATH"] ?? "").split(delimiter)) {
    const candidate = join(directory, name);
    if (directory !== "" && isExecutable(candidate)) {
      return candidate;
    }
  }
  return undefined;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/**
 * Returns the major and minor version of the server in a `temporal` program.
 *
 * @throws SignetError `UNAVAILABLE` if it is another program, or none
 */
export async function serverVersion(path: string): Promise<readonly [major: number, minor: number]> {
  const stdout = await run(path, ["--version"], { timeout: 15_000 }).then(
    (output) => output.stdout,
    (error: unknown) => messageOf(error),
  );
  const [, major, minor] = /server (\d+)\.(\d+)/i.exec(stdout) ?? [];
  if (major === undefined) {
    throw startUpError(`${path} does not tell the version of Temporal's server: ${stdout.trim()}`);
  }
  return [Number(major), Number(minor)];
}

async function isRecentEnough(path: string): Promise<boolean> {
  try {
    const [major, minor] = await serverVersion(path);
    const [oldestMajor, oldestMinor] = OLDEST_SERVER;
    return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor);
  } catch {
    return false;
  }
}

async function fromPath({ environment, log }: ResolveTemporalOptions): Promise<string | undefined> {
  const path = findOnPath(environment, "temporal");
  if (path === undefined || (await isRecentEnough(path))) {
    return path;
  }
  log(`${path} is not a Temporal CLI with server ${OLDEST_SERVER.join(".")} or newer; looking for another`);
  return undefined;
}

async function removeAbandonedDrafts(directory: string): Promise<void> {
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    const age = Date.now() - ((await stat(path).catch(() => undefined))?.mtimeMs ?? Date.now());
    if (name.startsWith("draft-") && age > ABANDONED_DRAFT_MS) {
      await rm(path, { recursive: true, force: true });
    }
  }
}

/**
 * Lets `make` put a `temporal` into a new directory and moves it into the cache atomically: several processes may do
 * this at once, and none runs a partial file.
 */
async function intoCache(cached: string, make: (directory: string) => Promise<void>): Promise<void> {
  const parent = join(cached, "..", "..");
  const draft = join(parent, `draft-${randomUUID()}`);
  await mkdir(draft, { recursive: true });
  await removeAbandonedDrafts(parent);
  try {
    await make(draft);
    await chmod(join(draft, "temporal"), 0o755);
    await mkdir(join(cached, ".."), { recursive: true });
    await rename(join(draft, "temporal"), cached);
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** Creates the error with each tried source and its failure; the last line names the manual ways. */
function nothingWorked(failures: readonly string[]): Error {
  const ways = [
    ...failures,
    "set TEMPORAL_ADDRESS to your own server, or put the temporal program on PATH (https://docs.temporal.io/cli)",
  ];
  return startUpError(`no Temporal server to run:\n${ways.map((way) => `  - ${way}`).join("\n")}`);
}

/**
 * Finds or obtains the `temporal` program.
 *
 * @throws SignetError `UNAVAILABLE` that lists every source and its failure
 */
export async function resolveTemporalBinary(options: ResolveTemporalOptions): Promise<TemporalBinary> {
  const { environment, cacheDir, log, progress = log, signal } = options;
  const onPath = await fromPath(options);
  if (onPath !== undefined) {
    return { path: onPath, origin: "path" };
  }
  const build = `${TEMPORAL_CLI_VERSION}-r${CACHE_REVISION}-${process.platform}-${process.arch}`;
  const cached = join(cacheDir, "temporal", build, "temporal");
  if (isExecutable(cached)) {
    return { path: cached, origin: "cache" };
  }
  const ways: readonly [TemporalOrigin, string, (directory: string) => Promise<void>][] = [
    [
      "download",
      "the official download",
      async (directory) =>
        await downloadTemporal({
          version: TEMPORAL_CLI_VERSION,
          directory,
          environment,
          progress,
          connectTimeoutMs: options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
          release: options.release ?? OFFICIAL_RELEASE,
          fetch: options.fetch,
          signal,
        }),
    ],
    [
      "go",
      "go install",
      async (directory) => {
        const go = findOnPath(environment, "go");
        if (go === undefined) {
          throw new Error("there is no Go toolchain on PATH (https://go.dev/dl)");
        }
        await buildTemporal({ go, directory, environment, progress, signal });
      },
    ],
  ];
  const failures: string[] = [];
  for (const [origin, name, make] of ways) {
    try {
      await intoCache(cached, make);
      return { path: cached, origin };
    } catch (error) {
      signal?.throwIfAborted();
      const reason = messageOf(error);
      failures.push(`${name}: ${reason}`);
      log(`${name} of Temporal CLI ${TEMPORAL_CLI_VERSION} failed: ${reason}`);
    }
  }
  throw nothingWorked(failures);
}
