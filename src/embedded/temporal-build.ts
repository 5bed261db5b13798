/** The Temporal CLI from its Go module, where there is a Go toolchain. Go's checksum database verifies the source. */
import { spawn } from "node:child_process";
import type { Environment } from "../config.ts";

const MODULE = "github.com/temporalio/cli/cmd/temporal";
const PROGRESS_MS = 5_000;
const OUTPUT_KEPT = 2_000;

export interface BuildOptions {
  readonly go: string;
  readonly version: string;
  /** The program is left here as `temporal`. */
  readonly directory: string;
  readonly environment: Environment;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal | undefined;
}

/** Go's environment: the caller's, without what would build for another machine or put the program elsewhere. */
function goEnvironment(environment: Environment, directory: string): Record<string, string | undefined> {
  const { GOOS: _os, GOARCH: _arch, ...rest } = environment;
  return { ...rest, GOBIN: directory };
}

/**
 * Builds the CLI with `go install`: minutes the first time, seconds when Go's cache is warm.
 *
 * @throws Error with the end of Go's output
 */
export async function buildTemporal(options: BuildOptions): Promise<void> {
  const { go, version, directory, environment, log, signal } = options;
  const started = performance.now();
  log(`building the Temporal CLI ${version} with go install; the first time this takes about 4 minutes`);
  const timer = setInterval(() => {
    log(`building the Temporal CLI … ${Math.round((performance.now() - started) / 1000)} s`);
  }, PROGRESS_MS);
  // A group of its own: the compilers that go starts end with it.
  const child = spawn(go, ["install", `${MODULE}@v${version}`], {
    cwd: directory,
    env: goEnvironment(environment, directory),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const abort = (): void => {
    if (child.pid !== undefined) {
      process.kill(-child.pid, "SIGTERM");
    }
  };
  signal?.addEventListener("abort", abort, { once: true });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => (output = (output + String(chunk)).slice(-OUTPUT_KEPT)));
  }
  try {
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", (code) => {
        if (code === 0) {
          resolve();
        } else {
          reject(new Error(output.trim().replaceAll("\n", " ") || `exit code ${code}`));
        }
      });
    });
  } finally {
    clearInterval(timer);
    signal?.removeEventListener("abort", abort);
  }
}
