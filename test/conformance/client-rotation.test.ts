/** `signet/client` with the service's rotation: months on a test clock, real HTTP, secrets on disk. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { FileCredentialStore, parseCredential } from "#lib/client/file-credential-store.ts";
import type { Fetch, Warning } from "#lib/client/runtime.ts";
import { SignetClient } from "#lib/client/signet-client.ts";
import type { StoredCredential } from "#lib/client/succession.ts";
import { useTestApi } from "../support/api.ts";
import { answerOf } from "../support/child-answer.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { sql } from "../support/tenant.ts";

const DAY_MS = 86_400_000;
const PROGRAM = join(import.meta.dirname, "..", "integration", "client", "rotation-process.ts");

const api = useTestApi();
/** All secrets that were handed out; none may be in the log. */
const secrets = new Set<string>();
const warnings: Warning[] = [];
const running = new Set<ChildProcess>();

let credential: Provisioned;
let directory: string;
let path: string;

beforeEach(async () => {
  warnings.length = 0;
  directory = await mkdtemp(join(tmpdir(), "signet-rotation-"));
  credential = await provision(api, { environment: "production" });
  secrets.add(credential.clientSecret);
  path = await replica("credential.json");
});

afterEach(async () => {
  for (const child of running) {
    child.kill("SIGKILL");
  }
  await rm(directory, { recursive: true, force: true });
});

/** Creates a file with the credential as it was created. */
async function replica(name: string): Promise<string> {
  const file = join(directory, name);
  const { clientId, clientSecret } = credential;
  await writeFile(file, JSON.stringify({ client_id: clientId, client_secret: clientSecret, version: 1 }), {
    mode: 0o600,
  });
  return file;
}

const offers: string[] = [];

/** Records the successors in answers. */
const watching: Fetch = async (url, init) => {
  const response = await fetch(url, init);
  const body = (await response.clone().json()) as { credential_rotation?: { client_secret: string } };
  const offered = body.credential_rotation?.client_secret;
  if (offered !== undefined) {
    secrets.add(offered);
    offers.push(offered);
  }
  return response;
};

function start(file = path, through: Fetch = watching): SignetClient {
  return new SignetClient({
    baseUrl: api.publicUrl,
    store: new FileCredentialStore(file),
    clock: api.clock,
    fetch: through,
    sleep: async () => await Promise.resolve(),
    warn: (warning) => void warnings.push(warning),
  });
}

async function stored(file = path): Promise<StoredCredential> {
  return parseCredential(await readFile(file, "utf8"));
}

const versionsOf = async (file = path) => {
  const { current, next } = await stored(file);
  return [current.version, next?.version ?? null];
};

const states = async (): Promise<unknown[]> => {
  const text = "SELECT version, state FROM secret_versions WHERE credential_id = $1 ORDER BY version";
  return (await sql(api, text, [credential.credentialId])).map(({ state }) => state);
};

async function days(count: number): Promise<void> {
  api.clock.advance(count * DAY_MS);
  await Promise.resolve();
}

function child(mode: string) {
  const args = [PROGRAM, api.publicUrl, path, mode];
  const started = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  running.add(started);
  let output = "";
  started.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = once(started, "close").then(() => running.delete(started));
  return {
    says: async (line: string) => await answerOf(started, () => output.split("\n").includes(line), line),
    ended,
    output: () => output,
    kill: async () => {
      started.kill("SIGKILL");
      await ended;
    },
  };
}

async function runOnce(): Promise<string> {
  const process = child("once");
  await process.ended;
  return process.output();
}

test("a client rotates its secret for a year and is never rejected", async () => {
  const signet = start();
  for (let day = 0; day < 370; day += 1) {
    await signet.accessToken();
    await days(1);
  }
  expect((await stored()).current.version).toBe(12);
  expect(await states()).toHaveLength(12);
  expect(warnings).toEqual([]);
});

test("a successor whose answer was lost is sent again and takes over", async () => {
  await start().accessToken();
  await days(30);
  offers.length = 0;
  let lose = true;
  const lossy = start(path, async (url, init) => {
    const response = await watching(url, init);
    if (lose) {
      lose = false;
      throw new TypeError("fetch failed");
    }
    return response;
  });
  await lossy.accessToken();
  expect(offers).toHaveLength(2);
  expect(new Set(offers).size).toBe(1);
  await days(1);
  await lossy.accessToken();
  expect(await versionsOf()).toEqual([2, null]);
});

