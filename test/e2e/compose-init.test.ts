/** compose/init.sh: what it creates, keeps and renews. */
// Import before the library of certificates.
import "reflect-metadata";
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { promisify } from "node:util";
import { X509Certificate as ParsedCertificate } from "@peculiar/x509";
import { afterAll, expect, test } from "vitest";
import { openDevelopmentCa } from "#http/mutual-tls/dev-ca.ts";

const run = promisify(execFile);
const SCRIPT = join(import.meta.dirname, "..", "..", "compose", "init.sh");
const VOLUMES = [
  "ca",
  "keys",
  "api",
  "edge",
  "hub",
  "lease",
  "worker",
  "config",
  "initdb",
  "trust",
  "postgres",
  "temporal",
  "temporal-ui",
] as const;
const RENEWED_BEFORE_MS = 30 * 86_400_000;

const directory = mkdtempSync(join(tmpdir(), "signet-init-"));
for (const volume of VOLUMES) {
  mkdirSync(join(directory, volume));
}
afterAll(() => rmSync(directory, { recursive: true }));

const path = (file: string): string => join(directory, file);
const text = (file: string): string => readFileSync(path(file), "utf8");
const certificate = (file: string): X509Certificate => new X509Certificate(text(file));

async function init(...words: readonly string[]): Promise<string> {
  return await initIn(directory, words);
}

async function initIn(
  parent: string,
  words: readonly string[] = [],
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const volumes = VOLUMES.map((volume) => [
    `SIGNET_INIT_${volume.toUpperCase().replace("-", "_")}`,
    join(parent, volume),
  ]);
  const { stdout } = await run("sh", [SCRIPT, ...words], {
    env: { PATH: process.env["PATH"], ...(Object.fromEntries(volumes) as Record<string, string>), ...more },
  });
  return stdout;
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
  "edge/hubs-ca.crt",
  "edge/server.crt",
  "edge/server.key",
  "hub/hub.crt",
  "hub/hub.key",
  "hub/hubs-ca.crt",
  "keys/kek",
  "keys/pepper",
  "keys/temporal.crt",
  "keys/temporal.key",
  "lease/lease-key",
  "postgres/server.crt",
  "postgres/server.key",
  "temporal/server.crt",
  "temporal/server.key",
  "temporal-ui/temporal.crt",
  "temporal-ui/temporal.key",
  "trust/internal-ca.crt",
  "worker/checkpoint-key",
] as const;

const [SERVER, CLIENT] = ["1.3.6.1.5.5.7.3.1", "1.3.6.1.5.5.7.3.2"];
/** Certificates that identify PostgreSQL and Temporal or give access to Temporal. */
const INTERNAL = [
  ["postgres/server.crt", "DNS:postgres", [SERVER]],
  ["temporal/server.crt", "DNS:temporal", [SERVER, CLIENT]],
  ["keys/temporal.crt", "URI:spiffe://signet.compose/temporal/signet", [CLIENT]],
  ["temporal-ui/temporal.crt", "URI:spiffe://signet.compose/temporal/ui", [CLIENT]],
] as const;

