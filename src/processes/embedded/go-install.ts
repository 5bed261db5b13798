/** Builds programs from their Go modules if a Go toolchain exists. Go's checksum database verifies the source. */
import { spawn } from "node:child_process";
import type { Environment } from "#config/config.ts";

const PROGRESS_MS = 5_000;
/** Time for the compilers to end after SIGTERM. */
const END_MS = 2_000;
const OUTPUT_KEPT = 4_000;

export interface GoInstallOptions {
  /** The toolchain's program. */
  readonly go: string;
  /** Of `go install`: packages with versions (`example.org/cmd/name@v1.2.3`), or of the module in `directory`. */
  readonly args: readonly string[];
  /** Description of the build for people. */
  readonly what: string;
  /** Target directory of the programs. */
  readonly directory: string;
  readonly environment: Environment;
  /** Called every few seconds with what is under way, for people. */
  readonly progress: (text: string) => void;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Flags of Go's compiler and linker for programs that work little. Nothing is optimised, and nothing written for debuggers.
 * Kubernetes' API server is built in 220 s instead of 280.
 */
export const QUICK_BUILD = { compiler: "-gcflags=all=-N -l -dwarf=false", linker: "-ldflags=-s -w" } as const;

/** Go's environment: the caller's, without variables that select another platform or target directory. */
function goEnvironment(environment: Environment, directory: string): Record<string, string | undefined> {
  const { GOOS: _os, GOARCH: _arch, ...rest } = environment;
  return { ...rest, GOBIN: directory };
}

/**
 * Builds with `go install`: takes minutes the first time, seconds with a warm Go cache.
 *
 * @throws Error with the end of Go's output
 */
export async function goInstall(options: GoInstallOptions): Promise<void> {
  const { go, args, what, directory, environment, progress, signal } = options;
  signal?.throwIfAborted();
  const started = performance.now();
  const timer = setInterval(() => {
    progress(`building ${what} with Go, ${Math.round((performance.now() - started) / 1000)} s`);
  }, PROGRESS_MS);
  // A separate process group, so that go's compilers end with it.
  const child = spawn(go, ["install", ...args], {
    cwd: directory,
    env: goEnvironment(environment, directory),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  const signalAll = (name: NodeJS.Signals): void => {
    try {
      process.kill(-(child.pid ?? 0), name);
    } catch {
      // All of them have ended.
    }
  };
  let killing: NodeJS.Timeout | undefined;
  const abort = (): void => {
    signalAll("SIGTERM");
    killing = setTimeout(signalAll, END_MS, "SIGKILL");
  };
  const killAtExit = (): void => signalAll("SIGKILL");
  if (child.pid !== undefined) {
    signal?.addEventListener("abort", abort, { once: true });
    process.once("exit", killAtExit);
  }
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
    clearTimeout(killing);
    signal?.removeEventListener("abort", abort);
    process.off("exit", killAtExit);
  }
}
