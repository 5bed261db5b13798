/** Servers beside this process: each in its own session, so that Ctrl-C reaches this process first, which stops them. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, openSync, closeSync, readFileSync, statSync, truncateSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isRunning } from "./process-identity.ts";
import { startUpError } from "./start-up-error.ts";

const LONGEST_LOG_BYTES = 16 * 1024 * 1024;
const TAIL_BYTES = 2_000;

/** The user of a child process if this process is root. */
export interface ServiceUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment: nothing is inherited, so PGDATA and TEMPORAL_* have no effect. */
  readonly env: Readonly<Record<string, string>>;
  readonly runAs?: ServiceUser | undefined;
  /** Standard output and error are appended here; a pipe would end with this process and break the server. */
  readonly logFile: string;
  /** Sent to the server if this process exits without having stopped it; default: SIGINT. */
  readonly exitSignal?: NodeJS.Signals;
}

export class ServerProcess {
  readonly pid: number;
  readonly #child: ChildProcess;
  #how: string | undefined;
  #stopping = false;

  /** @param child has just been spawned */
  constructor(child: ChildProcess) {
    this.pid = child.pid ?? 0;
    this.#child = child;
    child.once("exit", (code, signal) => (this.#how = signal === null ? `exit code ${code}` : signal));
  }

  /** How it ended, for a message; `undefined` while it runs. */
  ended(): string | undefined {
    return this.#how;
  }

  /** Called once if it ends without {@link stop}. */
  onCrash(listener: (how: string) => void): void {
    this.#child.once("exit", () => {
      if (!this.#stopping) {
        listener(this.#how ?? "");
      }
    });
  }

  /** Ends it. Resolves when it is gone. */
  async stop(steps: readonly StopStep[]): Promise<void> {
    this.#stopping = true;
    // After its end, another process may get its pid.
    if (this.#how === undefined) {
      // Its first thread may end before the others, which still hold its port and its files.
      await stopProcess(this.pid, steps, () => this.#how !== undefined);
    }
  }
}

/** The end of a log file, for an error message. */
export function logTail(logFile: string): string {
  const text = readFileSync(logFile, "utf8");
  return text.slice(-TAIL_BYTES).trim();
}

function openLog(logFile: string): number {
  mkdirSync(dirname(logFile), { recursive: true });
  if ((statSync(logFile, { throwIfNoEntry: false })?.size ?? 0) > LONGEST_LOG_BYTES) {
    truncateSync(logFile);
  }
  return openSync(logFile, "a", 0o600);
}

/** Only the owner may read the server's files: the child inherits the mask, which is restored before other code runs. */
function withPrivateFiles<T>(start: () => T): T {
  const before = process.umask(0o077);
  try {
    return start();
  } finally {
    process.umask(before);
  }
}

/** What to do when this process exits, for each server. One listener for all: Node warns of more than ten. */
const atExit = new Set<() => void>();

process.once("exit", () => atExit.forEach((act) => act()));

/** Signals the server when this process exits for any reason. */
function signalAtExit(pid: number, exitSignal: NodeJS.Signals, hasEnded: () => boolean): () => void {
  const signalServer = (): void => {
    if (!hasEnded()) {
      // A stopped process handles most signals only after it continues.
      for (const signal of [exitSignal, "SIGCONT"] as const) {
        trySignal(pid, signal);
      }
    }
  };
  atExit.add(signalServer);
  return () => void atExit.delete(signalServer);
}

function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // Already ended.
  }
}

/**
 * Starts a server without waiting until it is ready. It gets `exitSignal` when this process exits.
 *
 * @throws SignetError `UNAVAILABLE` if the program cannot be run
 */
export async function startServer(server: ServerCommand): Promise<ServerProcess> {
  const log = openLog(server.logFile);
  const child = withPrivateFiles(() =>
    spawn(server.command, server.args, {
      cwd: server.cwd,
      env: { ...server.env },
      stdio: ["ignore", log, log],
      detached: true,
      ...(server.runAs === undefined ? {} : { uid: server.runAs.uid, gid: server.runAs.gid }),
    }),
  );
  closeSync(log);
  const started = new ServerProcess(child);
  await new Promise<void>((resolve, reject) => {
    child.once("error", (error) => reject(startUpError(`${server.command}: ${error.message}`, error)));
    child.once("spawn", () => resolve());
  });
  // The servers must not keep this process alive.
  child.unref();
  child.once(
    "exit",
    signalAtExit(started.pid, server.exitSignal ?? "SIGINT", () => started.ended() !== undefined),
  );
  return started;
}

/** A signal, and the time for it to take effect. */
export type StopStep = readonly [signal: NodeJS.Signals, timeoutMs: number];

/** Ends a process, child or not, with one signal after the other until it has ended. */
export async function stopProcess(
  pid: number,
  steps: readonly StopStep[],
  hasEnded = () => !isRunning(pid),
): Promise<void> {
  for (const [signal, timeoutMs] of steps) {
    const deadline = performance.now() + timeoutMs;
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    while (performance.now() < deadline) {
      if (hasEnded()) {
        return;
      }
      await delay(20);
    }
  }
}
