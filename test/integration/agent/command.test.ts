/** `signet agent` as a process. */
import { chmod, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { eventually } from "#test/support/eventually.ts";
import { type SpawnedProcess, spawnSignet } from "#test/support/processes.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

let server: RotatingServer;
let directory: string;
let credentialFile: string;
const running: SpawnedProcess[] = [];

beforeEach(async () => {
  server = await startRotatingServer();
  directory = await mkdtemp(join(tmpdir(), "signet-agent-"));
  credentialFile = join(directory, "credential.json");
  // As `signet credential create --json` prints it.
  const created = { id: "crd_1", client_id: CLIENT_ID, client_secret: secretOf(1), version: 1 };
  await writeFile(credentialFile, JSON.stringify(created), { mode: 0o600 });
});

afterEach(async () => {
  await Promise.all(running.splice(0).map(async (agent) => await agent.stop("SIGKILL")));
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

function signetAgent(...args: readonly string[]): SpawnedProcess {
  const line = ["agent", "--url", server.url, "--credential-file", credentialFile, ...args];
  const agent = spawnSignet(line, {});
  running.push(agent);
  return agent;
}

test("it prints its address, creates the callers' secret readable only by its owner, and stops on request", async () => {
  const agent = signetAgent("--listen", "127.0.0.1:0");
  const address = await eventually(() => /ready: (\S+),/.exec(agent.output())?.[1], "the agent");
  const secretFile = `${credentialFile}.agent-secret`;
  expect((await stat(secretFile)).mode & 0o777).toBe(0o600);
  const headers = { "x-signet-agent-secret": (await readFile(secretFile, "utf8")).trim() };
  expect((await fetch(`${address}/token`, { headers })).status).toBe(200);
  expect(await agent.stop()).toMatchObject({ code: 0 });
  expect(agent.output()).not.toContain("canary");
});

test.each([
  ["0.0.0.0:0", "is not a loopback address"],
  ["[::]:0", "is not a loopback address"],
])("it refuses to listen on %s", async (address, message) => {
  const agent = signetAgent("--listen", address);
  expect(await agent.ended).toMatchObject({ code: 1 });
  expect(agent.output()).toContain(message);
});

test("it rejects a callers' secret that everybody can read", async () => {
  const secretFile = join(directory, "secret");
  await writeFile(secretFile, "x".repeat(40));
  await chmod(secretFile, 0o644);
  const agent = signetAgent("--listen", "127.0.0.1:0", "--secret-file", secretFile);
  expect(await agent.ended).toMatchObject({ code: 1 });
  expect(agent.output()).toContain("everybody can read");
});
