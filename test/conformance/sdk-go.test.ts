/**
 * The Go SDK: its own tests with the shared vectors, and a program in a module of its own that requires it and uses a real
 * service.
 */
import { spawnSync } from "node:child_process";
import { copyFile, mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess } from "../support/processes.ts";
import { skipUnless } from "../support/skips.ts";
import { sql, WEBHOOK_SCOPES } from "../support/tenant.ts";
import { webhookSignatures } from "../vectors/cases.ts";

// The first run compiles Go's standard library.
allowMinutes(5);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const SDK = join(REPOSITORY, "sdk", "go");
const MONTH_MS = 31 * 86_400_000;
/** Without a network, and with the installed Go only. */
const GO = { ...process.env, GOTOOLCHAIN: "local", GOPROXY: "off", GOFLAGS: "-mod=mod", GOWORK: "off" };

async function go(cwd: string, ...args: readonly string[]): Promise<string> {
  return await runProcess({ command: ["go", ...args], cwd, environment: GO });
}

const found = spawnSync("go", ["version"]);
const lacksGo = skipUnless(found.status === 0, "the Go SDK", "go is not on PATH");

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

describe.skipIf(lacksGo)("a program that requires the Go module", () => {
  const api = useTestApi({ worker: true });
  let client: Provisioned;
  let cwd: string;
  let credentialFile: string;

  beforeAll(async () => {
    client = await provision(api, { scopes: WEBHOOK_SCOPES, environment: "production" });
    cwd = await mkdtemp(join(inject("runDirectory"), "sdk-go-"));
    credentialFile = join(cwd, "credential.json");
    const { clientId, clientSecret } = client;
    const credential = { client_id: clientId, client_secret: clientSecret, version: 1 };
    await writeFile(credentialFile, JSON.stringify(credential), { mode: 0o600 });
    const [, module = ""] = /^module (\S+)$/m.exec(await readFile(join(SDK, "go.mod"), "utf8")) ?? [];
    await copyFile(join(import.meta.dirname, "sdk-go", "main.go"), join(cwd, "main.go"));
    await writeFile(
      join(cwd, "go.mod"),
      `module shop\n\ngo 1.23\n\nrequire ${module} v0.0.0\n\nreplace ${module} => ${SDK}\n`,
    );
    await go(cwd, "build", "-o", "shop", ".");
  });

  async function run(mode: string): Promise<Readonly<Record<string, unknown>>> {
    const environment = { SIGNET_URL: api.publicUrl, CREDENTIAL_FILE: credentialFile };
    const output = await runProcess({ command: ["./shop", mode], cwd, environment });
    return JSON.parse(output) as Record<string, unknown>;
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
      letter: ["endpoint_disabled", 1, 2, true],
      deleted: "NOT_FOUND",
      warnings: [],
    });
  });

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
