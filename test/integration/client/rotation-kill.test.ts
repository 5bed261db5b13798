/** A client killed during a rotation always has a working secret on disk. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FileCredentialStore, parseCredential } from "#lib/client/file-credential-store.ts";
import { answerOf } from "#test/support/child-answer.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

const PROGRAM = join(import.meta.dirname, "rotation-process.ts");

let server: RotatingServer;
let directory: string;
let path: string;
const running = new Set<ChildProcess>();

beforeEach(async () => {
  server = await startRotatingServer();
  directory = await mkdtemp(join(tmpdir(), "signet-rotation-"));
  path = join(directory, "credential.json");
  await new FileCredentialStore(path).save({
    clientId: CLIENT_ID,
    current: { secret: secretOf(1), version: 1 },
    next: null,
  });
});

afterEach(async () => {
  for (const child of running) {
    child.kill("SIGKILL");
  }
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

interface Client {
  readonly lines: () => readonly string[];
  /** Resolves when the condition holds; rejects if the process ends first. */
  readonly until: (condition: () => boolean, what: string) => Promise<void>;
  readonly ended: Promise<number | null>;
  readonly kill: () => Promise<void>;
}

function startClient(mode: string): Client {
  const child = spawn(process.execPath, [PROGRAM, server.url, path, mode], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  running.add(child);
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = once(child, "close").then(([code]) => {
    running.delete(child);
    return code as number | null;
  });
  return {
    lines: () => output.split("\n").slice(0, -1),
    until: async (condition, what) => void (await answerOf(child, condition, what)),
    ended,
    kill: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

async function runOnce(): Promise<readonly string[]> {
  const client = startClient("once");
  await client.ended;
  return client.lines();
}

async function stored() {
  return parseCredential(await readFile(path, "utf8"));
}

const presented = () => server.tokenRequests.map(({ body }) => body["client_secret"]);

describe("a client that is killed", () => {
  test("between receiving and storing keeps its secret and gets the same successor again", async () => {
    server.rotation.due.add(1);
    const client = startClient("before-save");
    await client.until(() => client.lines().includes("received"), "the successor");
    await client.kill();
    expect(await stored()).toMatchObject({ current: { secret: secretOf(1) }, next: null });

    expect(await runOnce()).toEqual([expect.stringMatching(/^token /)]);
    expect(presented()).toEqual([secretOf(1), secretOf(1)]);
    expect(await stored()).toMatchObject({ next: { secret: secretOf(2), version: 2 } });
  });

  test("between storing and first use presents the successor after a restart", async () => {
    server.rotation.due.add(1);
    const client = startClient("after-save");
    await client.until(() => client.lines().includes("stored"), "the stored successor");
    await client.kill();
    expect(presented()).toEqual([secretOf(1)]);

    expect(await runOnce()).toEqual([expect.stringMatching(/^token /)]);
    expect(presented()).toEqual([secretOf(1), secretOf(2)]);
    expect(await stored()).toEqual({
      clientId: CLIENT_ID,
      current: { secret: secretOf(2), version: 2 },
      next: null,
    });
  });

  test("between storing and first use falls back to the old secret if the successor is unknown", async () => {
    server.rotation.due.add(1);
    const client = startClient("after-save");
    await client.until(() => client.lines().includes("stored"), "the stored successor");
    await client.kill();
    server.rotation.due.clear();
    server.rotation.valid.delete(2);

    expect(await runOnce()).toEqual([expect.stringMatching(/^token /)]);
    expect(presented()).toEqual([secretOf(1), secretOf(2), secretOf(1)]);
  });

  test("at any moment of many rotations finds a working secret", async () => {
    server.rotation.restless = true;
    for (let round = 0; round < 5; round += 1) {
      const client = startClient("forever");
      const before = server.tokenRequests.length;
      await client.until(() => server.tokenRequests.length > before + 20 + round * 7, "enough tokens");
      await client.kill();
      const { current, next } = await stored();
      const versions = [current, next].map((secret) => secret?.version ?? 0);
      expect(versions.some((version) => server.rotation.valid.has(version))).toBe(true);
      expect(client.lines().filter((line) => !line.startsWith("token "))).toEqual([]);
    }
    server.rotation.restless = false;
    expect(await runOnce()).toEqual([expect.stringMatching(/^token /)]);
    // At most one temporary file is left per killed process.
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await readdir(directory)).length).toBeLessThanOrEqual(6);
  });
});

test("two processes on one file rotate concurrently, and both always get their tokens", async () => {
  server.rotation.restless = true;
  const clients = [startClient("forever"), startClient("forever")];
  for (const client of clients) {
    await client.until(() => client.lines().length > 40, "enough tokens");
  }
  for (const client of clients) {
    await client.kill();
    expect(client.lines().filter((line) => !line.startsWith("token "))).toEqual([]);
  }
  // In any order of writes, the file has a recent secret that works.
  const { current } = await stored();
  expect(current.version).toBeGreaterThan(10);
  expect(await runOnce()).toEqual([expect.stringMatching(/^token /)]);
});
