/** Runs the real `signet` of the production build as a process with only the test's environment. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import type { Environment } from "#config/config.ts";
import { imageEnvironment, productionImage } from "./processes.ts";

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<Run>;
  /** Sends SIGINT, like Ctrl-C. */
  readonly interrupt: () => void;
  /** Cleans up at the end of a test. */
  readonly kill: () => void;
}

/** Returns the program's path and the environment that it needs. */
export function signetProgram(): { readonly path: string; readonly environment: Environment } {
  return { path: join(productionImage(), "src", "bootstrap.mjs"), environment: imageEnvironment() };
}

/** Starts the command with `input` as its standard input. */
export function startSignet(line: readonly string[], environment: Environment, input = ""): RunningCommand {
  const program = signetProgram();
  const child = spawn(process.execPath, [program.path, ...line], {
    env: {
      PATH: `${dirname(process.execPath)}:/usr/bin:/bin`,
      HOME: "/nonexistent",
      ...program.environment,
      ...environment,
    },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  // The command may end without reading its input.
  child.stdin.on("error", () => undefined);
  child.stdin.end(input);
  const ended = once(child, "close").then(([code]) => ({ code: code as number | null, stdout, stderr }));
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    ended,
    interrupt: () => void child.kill("SIGINT"),
    kill: () => void child.kill("SIGKILL"),
  };
}
