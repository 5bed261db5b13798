/** `signet grade` for local receivers, and for an endpoint through the service. */
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Environment } from "#config/config.ts";
import type { GradeReport } from "#webhooks/grader/grade.ts";
import { generateSecret } from "#lib/receiver/secret.ts";
import { useSharedApi } from "#test/support/api.ts";
import { type CommandRun, runSignet } from "#test/support/command-line.ts";
import {
  acceptByHand,
  acceptWithLibrary,
  type Handler,
  processing,
  startReceiver,
} from "#test/support/graded-receiver.ts";
import { createEndpoint, createTenant } from "#test/support/tenant.ts";

const api = useSharedApi({ worker: true });
const TIMEOUT_MS = 240_000;
const secret = generateSecret(randomBytes);
let directory: string;
let secretFile: string;
/** Settings of a tenant's command; empty unless a test sets them. */
let tenantSettings: Environment = {};

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-grade-"));
  secretFile = join(directory, "secret.txt");
  await writeFile(secretFile, `${secret}\n`, { mode: 0o600 });
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function signet(...line: readonly string[]): Promise<CommandRun> {
  const asTenant = { SIGNET_HOME: directory, SIGNET_CONFIG_DIR: directory, ...tenantSettings };
  return await runSignet(line, api.environment, { asTenant });
}

async function gradeHere(handle: Handler, ...options: readonly string[]): Promise<CommandRun> {
  const receiver = await startReceiver(handle);
  try {
    return await signet("grade", receiver.url, "--secret-file", secretFile, ...options);
  } finally {
    await receiver.close();
  }
}

describe("a receiver on loopback", () => {
  test(
    "that is correct gets full marks and exit code 0",
    async () => {
      const { code, stdout, stderr } = await gradeHere(processing(acceptWithLibrary(secret)), "--json");
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(JSON.parse(stdout) as GradeReport).toMatchObject({ score: 100, findings: [], not_observed: [] });
    },
    TIMEOUT_MS,
  );

  test(
    "that has a fault gets the fault and a fix, with exit code 1",
    async () => {
      const handle = processing(acceptByHand(secret, { checkHeaderTime: false }), { echo: false });
      const { code, stdout, stderr } = await gradeHere(handle);
      expect({ code, stderr }).toEqual({ code: 1, stderr: "signet: 1 finding.\n" });
      expect(stdout).toContain("score 60 of 100");
      expect(stdout).toContain("[timestamp_header_trusted: fresh_timestamp_header]");
      expect(stdout).toContain("sent_at");
      expect(stdout).toContain("not observed: duplicates_processed");
    },
    TIMEOUT_MS,
  );
});

test.each([
  "https://hooks.example.com/",
  "http://10.0.0.1/",
  "http://localhost:9000/",
  "http://127.0.0.1.example.com/",
])("%s is not graded locally, because its owner has not agreed", async (url) => {
  const { code, stderr } = await signet("grade", url, "--secret-file", secretFile);
  expect(code).toBe(2);
  expect(stderr).toContain("loopback");
});

test.each([
  [2, ["not a URL"], "neither a URL nor the id"],
  [2, ["https://hooks.example.com/", "--url", "https://signet.example"], "--credential-file"],
  [4, ["https://hooks.example.com/"], "signet login"],
  [4, ["http://127.0.0.1:9000/"], "signet login"],
])("%d for %j, naming what is missing", async (code, line, message) => {
  expect(await signet("grade", ...line)).toMatchObject({
    code,
    stderr: expect.stringContaining(message) as string,
  });
});

test(
  "the endpoint with the URL is graded by the service",
  async () => {
    let handle: Handler = () => ({ status: 500 });
    const receiver = await startReceiver((request) => handle(request));
    const tenant = await createTenant(api);
    const endpoint = await createEndpoint(api, tenant, { url: receiver.url });
    handle = processing(acceptWithLibrary(endpoint.secret));
    const credentialFile = join(directory, "credential.json");
    const { clientId, clientSecret } = tenant;
    await writeFile(
      credentialFile,
      JSON.stringify({ client_id: clientId, client_secret: clientSecret, version: 1 }),
      { mode: 0o600 },
    );
    const service = ["--url", api.publicUrl, "--credential-file", credentialFile];
    const graded = await signet("grade", receiver.url, ...service, "--json");
    tenantSettings = {
      SIGNET_API_URL: api.publicUrl,
      SIGNET_CLIENT_ID: clientId,
      SIGNET_CLIENT_SECRET: clientSecret,
    };
    const byProfile = await signet("grade", endpoint.id, "--json");
    const other = await signet("grade", `${receiver.url}/other`, ...service);
    await receiver.close();
    expect({ code: graded.code, stderr: graded.stderr }).toEqual({ code: 0, stderr: "" });
    expect(JSON.parse(graded.stdout) as GradeReport).toMatchObject({ score: 100, findings: [] });
    expect(other).toMatchObject({
      code: 3,
      stderr: expect.stringContaining("No endpoint has the URL") as string,
    });
    expect(byProfile).toMatchObject({ code: 0, stderr: "" });
    expect(JSON.parse(byProfile.stdout) as GradeReport).toMatchObject({ score: 100 });
  },
  TIMEOUT_MS,
);
