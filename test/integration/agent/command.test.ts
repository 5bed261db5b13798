/** `signet agent` as a process. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { eventually } from "../../support/eventually.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "../../support/rotating-server.ts";

const MAIN = join(import.meta.dirname, "..", "..", "..", "src", "processes", "main.ts");

let server: RotatingServer;
let directory: string;
let credentialFile: string;
const running = new Set<ChildProcess>();

beforeEach(async () => {
  server = await startRotatingServer();
  directory = await mkdtemp(join(tmpdir(), "signet-agent-"));
  credentialFile = join(directory, "credential.json");
  // As `signet credential create --json` prints it.
  const created = { id: "crd_1", client_id: CLIENT_ID, client_secret: secretOf(1), version: 1 };
  await writeFile(credentialFile, JSON.stringify(created), { mode: 0o600 });
});

afterEach(async () => {
  for (const child of running) {
    child.kill("SIGKILL");
  }
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

interface Command {
  readonly output: () => string;
  readonly ended: Promise<number | null>;
  readonly stop: () => void;
}

function signetAgent(...args: readonly string[]): Command {
  const line = ["--import", "tsx", MAIN, "agent", "--url", server.url, "--credential-file", credentialFile];
  const child = spawn(process.execPath, [...line, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  running.add(child);
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  const ended = once(child, "close").then(([code]) => {
    running.delete(child);
    return code as number | null;
  });
  return { output: () => output, ended, stop: () => void child.kill("SIGTERM") };
}

test("it prints its address, creates the callers' secret readable only by its owner, and stops on request", async () => {
  const agent = signetAgent("--listen", "127.0.0.1:0");
  const address = await eventually(() => /ready: (\S+),/.exec(agent.output())?.[1], "the agent");
  const secretFile = `${credentialFile}.agent-secret`;
  expect((await stat(secretFile)).mode & 0o777).toBe(0o600);
  const headers = { "x-signet-agent-secret": (await readFile(secretFile, "utf8")).trim() };
  expect((await fetch(`${address}/token`, { headers })).status).toBe(200);
  agent.stop();
  expect(await agent.ended).toBe(0);
  expect(agent.output()).not.toContain("canary");
});

test.each([
  ["0.0.0.0:0", "is not a loopback address"],
  ["[::]:0", "is not a loopback address"],
])("it refuses to listen on %s", async (address, message) => {
  const agent = signetAgent("--listen", address);
  expect(await agent.ended).toBe(1);
  expect(agent.output()).toContain(message);
});

test("it rejects a callers' secret that everybody can read", async () => {
  const secretFile = join(directory, "secret");
  await writeFile(secretFile, "x".repeat(40));
  await chmod(secretFile, 0o644);
  const agent = signetAgent("--listen", "127.0.0.1:0", "--secret-file", secretFile);
  expect(await agent.ended).toBe(1);
  expect(agent.output()).toContain("everybody can read");
});
