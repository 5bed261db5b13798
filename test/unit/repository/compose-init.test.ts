/** compose/init.sh: what it makes, what it leaves alone, and what it makes anew. */
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, expect, test, vi } from "vitest";

vi.setConfig({ testTimeout: 60_000 });
const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, "..", "..", "..", "compose", "init.sh");
const VOLUMES = ["ca", "keys", "api", "edge", "worker"] as const;
const RENEWED_BEFORE_MS = 30 * 86_400_000;

const directory = mkdtempSync(join(tmpdir(), "signet-init-"));
for (const volume of VOLUMES) {
  mkdirSync(join(directory, volume));
}
afterAll(() => rmSync(directory, { recursive: true }));

const path = (file: string): string => join(directory, file);
const text = (file: string): string => readFileSync(path(file), "utf8");
const certificate = (file: string): X509Certificate => new X509Certificate(text(file));

async function init(): Promise<void> {
  const volumes = VOLUMES.map((volume) => [`SIGNET_INIT_${volume.toUpperCase()}`, path(volume)]);
  await run("sh", [SCRIPT], {
    env: { PATH: process.env["PATH"], ...(Object.fromEntries(volumes) as Record<string, string>) },
  });
}

const FILES = [
  "api/clients-ca.crt",
  "api/operator-token",
  "api/proxies-ca.crt",
  "api/server.crt",
  "api/server.key",
  "edge/api-ca.crt",
  "edge/clients-ca.crt",
  "edge/edge.crt",
  "edge/edge.key",
  "edge/server.crt",
  "edge/server.key",
  "keys/kek",
  "keys/pepper",
  "worker/checkpoint-key",
] as const;

test("the first run makes everything, a second one changes nothing, a later one renews certificates alone", async () => {
  await init();
  const ca = certificate("ca/ca.crt");
  for (const [file, name] of [
    ["api/server.crt", "DNS:api"],
    ["edge/server.crt", "DNS:localhost"],
    ["edge/edge.crt", "URI:spiffe://signet.compose/edge"],
  ] as const) {
    const made = certificate(file);
    expect(made.verify(ca.publicKey)).toBe(true);
    expect(made.subjectAltName?.split(", ")).toContain(name);
    expect(Date.parse(made.validTo) - Date.now()).toBeGreaterThan(RENEWED_BEFORE_MS);
  }
  const first = FILES.map(text);
  await init();
  expect(FILES.map(text)).toEqual(first);

  // Somebody's own authority, and a certificate that ends too soon: the first stays, the second is replaced.
  writeFileSync(path("api/clients-ca.crt"), "own");
  const ending = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const out = ["-keyout", path("edge/edge.key"), "-out", path("edge/edge.crt")];
  await run("openssl", [...ending, ...out, "-days", "20", "-subj", "/CN=edge"]);
  const soon = certificate("edge/edge.crt");
  await init();
  expect(text("api/clients-ca.crt")).toBe("own");
  const renewed = certificate("edge/edge.crt");
  expect(renewed.serialNumber).not.toBe(soon.serialNumber);
  expect(renewed.verify(ca.publicKey)).toBe(true);
  const untouched = FILES.filter((file) => !/^edge\/edge\.|^api\/clients-ca/.test(file));
  expect(untouched.map(text)).toEqual(untouched.map((file) => first[FILES.indexOf(file)]));
});

test("a set-up of a version without an edge gets what the edge needs, and keeps its keys", async () => {
  const kept = ["ca/ca.crt", "api/server.crt", "api/clients-ca.crt", "keys/pepper", "keys/kek"] as const;
  const before = kept.map(text);
  rmSync(path("edge"), { recursive: true });
  mkdirSync(path("edge"));
  rmSync(path("api/proxies-ca.crt"));
  await init();
  expect(kept.map(text)).toEqual(before);
  expect(certificate("edge/edge.crt").verify(certificate("ca/ca.crt").publicKey)).toBe(true);
  expect(text("api/proxies-ca.crt")).toBe(text("ca/ca.crt"));
});
