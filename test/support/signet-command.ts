/** The real `signet`: a process of its own, with nothing in its environment but what a test gives it. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import type { Environment } from "../../src/config/config.ts";

const BOOTSTRAP = join(import.meta.dirname, "..", "..", "src", "bootstrap.mjs");

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunningCommand {
  readonly stdout: () => string;
  readonly stderr: () => string;
  readonly ended: Promise<Run>;
  /** What Ctrl-C does. */
  readonly interrupt: () => void;
  /** For the end of a test. */
  readonly kill: () => void;
}

/** Starts the command; `input` is its standard input. */
export function startSignet(line: readonly string[], environment: Environment, input = ""): RunningCommand {
  const child = spawn(process.execPath, [BOOTSTRAP, ...line], {
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin`, HOME: "/nonexistent", ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let stderr = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  // A command that has ended without reading it.
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
