/** Processes of the production build, run as in a container: exact environment, production dependencies. */
import { type ChildProcess, spawn } from "node:child_process";
import { cp, mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { inject } from "vitest";
import { hasCode } from "../../src/processes/embedded/start-up-error.ts";
import type { Environment } from "../../src/config/config.ts";
import { eventually } from "./eventually.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
const BUILD_PATIENCE_MS = 120_000;
const BUILT = "built";

export interface ProcessOptions {
  /** Program and arguments; `node` means the Node.js that runs the tests. */
  readonly command: readonly string[];
  readonly cwd: string;
  /** Complete environment; nothing is inherited. */
  readonly environment: Environment;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SpawnedProcess {
  /** Returns standard output so far. */
  stdout(): string;
  /** Returns both outputs so far, in order of arrival. */
  output(): string;
  /** Returns how it has ended, or undefined while it runs. */
  state(): Ended | undefined;
  readonly ended: Promise<Ended>;
  /** Sends the signal without waiting. */
  signal(name: NodeJS.Signals): void;
  /** Sends the signal and resolves when the process has ended. */
  stop(signal?: NodeJS.Signals): Promise<Ended & { readonly tookMs: number }>;
}

const children = new Set<ChildProcess>();

process.once("exit", () => {
  for (const child of children) {
    child.kill("SIGKILL");
  }
});

/** Starts a process. */
export function spawnProcess({ command, cwd, environment }: ProcessOptions): SpawnedProcess {
  const [program = "", ...args] = command;
  const child = spawn(program === "node" ? process.execPath : program, args, {
    cwd,
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  let stdout = "";
  let output = "";
  let state: Ended | undefined;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    output += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      children.delete(child);
      state = { code, signal };
      resolve(state);
    });
  });
  return {
    stdout: () => stdout,
    output: () => output,
    state: () => state,
    ended,
    signal: (name) => void child.kill(name),
    stop: async (signal = "SIGTERM") => {
      const began = performance.now();
      child.kill(signal);
      return { ...(await ended), tookMs: performance.now() - began };
    },
  };
}

/** Runs a process to completion and resolves with its output. @throws Error if it fails */
export async function runProcess(options: ProcessOptions): Promise<string> {
  const child = spawnProcess(options);
  const { code, signal } = await child.ended;
  if (code !== 0) {
    throw new Error(`${options.command.join(" ")} ended with ${code ?? signal}:\n${child.output()}`);
  }
  return child.stdout();
}

interface Lockfile {
  readonly packages: Readonly<Record<string, { readonly dev?: boolean }>>;
}

/**
 * Links the production dependencies alone into a node_modules, like `npm ci --omit=dev`. Processes there need
 * NODE_PRESERVE_SYMLINKS; otherwise a linked package finds the development dependencies beside its target.
 */
async function linkProductionDependencies(directory: string): Promise<void> {
  const lockfile = JSON.parse(await readFile(join(REPOSITORY, "package-lock.json"), "utf8")) as Lockfile;
  for (const [path, { dev }] of Object.entries(lockfile.packages)) {
    // A nested package comes with its parent.
    if (dev === true || path.lastIndexOf("node_modules/") !== 0) {
      continue;
    }
    await mkdir(dirname(join(directory, path)), { recursive: true });
    // Optional packages of another platform are missing; a dangling link has the same effect.
    await symlink(join(REPOSITORY, path), join(directory, path));
  }
}

async function build(directory: string): Promise<void> {
  await linkProductionDependencies(directory);
  await cp(join(REPOSITORY, "package.json"), join(directory, "package.json"));
  await cp(join(REPOSITORY, "src", "bootstrap.mjs"), join(directory, "src", "bootstrap.mjs"));
  // The image's user cannot write there. A file in place of the directory has the same effect, even for root.
  await writeFile(join(directory, ".signet"), "");
  await runProcess({
    command: ["node", join(REPOSITORY, "src", "processes", "build.mjs"), join(directory, "dist")],
    cwd: REPOSITORY,
    environment: {},
  });
}

/** Creates the directory. Returns true for exactly one of several concurrent callers. */
async function isFirst(directory: string): Promise<boolean> {
  try {
    await mkdir(directory);
    return true;
  } catch (error) {
    if (hasCode(error, "EEXIST")) {
      return false;
    }
    throw error;
  }
}

/**
 * Creates the image's content as the Dockerfile does: `dist`, `package.json`, `src/bootstrap.mjs` and the production
 * dependencies. Created once per test run; run its programs with {@link IMAGE_ENVIRONMENT}.
 *
 * @returns the directory, /app in the image
 */
export async function productionImage(): Promise<string> {
  const directory = join(inject("runDirectory"), "image");
  const outcome = `${directory}.outcome`;
  if (await isFirst(directory)) {
    try {
      await build(directory);
      await writeFile(outcome, BUILT);
    } catch (error) {
      await writeFile(outcome, String(error));
      throw error;
    }
    return directory;
  }
  const problem = await eventually(
    async () => (await readFile(outcome, "utf8")) || undefined,
    "the build that another test file has started",
    BUILD_PATIENCE_MS,
  );
  if (problem !== BUILT) {
    throw new Error(problem);
  }
  return directory;
}

/** Makes the links of {@link productionImage} behave like copies. */
export const IMAGE_ENVIRONMENT = { NODE_PRESERVE_SYMLINKS: "1" } as const;