describe("a client killed with SIGKILL", () => {
  test("between receiving and storing gets the same successor again", async () => {
    await start().accessToken();
    await days(30);
    const process = child("before-save");
    await process.says("received");
    await process.kill();
    expect(await versionsOf()).toEqual([1, null]);
    expect(await states()).toEqual(["ACTIVE", "PENDING"]);
    expect(await runOnce()).toMatch(/^token /);
    expect(await versionsOf()).toEqual([1, 2]);
    expect(await states()).toEqual(["ACTIVE", "PENDING"]);
  });

  test("between storing and first use acknowledges the successor after a restart", async () => {
    await start().accessToken();
    await days(30);
    const process = child("after-save");
    await process.says("stored");
    await process.kill();
    expect(await versionsOf()).toEqual([1, 2]);
    expect(await runOnce()).toMatch(/^token /);
    expect(await versionsOf()).toEqual([2, null]);
    expect(await states()).toEqual(["RETIRING", "ACTIVE"]);
  });
});

test("two processes on one file get one successor, and both keep working", async () => {
  await start().accessToken();
  await days(30);
  expect(await Promise.all([runOnce(), runOnce()])).toEqual([
    expect.stringMatching(/^token /),
    expect.stringMatching(/^token /),
  ]);
  expect(await Promise.all([runOnce(), runOnce()])).toEqual([
    expect.stringMatching(/^token /),
    expect.stringMatching(/^token /),
  ]);
  expect(await versionsOf()).toEqual([2, null]);
  expect(await states()).toEqual(["RETIRING", "ACTIVE"]);
});

test("five replicas with separate disks each get the successor with their next token", async () => {
  const files = await Promise.all(
    [1, 2, 3, 4, 5].map(async (number) => await replica(`replica-${number}.json`)),
  );
  const replicas = files.map((file) => start(file));
  await Promise.all(replicas.map(async (signet) => await signet.accessToken()));
  await days(30);
  for (const signet of replicas) {
    await signet.accessToken();
    api.clock.advance(3_600_000);
  }
  await Promise.all(replicas.map(async (signet) => await signet.accessToken()));
  expect(await Promise.all(files.map(async (file) => await versionsOf(file)))).toEqual(
    files.map(() => [2, null]),
  );
  expect(await states()).toEqual(["RETIRING", "ACTIVE"]);
});

test("a disk restored from a backup within 24 quiet hours gets the successor again", async () => {
  const signet = start();
  await signet.accessToken();
  await days(30);
  await signet.accessToken();
  await days(1);
  await signet.accessToken();
  expect(await versionsOf()).toEqual([2, null]);
  path = await replica("credential.json");
  const restored = start();
  await restored.accessToken();
  expect(await versionsOf()).toEqual([1, 2]);
  api.clock.advance(3_600_000);
  await restored.accessToken();
  expect(await versionsOf()).toEqual([2, null]);
});

test("a client that was away for 40 days from day 29 keeps working", async () => {
  const signet = start();
  await signet.accessToken();
  await days(29.9);
  await signet.accessToken();
  await days(40);
  await signet.accessToken();
  await days(1);
  await signet.accessToken();
  expect(await versionsOf()).toEqual([2, null]);
});

test("a client that cannot write works with its first secret until the overlap ends, and warns with each token", async () => {
  const { clientId, clientSecret } = credential;
  const readOnly = new SignetClient({
    baseUrl: api.publicUrl,
    clientId,
    clientSecret,
    clock: api.clock,
    fetch: watching,
    warn: (warning) => void warnings.push(warning),
  });
  for (let day = 0; day < 75; day += 5) {
    await readOnly.accessToken();
    await days(5);
  }
  expect(new Set(warnings.map(({ code }) => code))).toEqual(new Set(["SUCCESSOR_NOT_STORED"]));
  await expect(readOnly.accessToken()).rejects.toMatchObject({ code: "INVALID_CLIENT" });
});

test("the service's log contains none of these secrets", () => {
  const log = api.log.join("");
  expect(log).toContain("/v1/auth/token");
  expect(secrets.size).toBeGreaterThan(20);
  expect([...secrets].filter((secret) => log.includes(secret))).toEqual([]);
});