test("the first run creates everything, a second one changes nothing, a later one renews only certificates", async () => {
  await init();
  const ca = certificate("ca/ca.crt");
  for (const [file, name] of [
    ["api/server.crt", "DNS:api"],
    ["edge/server.crt", "DNS:localhost"],
    ["edge/edge.crt", "URI:spiffe://signet.compose/edge"],
    ["hub/hub.crt", "URI:spiffe://signet.compose/hub"],
  ] as const) {
    const made = certificate(file);
    expect(made.verify(ca.publicKey)).toBe(true);
    expect(made.subjectAltName?.split(", ")).toContain(name);
    expect(Date.parse(made.validTo) - Date.now()).toBeGreaterThan(RENEWED_BEFORE_MS);
  }
  const internal = certificate("trust/internal-ca.crt");
  for (const [file, name, purposes] of INTERNAL) {
    const made = certificate(file);
    expect(made.verify(internal.publicKey), file).toBe(true);
    expect(made.verify(ca.publicKey), file).toBe(false);
    expect(made.subjectAltName?.split(", ")).toContain(name);
    expect(made.keyUsage).toEqual(purposes);
  }
  const first = FILES.map(text);
  await init();
  expect(FILES.map(text)).toEqual(first);

  // A custom authority, and a certificate that ends too soon: the first stays, the second is replaced.
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

test("a set-up from a version without an edge and hubs gets their files, and keeps its keys", async () => {
  const kept = ["ca/ca.crt", "api/server.crt", "api/clients-ca.crt", "keys/pepper", "keys/kek"] as const;
  const before = kept.map(text);
  for (const volume of ["edge", "hub", "lease"]) {
    rmSync(path(volume), { recursive: true });
    mkdirSync(path(volume));
  }
  rmSync(path("api/proxies-ca.crt"));
  await init();
  expect(kept.map(text)).toEqual(before);
  expect(certificate("edge/edge.crt").verify(certificate("ca/ca.crt").publicKey)).toBe(true);
  expect(text("api/proxies-ca.crt")).toBe(text("ca/ca.crt"));
  expect(certificate("hub/hub.crt").keyUsage).toEqual([SERVER, CLIENT]);
  expect(Buffer.from(text("lease/lease-key"), "base64")).toHaveLength(32);
});

test("a set-up from a version without internal TLS gets its files, and keeps its keys", async () => {
  const kept = FILES.filter((file) => !/internal-ca|postgres\/|temporal/.test(file));
  const before = kept.map(text);
  const inside = ["trust", "postgres", "temporal", "temporal-ui"].map((volume) => path(volume));
  for (const volume of inside) {
    rmSync(volume, { recursive: true });
    mkdirSync(volume);
  }
  for (const file of ["ca/internal.crt", "ca/internal.key", "keys/temporal.crt", "keys/temporal.key"]) {
    rmSync(path(file));
  }
  await init();
  expect(kept.map(text)).toEqual(before);
  expect(certificate("postgres/server.crt").verify(certificate("ca/internal.crt").publicKey)).toBe(true);
});

test("a second cell gets keys of its own, and certificates with its names from the same authorities", async () => {
  const files = FILES.filter((file) => /^(api|keys|worker|postgres|temporal)\//.test(file));
  const own = files.filter((file) => file !== "api/proxies-ca.crt");
  const home = files.map(text);
  const cell = mkdtempSync(join(tmpdir(), "signet-init-"));
  try {
    for (const volume of new Set(own.map((file) => file.replace(/\/.*/, "")))) {
      mkdirSync(join(cell, volume));
    }
    const shared = { SIGNET_INIT_CA: path("ca"), SIGNET_INIT_TRUST: path("trust") };
    await initIn(cell, [], { ...shared, SIGNET_INIT_CELL: "us" });
    expect(files.map(text)).toEqual(home);
    const made = readdirSync(cell, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map(({ parentPath, name }) => join(relative(cell, parentPath), name));
    expect(made.toSorted()).toEqual(own);
    const same = own.filter((file) => readFileSync(join(cell, file), "utf8") === text(file));
    expect(same).toEqual([]);
    expect(readFileSync(join(cell, "api/clients-ca.crt"), "utf8")).toBe(text("ca/ca.crt"));
    for (const [file, name, authority] of [
      ["api/server.crt", "DNS:api-us", "ca"],
      ["postgres/server.crt", "DNS:postgres-us", "internal"],
      ["temporal/server.crt", "DNS:temporal-us", "internal"],
      ["keys/temporal.crt", "URI:spiffe://signet.compose/temporal/signet-us", "internal"],
    ] as const) {
      const issued = new X509Certificate(readFileSync(join(cell, file)));
      expect(issued.verify(certificate(`ca/${authority}.crt`).publicKey), file).toBe(true);
      expect(issued.subjectAltName?.split(", ")[0]).toBe(name);
    }
  } finally {
    rmSync(cell, { recursive: true });
  }
});

test("others can read only public certificates and configuration, and each key has its reader", () => {
  const open = ["trust", "config", "initdb"];
  for (const volume of VOLUMES) {
    for (const name of readdirSync(path(volume), { recursive: true, encoding: "utf8" })) {
      const found = statSync(path(`${volume}/${name}`));
      const mode = found.isDirectory() ? 0o755 : open.includes(volume) ? 0o644 : 0o600;
      expect(found.mode & 0o777, `${volume}/${name}`).toBe(mode);
    }
  }
  // As root the job gives the files to the users of the images; otherwise they keep the caller's user.
  const root = process.getuid?.() === 0;
  const owners = {
    keys: 1000,
    api: 1000,
    edge: 1000,
    hub: 1000,
    lease: 1000,
    worker: 1000,
    temporal: 1000,
    postgres: 999,
    "temporal-ui": 1000,
  };
  for (const [volume, uid] of Object.entries({ ...owners, ca: 0, trust: 0 })) {
    for (const file of readdirSync(path(volume), { withFileTypes: true })) {
      const found = statSync(path(`${volume}/${file.name}`)).uid;
      expect(found, `${volume}/${file.name}`).toBe(root ? uid : process.getuid?.());
    }
  }
});

test("Temporal's clients have a certificate of the internal CA, and a tenant's client does not", async () => {
  const [operator, client] = [await init("temporal", "anna"), await init("client", "example")];
  const [internal, ca] = [await init("internal-ca"), await init("ca")];
  const leads = (leaf: string, root: string): boolean =>
    new X509Certificate(leaf).verify(new X509Certificate(root).publicKey);
  expect([leads(operator, internal), leads(operator, ca)]).toEqual([true, false]);
  expect([leads(client, internal), leads(client, ca)]).toEqual([false, true]);
  expect(new X509Certificate(operator).subjectAltName).toBe("URI:spiffe://signet.compose/temporal/anna");
  await expect(init("temporal", "a,URI:x")).rejects.toThrow(/a client's name is/);
});

/** Returns the form of a certificate: extensions, days and kind of key. */
function form(pem: string): unknown {
  const { extensions, notBefore, notAfter, publicKey } = new ParsedCertificate(pem);
  return {
    extensions: extensions.map(({ type, critical }) => `${type} ${String(critical)}`).toSorted(),
    usages: new X509Certificate(pem).keyUsage,
    days: Math.round((notAfter.getTime() - notBefore.getTime() - 3_600_000) / 86_400_000),
    algorithm: publicKey.algorithm,
  };
}

test("it and `signet dev-ca` make the same certificates, and continue each other's directory", async () => {
  const ca = text("ca/ca.crt");
  const own = await openDevelopmentCa({ directory: path("ca"), nowMs: Date.now() });
  expect(text("ca/ca.crt")).toBe(ca);
  const client = await own.client("ada", "spiffe://signet.development/ada");
  await run("openssl", ["verify", "-x509_strict", "-CAfile", own.caFile, client.certFile]);
  const issued = (await init("client", "ada")).replace(/^[\s\S]*(?=-----BEGIN CERTIFICATE)/, "");
  expect(form(readFileSync(client.certFile, "utf8"))).toEqual(form(issued));

  const other = mkdtempSync(join(tmpdir(), "signet-init-"));
  try {
    for (const volume of VOLUMES) {
      mkdirSync(join(other, volume));
    }
    const { caFile } = await openDevelopmentCa({ directory: join(other, "ca"), nowMs: Date.now() });
    const made = readFileSync(caFile, "utf8");
    await initIn(other);
    expect(readFileSync(caFile, "utf8")).toBe(made);
    expect(form(made)).toEqual(form(ca));
    await run("openssl", ["verify", "-x509_strict", "-CAfile", caFile, join(other, "edge", "edge.crt")]);
  } finally {
    rmSync(other, { recursive: true });
  }
});
