/** The agent serves tokens to local programs only, and shows the secret to nobody. */
import { mkdtemp, readFile, rename, rm, stat } from "node:fs/promises";
import { type IncomingHttpHeaders, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type Agent, startAgent } from "#cli/agent/agent.ts";
import { type AgentAddress, parseAgentAddress } from "#cli/agent/listen-address.ts";
import { FileCredentialStore, parseCredential } from "#lib/client/file-credential-store.ts";
import { connect } from "#lib/client/token-sources.ts";
import { type TestRuntime, testRuntime } from "#test/support/client-runtime.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

const SECRET = "a-secret-between-the-agent-and-its-callers";

let server: RotatingServer;
let runtime: TestRuntime;
let directory: string;
let credentialFile: string;
let agent: Agent;
const reports: string[] = [];

beforeEach(async () => {
  server = await startRotatingServer();
  runtime = testRuntime();
  directory = await mkdtemp(join(tmpdir(), "signet-agent-"));
  credentialFile = join(directory, "credential.json");
  await new FileCredentialStore(credentialFile).save({
    clientId: CLIENT_ID,
    current: { secret: secretOf(1), version: 1 },
    next: null,
  });
  reports.length = 0;
  agent = await start({ kind: "tcp", host: "127.0.0.1", port: 0 });
});

afterEach(async () => {
  await agent.close();
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

async function start(address: AgentAddress): Promise<Agent> {
  const store = new FileCredentialStore(credentialFile);
  const connection = connect({ baseUrl: server.url, store, retry: { attempts: 1 }, ...runtime });
  return await startAgent({ connection, address, secret: SECRET, report: (line) => void reports.push(line) });
}

interface Asked {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Readonly<Record<string, unknown>>;
}

interface Asking {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string | string[]>>;
  readonly socketPath?: string;
}

async function ask(path: string, { method = "GET", headers, socketPath }: Asking = {}): Promise<Asked> {
  const target =
    socketPath === undefined ? { host: "127.0.0.1", port: new URL(agent.address).port } : { socketPath };
  return await new Promise((resolve, reject) => {
    const outgoing = request(
      { ...target, path, method, headers: headers ?? { "x-signet-agent-secret": SECRET } },
      (response) => {
        text(response).then((body) => {
          const { statusCode: status = 0, headers: received } = response;
          resolve({ status, headers: received, body: JSON.parse(body) as Asked["body"] });
        }, reject);
      },
    );
    outgoing.once("error", reject);
    outgoing.end();
  });
}

describe("a local program", () => {
  test("gets a token with its scope and its remaining lifetime", async () => {
    const first = await ask("/token?scope=webhooks:read+events:publish");
    expect(first).toMatchObject({
      status: 200,
      headers: { "cache-control": "no-store", "content-type": "application/json" },
      body: {
        access_token: "token-1",
        token_type: "Bearer",
        expires_in: 900,
        scope: "events:publish webhooks:read",
      },
    });
    runtime.advance(60_000);
    const again = await ask("/token?scope=events:publish%20webhooks:read");
    expect(again.body).toMatchObject({ access_token: "token-1", expires_in: 840 });
    expect(server.tokenRequests).toHaveLength(1);
  });

  test("gets another token after a resource rejected the first", async () => {
    const { body } = await ask("/token");
    const headers = {
      "x-signet-agent-secret": SECRET,
      "x-signet-refused-token": String(body["access_token"]),
    };
    expect((await ask("/token", { headers })).body["access_token"]).toBe("token-2");
    expect((await ask("/token", { headers })).body["access_token"]).toBe("token-2");
  });

  test("needs to do nothing when the secret is rotated", async () => {
    server.rotation.due.add(1);
    await ask("/token?scope=a:b");
    await ask("/token?scope=c:d");
    server.rotation.valid.delete(1);
    expect((await ask("/token?scope=e:f")).status).toBe(200);
    expect(parseCredential(await readFile(credentialFile, "utf8"))).toEqual({
      clientId: CLIENT_ID,
      current: { secret: secretOf(2), version: 2 },
      next: null,
    });
  });

  test("never gets the secret, whatever fails", async () => {
    const answers = [await ask("/token"), await ask("/healthz"), await ask("/credential.json")];
    server.rotation.valid.clear();
    runtime.advance(3_600_000);
    answers.push(await ask("/token"), await ask("/healthz"));
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 404, 502, 503]);
    expect(JSON.stringify([answers, reports])).not.toContain("canary");
    expect(reports.join()).toContain("INVALID_CLIENT");
  });

  test.each([
    ["400", { status: 400, body: { error: "invalid_scope", code: "INVALID_SCOPE" } }, 400, "INVALID_SCOPE"],
    ["429", { status: 429, body: { code: "RATE_LIMITED" } }, 503, "RATE_LIMITED"],
    ["503", { status: 503, body: { code: "UNAVAILABLE" } }, 503, "UNAVAILABLE"],
    ["502 of a proxy", { status: 502, body: "<html>" }, 503, "HTTP_502"],
  ])("learns of the service's %s", async (_name, incident, status, code) => {
    server.incidents.push({ kind: "answer", ...incident });
    expect(await ask("/token")).toMatchObject({ status, body: { code } });
  });

  test("gets an error when the service is unavailable", async () => {
    await server.close();
    expect(await ask("/token")).toMatchObject({
      status: 503,
      headers: { "retry-after": "1" },
      body: { code: "UNAVAILABLE" },
    });
    expect((await ask("/healthz")).status).toBe(503);
    server = await startRotatingServer();
  });

  test.each(["/token?scope=%22", "/token?scope=a:b&audience=x", `/token?scope=${"x".repeat(200)}`])(
    "cannot use %s",
    async (path) => {
      expect(await ask(path)).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
    },
  );

  test("gets 405 for other methods", async () => {
    expect(await ask("/token", { method: "POST" })).toMatchObject({ status: 405, headers: { allow: "GET" } });
  });
});

