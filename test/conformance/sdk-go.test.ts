/**
 * The Go SDK: its own tests with the shared vectors, and a program in a module of its own that requires it and uses a real
 * service.
 */
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto";
import { copyFile, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import type { KeyPair } from "#http/mutual-tls/authority.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { useTestApi } from "../support/api.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  x5t,
  mutualTlsSettings,
} from "../support/certificates.ts";
import { eventually } from "../support/eventually.ts";
import { accessToken, provision, type Provisioned } from "../support/factories.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess, spawnProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { asTenant, sql, WEBHOOK_SCOPES } from "../support/tenant.ts";
import { webhookSignatures } from "../vectors/cases.ts";

// The first run compiles Go's standard library.
allowMinutes(5);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const SDK = join(REPOSITORY, "sdk", "go");
const MONTH_MS = 31 * 86_400_000;
/** Without a network, and with the installed Go only. */
const GO = { ...process.env, GOTOOLCHAIN: "local", GOPROXY: "off", GOFLAGS: "-mod=mod", GOWORK: "off" };

const root = await newRoot();
const server = await serverPair(root);
const edge = `127.0.0.1:${await freePort()}`;

async function go(cwd: string, ...args: readonly string[]): Promise<string> {
  return await runProcess({ command: ["go", ...args], cwd, environment: GO });
}

const lacksGo = lacks("the Go SDK", "go version");

describe.skipIf(lacksGo)("the Go module", () => {
  test("is formatted, vetted, and needs no other module", async () => {
    expect(await runProcess({ command: ["gofmt", "-l", "."], cwd: SDK, environment: GO })).toBe("");
    await go(SDK, "vet", "./...");
    expect(await go(SDK, "list", "-m", "all")).toMatch(/^\S+\n$/);
  });

  test("passes its tests, with every vector", async () => {
    const output = await go(SDK, "test", "-count=1", "-v", "./...");
    expect(output).toContain(`${webhookSignatures().vectors.length} vectors`);
    expect(output).toContain("--- PASS: TestVectors");
    expect(output).not.toContain("--- SKIP");
  });
});

/** Builds the program in a directory of its own. */
async function buildProgram(): Promise<string> {
  const cwd = await mkdtemp(join(inject("runDirectory"), "sdk-go-"));
  const [, module = ""] = /^module (\S+)$/m.exec(await readFile(join(SDK, "go.mod"), "utf8")) ?? [];
  await copyFile(join(import.meta.dirname, "sdk-go", "main.go"), join(cwd, "main.go"));
  await go(cwd, "mod", "init", "shop");
  // As in the README.
  await go(cwd, "mod", "edit", "-require", `${module}@v0.0.0`);
  await go(cwd, "mod", "edit", "-replace", `${module}=${SDK}`);
  await go(cwd, "build", "-o", "shop", ".");
  return cwd;
}

async function runProgram(
  cwd: string,
  mode: string,
  environment: Readonly<Record<string, string>>,
): Promise<Readonly<Record<string, unknown>>> {
  const output = await runProcess({ command: ["./shop", mode], cwd, environment });
  return JSON.parse(output) as Record<string, unknown>;
}

