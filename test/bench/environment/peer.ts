/** Another webhook sender beside Signet, in a directory that the user has laid out as docs/benchmarks.md describes. */
import { execFile } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { stopProcess, type StopStep } from "#processes/embedded/server-process.ts";
import type { RigProcess, RigTarget } from "../load/rig.ts";
import type { Janitor } from "./janitor.ts";

const run = promisify(execFile);

const START_TIMEOUT_MS = 3 * 60_000;
const POLL_MS = 200;
/** Resolution of file times, generously. */
const FILE_TIME_MS = 1_000;
const STOP: readonly StopStep[] = [
  ["SIGTERM", 30_000],
  ["SIGKILL", 5_000],
];

/** A peer's target file. Two of its fields are the bench's own; the rig ignores them. */
export interface PeerTarget extends RigTarget {
  /** Shell command that starts the peer with its databases and returns. */
  readonly start: string;
  /** What is measured: release, commit, important settings. */
  readonly version?: string;
}

/**
 * Parses a peer's target file. `$PEERS` in it is the peers' directory.
 *
 * @returns undefined if it describes no webhook sender
 * @throws Error if a field is absent
 */
export function parsePeer(text: string, directory: string): PeerTarget | undefined {
  const target = JSON.parse(text.replaceAll("$PEERS", directory)) as Partial<PeerTarget>;
  const { name, health, procs, start, restart, publish } = target;
  if (publish === undefined) {
    return undefined;
  }
  const command = start ?? restart;
  if (typeof name !== "string" || typeof health !== "string" || typeof command !== "string") {
    throw new Error("a peer's target file needs name, health and start");
  }
  if (!/^[a-z][a-z0-9_]{0,31}$/.test(name) || name === "signet") {
    throw new Error(`${JSON.stringify(name)} cannot be a peer's name: lower case, not signet`);
  }
  if (!Array.isArray(procs) || procs.length === 0) {
    throw new Error(`${name}: procs names no process, so its CPU cannot be measured`);
  }
  return { ...target, name, health, procs, start: command };
}

/** Reads the webhook senders of a peers' directory, by name. */
export async function readPeers(peers: string): Promise<PeerTarget[]> {
  const directory = resolve(peers);
  const files = (await readdir(join(directory, "rig"))).filter((name) => name.endsWith(".json"));
  const found: PeerTarget[] = [];
  for (const file of files.toSorted()) {
    const peer = parsePeer(await readFile(join(directory, "rig", file), "utf8"), directory);
    if (peer !== undefined) {
      found.push(peer);
    }
  }
  return found;
}

function pidOf({ pidfile }: RigProcess): number {
  return existsSync(pidfile) ? Number.parseInt(readFileSync(pidfile, "utf8"), 10) : Number.NaN;
}

async function isHealthy(url: string): Promise<boolean> {
  return await fetch(url, { signal: AbortSignal.timeout(2_000) }).then(
    ({ status }) => status < 500,
    () => false,
  );
}

export class Peer {
  readonly target: PeerTarget;
  readonly #directory: string;
  readonly #janitor: Janitor;
  /** Pids of the processes that `start` started, dependent ones first. */
  #started: number[] = [];

  constructor(target: PeerTarget, { peers, janitor }: { readonly peers: string; readonly janitor: Janitor }) {
    this.target = target;
    this.#directory = resolve(peers);
    this.#janitor = janitor;
  }

  /** Pids of its process trees by name. */
  get roots(): Record<string, number> {
    return Object.fromEntries(this.target.procs.map((each) => [each.name, pidOf(each)]));
  }

  /** Runs its start command and resolves when it is healthy. @throws Error if it already runs, or does not start */
  async start(): Promise<void> {
    const { name, health, procs, start } = this.target;
    if (await isHealthy(health)) {
      throw new Error(`${name} already answers at ${health}; stop it, because the bench starts it`);
    }
    const sinceMs = Date.now() - FILE_TIME_MS;
    // The whole environment: the user's settings have no effect on a peer.
    const env = {
      PATH: process.env["PATH"] ?? "/usr/bin:/bin",
      HOME: this.#directory,
      PEERS: this.#directory,
    };
    const begun = run("/bin/sh", ["-c", start], { cwd: this.#directory, env, timeout: START_TIMEOUT_MS });
    await begun.finally(() => {
      // A process whose pid file is older was not started by this command, and its pid may be another's by now.
      this.#started = procs
        .filter(({ pidfile }) => existsSync(pidfile) && statSync(pidfile).mtimeMs >= sinceMs)
        .map(pidOf);
      for (const pid of this.#started.toReversed()) {
        this.#janitor.mind(pid, "SIGTERM");
      }
    });
    const deadline = performance.now() + START_TIMEOUT_MS;
    while (!(await isHealthy(health))) {
      this.#requireProcesses();
      if (performance.now() > deadline) {
        throw new Error(`${name} did not answer at ${health}`);
      }
      await delay(POLL_MS);
    }
    this.#requireProcesses();
  }

  /** @throws Error if a process has ended */
  #requireProcesses(): void {
    const absent = this.target.procs.filter((each) => !isRunning(pidOf(each)));
    if (absent.length > 0) {
      throw new Error(
        `${this.target.name}: no process runs for ${absent.map(({ pidfile }) => pidfile).join()}`,
      );
    }
  }

  /** Stops what {@link start} started, one after the other. */
  async stop(): Promise<void> {
    for (const pid of this.#started) {
      await stopProcess(pid, STOP);
    }
    this.#started = [];
  }
}
