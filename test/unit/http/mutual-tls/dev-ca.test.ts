import { X509Certificate } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { runCommandLine } from "#cli/program.ts";
import { loadOperatorSettings } from "#config/config.ts";
import { openDevelopmentCa } from "#http/mutual-tls/dev-ca.ts";
import { readTrustAnchors } from "#http/mutual-tls/trust.ts";

const DAY_MS = 86_400_000;
let home: string;
let output: string;

beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "signet-dev-ca-"));
  output = "";
});
afterEach(() => rmSync(home, { recursive: true }));

async function signet(...argv: string[]): Promise<number> {
  return await runCommandLine(argv, {
    settings: () => loadOperatorSettings({ SIGNET_HOME: home }),
    stdout: (text) => (output += text),
    stderr: (text) => (output += text),
    fetch,
  });
}

const directory = () => join(home, "dev-ca");
const certificate = (name: string) => new X509Certificate(readFileSync(join(directory(), name)));

test("init and issue create files that only their owner can read", async () => {
  expect(await signet("dev-ca", "init")).toBe(0);
  expect(await signet("dev-ca", "issue", "billing")).toBe(0);
  const names = readdirSync(directory()).toSorted();
  expect(names).toEqual(["billing.crt", "billing.key", "ca.crt", "ca.key", "server.crt", "server.key"]);
  expect(names.map((name) => statSync(join(directory(), name)).mode & 0o777)).toEqual(names.map(() => 0o600));
  expect(statSync(directory()).mode & 0o777).toBe(0o700);
});

test("an issued certificate is the authority's, for clients, with the requested SPIFFE id", async () => {
  await signet("dev-ca", "issue", "billing", "--san-uri", "spiffe://example.test/billing", "--json");
  const client = certificate("billing.crt");
  expect(client.verify(certificate("ca.crt").publicKey)).toBe(true);
  expect(client.subjectAltName).toBe("URI:spiffe://example.test/billing");
  expect(client.keyUsage).toEqual(["1.3.6.1.5.5.7.3.2"]);
  expect(client.ca).toBe(false);
  expect(JSON.parse(output)).toMatchObject({
    san_uri: "spiffe://example.test/billing",
    certificate_thumbprint: client.fingerprint256.replaceAll(":", "").toLowerCase(),
  });
});

test("a second run changes nothing until a certificate is about to expire", async () => {
  const nowMs = 1_763_650_000_000;
  const made = async (atMs: number) => {
    const ca = await openDevelopmentCa({ directory: directory(), nowMs: atMs });
    const { thumbprint } = await ca.client("billing", "spiffe://example.test/billing");
    return [certificate("ca.crt"), certificate("server.crt")]
      .map((one) => one.fingerprint256)
      .concat(thumbprint);
  };
  const first = await made(nowMs);
  expect(await made(nowMs + 300 * DAY_MS)).toEqual(first);
  const later = await made(nowMs + 380 * DAY_MS);
  expect(later[0]).toBe(first[0]);
  expect(later[1]).not.toBe(first[1]);
  expect(later[2]).not.toBe(first[2]);
});

test.each([["ca"], ["server"], ["../x"], ["A"], [""]])("%j is not a client name", async (name) => {
  expect(await signet("dev-ca", "issue", name)).toBe(2);
});

test("production neither creates such an authority nor trusts it", async () => {
  await signet("dev-ca", "init");
  const before = readdirSync(directory());
  const code = await runCommandLine(["dev-ca", "issue", "billing"], {
    settings: () => loadOperatorSettings({ SIGNET_HOME: home, SIGNET_ENV: "production" }),
    stdout: () => undefined,
    stderr: (text) => (output += text),
    fetch,
  });
  expect(code).toBe(1);
  expect(output).toContain("not for production");
  expect(readdirSync(directory())).toEqual(before);
  const path = join(directory(), "ca.crt");
  expect((await readTrustAnchors(path, { development: true })).certificates).toHaveLength(1);
  await expect(readTrustAnchors(path, { development: false })).rejects.toThrow(/development CA/);
});

test("only authorities are trusted", async () => {
  await signet("dev-ca", "init");
  await expect(readTrustAnchors(join(directory(), "server.crt"), { development: true })).rejects.toThrow(
    /must contain only CA certificates/,
  );
  await expect(readTrustAnchors(join(directory(), "ca.key"), { development: true })).rejects.toThrow(
    /must contain only CA certificates/,
  );
  await expect(readTrustAnchors(join(directory(), "nothing"), { development: true })).rejects.toThrow(
    /cannot be read/,
  );
});