describe.skipIf(lacksGo)("a program that requires the Go module", () => {
  const api = useTestApi({ worker: true });
  let client: Provisioned;
  let cwd: string;
  let credentialFile: string;

  beforeAll(async () => {
    client = await provision(api, {
      scopes: [...WEBHOOK_SCOPES, "ssf:read", "ssf:manage"],
      environment: "production",
    });
    cwd = await buildProgram();
    credentialFile = join(cwd, "credential.json");
    const { clientId, clientSecret } = client;
    const credential = { client_id: clientId, client_secret: clientSecret, version: 1 };
    await writeFile(credentialFile, JSON.stringify(credential), { mode: 0o600 });
  });

  async function run(mode: string): Promise<Readonly<Record<string, unknown>>> {
    return await runProgram(cwd, mode, { SIGNET_URL: api.publicUrl, CREDENTIAL_FILE: credentialFile });
  }

  test("publishes, receives and verifies, reads typed errors, and replays", async () => {
    const data = '{"amount":1.0,"big":1152921504606846976,"text":"<&>"}';
    const called = await run("call");
    const { endpoint, event } = called;
    expect(called).toEqual({
      endpoint: expect.stringMatching(/^ep_/) as string,
      event: expect.stringMatching(/^evt_/) as string,
      again: event,
      received: { id: event, type: "inference.completed", scheme: "v1", data },
      stored: data,
      delivery: expect.stringMatching(/^dlv_/) as string,
      attempts: 1,
      cycle: 2,
      batch: ["a.b", "VALIDATION_FAILED", 422],
      invalid: ["VALIDATION_FAILED", "/type"],
      forbidden: ["SCOPE_VIOLATION", "events:publish"],
      unknown: "INVALID_CLIENT",
      changed: ["changed", "null", false],
      listed: [endpoint],
      fingerprint: true,
      exported: true,
      letter: ["endpoint_disabled", 1, 1, 2, true],
      stream: ["changed", "paused", "maintenance", 1, 0],
      deleted: "NOT_FOUND",
      warnings: [],
    });
  });

  test("works like the examples", async () => {
    for (const name of ["publish", "receiver"]) {
      await go(SDK, "build", "-o", join(cwd, name), `./examples/${name}`);
    }
    const secret = generateSecret(randomBytes);
    const port = await freePort();
    const receiver = spawnProcess({
      command: ["./receiver"],
      cwd,
      environment: { SIGNET_WEBHOOK_SECRET: `${generateSecret(randomBytes)} ${secret}`, PORT: String(port) },
    });
    try {
      await useExamples({ url: `http://127.0.0.1:${port}/`, secret });
      await eventually(() => receiver.stdout().includes("inference.completed {"), "the received event");
    } finally {
      await receiver.stop();
    }
  });

  /** Runs the example that publishes, for an endpoint with the secret of the example that receives. */
  async function useExamples({ url, secret }: { readonly url: string; readonly secret: string }) {
    const tenant = asTenant(api, client, await accessToken(api, client));
    const { body } = await tenant.post("/v1/webhooks/endpoints", { url, events: ["inference.completed"] });
    const path = `/v1/webhooks/endpoints/${String(body["id"])}`;
    await tenant.post(`${path}/secret/rotate`, { secret, overlap_seconds: 0 });
    await tenant.post(`${path}/verify`);
    const isActive = async () => (await tenant.get(path)).body["state"] === "ACTIVE";
    await eventually(isActive, "the endpoint's verification");
    const output = await runProcess({
      command: ["./publish"],
      cwd,
      environment: { SIGNET_URL: api.publicUrl, SIGNET_CREDENTIAL_FILE: credentialFile },
    });
    expect(output).toMatch(/^evt_\S+\ndlv_\S+ [A-Z]+\n$/);
  }

  test("stores its successor when a rotation is due, and then uses it", async () => {
    api.clock.advance(MONTH_MS);
    expect(await run("rotate")).toEqual({ different: true, warnings: [] });
    const stored: unknown = JSON.parse(await readFile(credentialFile, "utf8"));
    expect(stored).toMatchObject({ client_id: client.clientId, current: { version: 2 }, next: null });
    const text = "SELECT version, state FROM secret_versions WHERE credential_id = $1 ORDER BY version";
    const versions = await sql(api, text, [client.credentialId]);
    expect(versions.map(({ state }) => state)).toEqual(["RETIRING", "ACTIVE"]);
  });
});

describe.skipIf(lacksGo)("a program without a secret", () => {
  const files = certificateFiles();
  const api = useTestApi({ environment: mutualTlsSettings(files, { listen: edge, server, root }) });
  afterAll(() => files.remove());

  interface Workload {
    readonly cwd: string;
    readonly clientId: string;
    readonly pair: KeyPair;
  }

  /** Builds the program, with a certificate and perhaps a key of its own. */
  async function prepare(by: string): Promise<Workload> {
    const cwd = await buildProgram();
    const pair = await clientPair(root);
    const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const jwks = { keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k1" }] };
    const { clientId } = await provision(api, {
      scopes: ["credentials:read"],
      credential: {
        certificate_thumbprints: [thumbprint(pair)],
        rotation_mode: "workload",
        ...(by === "private key" ? { jwks } : {}),
      },
    });
    await writeFile(join(cwd, "ca.pem"), root.cert);
    await writeFile(join(cwd, "client.pem"), pair.cert);
    await writeFile(join(cwd, "client.key"), pair.key, { mode: 0o600 });
    if (by === "private key") {
      await useKey(cwd, privateKey);
    }
    return { cwd, clientId, pair };
  }

  async function useKey(cwd: string, key: KeyObject): Promise<void> {
    await writeFile(join(cwd, "assertion.key"), key.export({ type: "pkcs8", format: "pem" }));
  }

  async function run({ cwd, clientId }: Workload): Promise<Readonly<Record<string, unknown>>> {
    return await runProgram(cwd, "workload", { SIGNET_URL: api.publicUrl, CLIENT_ID: clientId });
  }

  test.each(["certificate", "private key"])("authenticates by its %s, with bound tokens", async (by) => {
    const workload = await prepare(by);
    const called = await run(workload);
    expect(called).toMatchObject({ client: workload.clientId, warnings: [] });
    const [, claims = ""] = String(called["token"]).split(".");
    expect(JSON.parse(Buffer.from(claims, "base64url").toString())).toMatchObject({
      cnf: { "x5t#S256": x5t(workload.pair) },
    });
  });

  test("is rejected with another private key", async () => {
    const workload = await prepare("private key");
    await useKey(workload.cwd, generateKeyPairSync("ec", { namedCurve: "P-256" }).privateKey);
    await expect(run(workload)).rejects.toThrow("INVALID_CLIENT");
  });
});
