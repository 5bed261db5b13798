/** Runs `npm start` like a person in a terminal: its own process group, and its own ports. */
import { execFile, spawn } from "node:child_process";
import { chmod, mkdtemp, readFile, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isRunning } from "#processes/embedded/process-identity.ts";
import { readAnswer, unlessStale } from "./answer.ts";
import { eventually } from "./eventually.ts";
import { freePorts } from "./free-port.ts";

const run = promisify(execFile);
const REPOSITORY = join(import.meta.dirname, "..", "..");
const READY_MS = 150_000;
const END_MS = 30_000;
/** Timeout for a document's commands, each of which is a process. */
const SCRIPT_MS = 480_000;

export type Settings = Readonly<Record<string, string>>;

export interface Ended {
  readonly code: number | null;
  readonly tookMs: number;
}

export interface NpmStart {
  readonly settings: Settings;
  /** Standard output so far. */
  stdout(): string;
  /** Lines of standard error so far, without npm's. */
  errorLines(): string[];
  /** Resolves when a line of the output matches; rejects if the process ends before. */
  untilPrinted(line: RegExp): Promise<void>;
  /** Resolves when it has ended by itself. */
  untilEnded(): Promise<Ended>;
  /** Sends SIGINT to the whole group, like Ctrl-C. Resolves when all of it has ended. */
  interrupt(): Promise<Ended>;
  /** Sends SIGTERM to npm alone, like `kill`. */
  terminate(): void;
  /** Cleans up after a failed test. */
  kill(): void;
}

export interface Home {
  readonly home: string;
  remove(): Promise<void>;
}

/** Creates a `SIGNET_HOME` that PostgreSQL's own user may enter. */
export async function makeHome(): Promise<Home> {
  const directory = await realpath(await mkdtemp(join(tmpdir(), "signet-start-")));
  await chmod(directory, 0o755);
  return {
    home: join(directory, ".signet"),
    remove: async () => await rm(directory, { recursive: true, force: true }),
  };
}

/** Returns settings that separate a service from others on this machine. */
export async function ownSettings(home: string): Promise<Settings> {
  const [api, admin, metrics, edge, database, temporal, temporalUi] = await freePorts(7);
  return {
    SIGNET_HOME: home,
    SIGNET_API_LISTEN: `127.0.0.1:${api}`,
    SIGNET_ADMIN_LISTEN: `127.0.0.1:${admin}`,
    SIGNET_METRICS_LISTEN: `127.0.0.1:${metrics}`,
    SIGNET_EDGE_LISTEN: `127.0.0.1:${edge}`,
    SIGNET_EMBEDDED_DATABASE_PORT: String(database),
    SIGNET_EMBEDDED_TEMPORAL_PORT: String(temporal),
    SIGNET_EMBEDDED_TEMPORAL_UI_PORT: String(temporalUi),
  };
}

/** Returns an environment with only these settings and the shell's basics. */
function personalEnvironment(settings: Settings): NodeJS.ProcessEnv {
  const inherited = Object.entries(process.env).filter(
    ([name]) =>
      name === "SIGNET_CACHE" || !/^(SIGNET_|TEMPORAL_|VITEST|NODE_ENV|NODE_OPTIONS|npm_)/.test(name),
  );
  return { ...Object.fromEntries(inherited), ...settings };
}

/** A running shell with its own terminal. */
export interface Terminal {
  /** Returns the output so far. */
  readonly output: () => string;
  /** Sends Ctrl-C; resolves when the commands have ended. */
  readonly interrupt: () => Promise<void>;
}

