/** Processes of the production build, run as in a container: exact environment, production dependencies. */
import { type ChildProcess, spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { dirname, join } from "node:path";
import { inject } from "vitest";
import type { Environment } from "#config/config.ts";
import { observe } from "./failure-report.ts";
import { noteChild } from "./interrupt-on-exit.ts";

export interface ProcessOptions {
  /** Program and arguments; `node` means the Node.js that runs the tests. */
  readonly command: readonly string[];
  readonly cwd: string;
  /** Complete environment; nothing is inherited. */
  readonly environment: Environment;
  /** File to which the output is also written. */
  readonly logFile?: string;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface SpawnedProcess {
  readonly pid: number;
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
export function spawnProcess({ command, cwd, environment, logFile }: ProcessOptions): SpawnedProcess {
  const [program = "", ...args] = command;
  const child = spawn(program === "node" ? process.execPath : program, args, {
    cwd,
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, ...environment },
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  noteChild(child.pid);
  let stdout = "";
  let output = "";
  let state: Ended | undefined;
  observe({ name: command.join(" "), log: () => output });
  const log = logFile === undefined ? undefined : createWriteStream(logFile, { flags: "a" });
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
    output += text;
    log?.write(text);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    log?.write(text);
  });
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      children.delete(child);
      log?.end();
      state = { code, signal };
      resolve(state);
    });
  });
  return {
    pid: child.pid ?? 0,
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

/**
 * Returns the directory with the image's content, /app in the image: `dist`, `package.json`, `src/bootstrap.mjs` and the
 * production dependencies. It is built once per run; run its programs with {@link imageEnvironment}.
 */
export function productionImage(): string {
  return inject("productionImage");
}

/** Returns what programs of an image need here, by default of {@link productionImage}. */
export function imageEnvironment(
  image = productionImage(),
): Readonly<Record<"NODE_PRESERVE_SYMLINKS" | "NODE_COMPILE_CACHE", string>> {
  return {
    // Makes the image's links behave like copies.
    NODE_PRESERVE_SYMLINKS: "1",
    // A start costs a fifth less with what the run's other processes have compiled.
    NODE_COMPILE_CACHE: join(dirname(image), "compiled"),
  };
}

/** Starts `signet` from the image. */
export function spawnSignet(args: readonly string[], environment: Environment): SpawnedProcess {
  return spawnProcess({
    command: ["node", "dist/src/processes/main.js", ...args],
    cwd: productionImage(),
    environment: { ...imageEnvironment(), ...environment },
  });
}

/** Returns the image's workflow code for a worker in this process. */
export function workflowBundle(): { readonly codePath: string } {
  return { codePath: join(productionImage(), "dist", "workflow-bundle.js") };
}
