/** Servers that run beside us: in a session of their own, so that Ctrl-C stops us first and we stop them. */
import { spawn } from "node:child_process";
import { mkdirSync, openSync, closeSync, readFileSync, statSync, truncateSync } from "node:fs";
import { dirname } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isRunning } from "./process-identity.ts";
import { startUpError } from "./start-up-error.ts";

const LONGEST_LOG_BYTES = 16 * 1024 * 1024;
const TAIL_BYTES = 2_000;

/** The identity that a child takes when we are root. */
export interface ServiceUser {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
}

export interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The whole environment: nothing of ours leaks into it, PGDATA and TEMPORAL_* change nothing. */
  readonly env: Readonly<Record<string, string>>;
  readonly runAs?: ServiceUser | undefined;
  /** Standard output and error are appended here; a pipe would end with us and take the server along. */
  readonly logFile: string;
}

export interface ServerProcess {
  readonly pid: number;
  /** How it ended, for a message; `undefined` while it runs. */
  ended(): string | undefined;
  /** Called once, when it has ended without {@link ServerProcess.stop}. */
  onCrash(listener: (how: string) => void): void;
  /** Ends it, and resolves when it is gone. */
  stop(steps: readonly StopStep[]): Promise<void>;
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

/** What the server keeps is its owner's: the child inherits the mask, which is put back before anything else runs. */
function withPrivateFiles<T>(start: () => T): T {
  const before = process.umask(0o077);
  try {
    return start();
  } finally {
    process.umask(before);
  }
}

/** Asks a server to end with this process, however that ends: nobody is left to stop it then. */
function interruptAtExit(pid: number, hasEnded: () => boolean): () => void {
  const interrupt = (): void => {
    if (!hasEnded()) {
      // One that was stopped takes the interrupt only when it goes on.
      for (const signal of ["SIGINT", "SIGCONT"] as const) {
        trySignal(pid, signal);
      }
    }
  };
  process.once("exit", interrupt);
  return () => void process.off("exit", interrupt);
}

function trySignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended.
  }
}

/**
 * Starts a server and does not wait for it to be ready. It is interrupted when this process exits.
 *
 * @throws SignetError `UNAVAILABLE` when the program cannot be run at all
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
  let how: string | undefined;
  let stopping = false;
  child.once("exit", (code, signal) => (how = signal === null ? `exit code ${code}` : signal));
  const pid = await new Promise<number>((resolve, reject) => {
    child.once("error", (error) => reject(startUpError(`${server.command}: ${error.message}`, error)));
    child.once("spawn", () => resolve(child.pid ?? 0));
  });
  // What keeps the process alive is its work, not the servers beside it.
  child.unref();
  child.once(
    "exit",
    interruptAtExit(pid, () => how !== undefined),
  );
  return {
    pid,
    ended: () => how,
    onCrash: (listener) => {
      child.once("exit", () => {
        if (!stopping) {
          listener(how ?? "");
        }
      });
    },
    stop: async (steps) => {
      stopping = true;
      // Once it has ended, its pid may be somebody else's.
      if (how === undefined) {
        await stopProcess(pid, steps);
      }
    },
  };
}

/** A signal, and how long it may take to have an effect. */
export type StopStep = readonly [signal: NodeJS.Signals, patienceMs: number];

/** Ends a process, child or not, one signal after the other until one works. */
export async function stopProcess(pid: number, steps: readonly StopStep[]): Promise<void> {
  for (const [signal, patienceMs] of steps) {
    const deadline = performance.now() + patienceMs;
    try {
      process.kill(pid, signal);
    } catch {
      return;
    }
    while (performance.now() < deadline) {
      if (!isRunning(pid)) {
        return;
      }
      await delay(20);
    }
  }
}