describe("any other caller", () => {
  const secret = { "x-signet-agent-secret": SECRET };

  test.each([
    ["no secret", {}, 401],
    ["a wrong secret", { "x-signet-agent-secret": `${SECRET}x` }, 401],
    ["the secret twice", { "x-signet-agent-secret": [SECRET, SECRET] }, 401],
    ["a name rebound to loopback", { ...secret, host: "attacker.example" }, 403],
    ["another port in the Host", { ...secret, host: "127.0.0.1:1" }, 403],
    ["the Origin of a page", { ...secret, origin: "https://attacker.example" }, 403],
    ["a browser's header", { ...secret, "sec-fetch-site": "cross-site" }, 403],
    ["a proxy's header", { ...secret, "x-forwarded-for": "198.51.100.1" }, 403],
  ])("with %s gets no token", async (_name, headers, status) => {
    expect((await ask("/token", { headers })).status).toBe(status);
    expect(server.tokenRequests).toHaveLength(0);
  });

  test("can read the health status and nothing else", async () => {
    expect((await ask("/healthz", { headers: {} })).body).toEqual({ status: "ok" });
    expect((await ask("/healthz", { headers: { host: "attacker.example" } })).status).toBe(403);
  });
});

describe("a unix socket", () => {
  test("is its owner's alone, needs no secret, and replaces one that a killed agent left", async () => {
    const path = join(directory, "agent.sock");
    const first = await start({ kind: "unix", path });
    expect(first.address).toBe(`unix:${path}`);
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await ask("/token", { socketPath: path, headers: {} })).body).toMatchObject({
      token_type: "Bearer",
    });
    await expect(start({ kind: "unix", path })).rejects.toThrow(/EADDRINUSE/);
    // Moved aside while its owner exits and removes it: the socket that remains has no listener.
    await rename(path, `${path}.aside`);
    await first.close();
    await rename(`${path}.aside`, path);
    const second = await start({ kind: "unix", path });
    expect((await ask("/token", { socketPath: path, headers: {} })).status).toBe(200);
    await second.close();
  });
});

describe("an address", () => {
  test.each([
    ["127.0.0.1:8085", { kind: "tcp", host: "127.0.0.1", port: 8085 }],
    ["127.9.9.9:1", { kind: "tcp", host: "127.9.9.9", port: 1 }],
    ["[::1]:8085", { kind: "tcp", host: "::1", port: 8085 }],
    ["unix:/run/agent.sock", { kind: "unix", path: "/run/agent.sock" }],
  ])("%s is this machine", (address, parsed) => {
    expect(parseAgentAddress(address)).toEqual(parsed);
  });

  test.each([
    "0.0.0.0:8085",
    "[::]:8085",
    "10.0.0.1:8085",
    "192.168.1.1:8085",
    "[::ffff:127.0.0.1]:8085",
    "127.0.0.1.example.com:8085",
    "localhost:8085",
    "127.1:8085",
    "8085",
    "unix:relative.sock",
    `unix:/${"x".repeat(200)}`,
  ])("%s is rejected", (address) => {
    expect(() => parseAgentAddress(address)).toThrow(Error);
  });
});