/** Runs lines in a new terminal. The caller ends it. */
export function openTerminal(
  script: string,
  options: { readonly cwd: string; readonly settings: Settings },
): Terminal {
  const child = spawn("bash", ["-c", script], {
    cwd: options.cwd,
    env: personalEnvironment(options.settings),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let output = "";
  let ended = false;
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  child.once("close", () => (ended = true));
  return {
    output: () => output,
    interrupt: async () => {
      if (child.pid !== undefined && !ended) {
        process.kill(-child.pid, "SIGINT");
      }
      await eventually(() => ended, "the terminal to be free", END_MS);
    },
  };
}

/** Starts it, with options of `signet serve`. The caller ends it. */
export function npmStart(settings: Settings, ...options: readonly string[]): NpmStart {
  const started = performance.now();
  const child = spawn("npm", ["start", "--", ...options], {
    cwd: REPOSITORY,
    env: personalEnvironment(settings),
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let stdout = "";
  let stderr = "";
  let ended: Ended | undefined;
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  child.once("close", (code) => (ended = { code, tookMs: performance.now() - started }));
  const signalGroup = (signal: NodeJS.Signals): void => {
    if (child.pid !== undefined && ended === undefined) {
      process.kill(-child.pid, signal);
    }
  };
  const untilEnded = async (withinMs = READY_MS): Promise<Ended> =>
    await eventually(() => ended, "npm start to end", withinMs);
  return {
    settings,
    stdout: () => stdout,
    errorLines: () => stderr.split("\n").filter((line) => line !== "" && !/^npm\b/.test(line)),
    untilPrinted: async (line) => {
      await eventually(() => ended !== undefined || line.test(stdout), String(line), READY_MS);
      if (!line.test(stdout)) {
        throw new Error(`npm start ended with code ${ended?.code}:\n${stdout}${stderr}`);
      }
    },
    untilEnded: async () => await untilEnded(),
    interrupt: async () => {
      const asked = performance.now();
      signalGroup("SIGINT");
      const { code } = await untilEnded(END_MS);
      return { code, tookMs: performance.now() - asked };
    },
    terminate: () => child.kill("SIGTERM"),
    kill: () => signalGroup("SIGKILL"),
  };
}

/** By token request. A client may request 60 tokens in a minute, and a test that waits looks more often. */
const demoTokens = new Map<string, { readonly text: string; readonly at: number }>();
/** A third of a token's life, in milliseconds. */
const DEMO_TOKEN_MS = 300_000;

/** Calls the API as the demo's client. */
export async function callAsDemo(
  settings: Settings,
  path: string,
  body?: unknown,
): Promise<Readonly<Record<string, unknown>>> {
  const post = { method: "POST", headers: { "content-type": "application/json" } };
  const ask = async (to: string, init: RequestInit): Promise<Readonly<Record<string, unknown>>> => {
    const url = `http://${settings["SIGNET_API_LISTEN"]}${to}`;
    return (await unlessStale(async () => await readAnswer(await fetch(url, init)))).body;
  };
  const grant = await readFile(join(settings["SIGNET_HOME"] ?? "", "demo.json"), "utf8");
  let token = demoTokens.get(grant);
  if (token === undefined || performance.now() - token.at > DEMO_TOKEN_MS) {
    const { access_token: text } = await ask("/v1/auth/token", { ...post, body: grant });
    token = { text: String(text), at: performance.now() };
    demoTokens.set(grant, token);
  }
  const authorization = `Bearer ${token.text}`;
  return body === undefined
    ? await ask(path, { headers: { authorization } })
    : await ask(path, { ...post, headers: { ...post.headers, authorization }, body: JSON.stringify(body) });
}

/** Returns the pid of the serving process, which holds the lock of the home. */
export async function serverPid(home: string): Promise<number> {
  const { pid } = JSON.parse(await readFile(join(home, "lock"), "utf8")) as { pid: number };
  return pid;
}

/** Returns the command lines of the embedded servers in this home. */
export async function serversOf(home: string): Promise<string[]> {
  const { stdout } = await run("ps", ["-eo", "pid=,args="], { maxBuffer: 1 << 24 });
  return stdout.split("\n").filter((line) => line.includes(home));
}

/** Kills the processes that a failed test has left in its home. */
export async function killServersOf(home: string): Promise<void> {
  for (const line of await serversOf(home)) {
    const pid = Number.parseInt(line, 10);
    if (isRunning(pid)) {
      process.kill(pid, "SIGKILL");
    }
  }
}

/** Runs lines in bash; stops at the first that fails. */
export async function bash(
  script: string,
  options: { readonly cwd: string; readonly settings: Settings },
): Promise<string> {
  const { stdout } = await run("bash", ["-euo", "pipefail", "-c", script], {
    cwd: options.cwd,
    env: personalEnvironment(options.settings),
    maxBuffer: 1 << 24,
    timeout: SCRIPT_MS,
  });
  return stdout;
}
