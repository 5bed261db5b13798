import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigError, loadConfig } from "#config/config.ts";
import { readOrCreateKey } from "#crypto/development-keys.ts";
import { loadOperatorToken, loadServiceSecrets } from "#crypto/service-secrets.ts";
import { SimulatedTime } from "#test/support/simulated-time.ts";

const time = new SimulatedTime();

let home: string;
beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), "signet-secrets-"));
});
afterEach(async () => {
  await rm(home, { recursive: true });
});

const settings = (more: object) => ({
  home,
  development: true,
  pepper: undefined,
  previousPeppers: [],
  kek: undefined,
  previousKeks: [],
  kekFile: undefined,
  kmsKek: undefined,
  previousKmsKeks: [],
  operatorToken: undefined,
  ...more,
});

test("processes that start together agree on one key, and leave no other files", async () => {
  const keys = await Promise.all(
    Array.from({ length: 20 }, async () => await readOrCreateKey(home, "kek", randomBytes)),
  );
  expect(new Set(keys).size).toBe(1);
  expect(await readdir(home)).toEqual(["kek"]);
});

test("only its owner can read a key file", async () => {
  await readOrCreateKey(home, "kek", randomBytes);
  expect((await stat(join(home, "kek"))).mode & 0o777).toBe(0o600);
});

/** Returns what the loaded secrets compute, since they cannot be read. */
async function load(more: object): Promise<{ readonly mac: string; readonly kekId: string }> {
  const { pepper, keyring } = await loadServiceSecrets(settings(more), randomBytes, time);
  return { mac: pepper.mac("secret").toString("hex"), kekId: await keyring.kekId() };
}

test("development creates its secrets once and keeps them", async () => {
  const first = await load({});
  const token = await loadOperatorToken(settings({}), randomBytes);
  expect(await load({})).toEqual(first);
  expect(await loadOperatorToken(settings({}), randomBytes)).toBe(token);
  expect((await readFile(join(home, "operator-token"), "utf8")).trim()).toBe(token);
  const [pepper, kek] = await Promise.all(
    ["pepper", "kek"].map(async (name) => await readFile(join(home, name), "utf8")),
  );
  expect(pepper).not.toEqual(kek);
});

test("settings take precedence over generated secrets", async () => {
  const given = { pepper: randomBytes(32), kek: randomBytes(32) };
  expect(await load(given)).toEqual(await load({ ...given, development: false }));
  expect(await loadOperatorToken(settings({ operatorToken: "given" }), randomBytes)).toBe("given");
  expect(await readdir(home)).toEqual([]);
});

test("a key file holds the key-encryption keys, and its errors do not show the content", async () => {
  const kek = randomBytes(32);
  const kekFile = join(home, "keks");
  await writeFile(kekFile, `# newest first\n${kek.toString("base64")}\n\n`);
  const given = { pepper: randomBytes(32) };
  expect((await load({ ...given, kekFile })).kekId).toBe((await load({ ...given, kek })).kekId);
  for (const [content, problem] of [
    ["", /contains no key/],
    [`${kek.toString("base64")}\nc2hvcnQ=\n`, /line 2: a key must be at least 32 bytes/],
    ["not base64 at all, not at all, not at all", /line 1/],
  ] as const) {
    await writeFile(kekFile, content);
    const refused = load({ ...given, kekFile });
    await expect(refused).rejects.toThrow(problem);
    await expect(refused).rejects.not.toThrow(/c2hvcnQ|at all/);
  }
});

test("production generates no secrets", async () => {
  const production = settings({ development: false });
  await expect(loadServiceSecrets(production, randomBytes, time)).rejects.toThrow(ConfigError);
  await expect(loadOperatorToken(production, randomBytes)).rejects.toThrow(ConfigError);
  expect(await readdir(home)).toEqual([]);
});

test("a key in Google Cloud KMS without credentials stops the start with a message", async () => {
  const before = process.env["GOOGLE_APPLICATION_CREDENTIALS"];
  process.env["GOOGLE_APPLICATION_CREDENTIALS"] = join(home, "missing.json");
  const { kmsKek } = loadConfig({
    SIGNET_ENV: "development",
    SIGNET_KEK_KMS: "projects/p/locations/global/keyRings/r/cryptoKeys/k",
  });
  const loading = loadServiceSecrets(settings({ kmsKek }), randomBytes, time);
  await expect(loading).rejects.toThrow(/SIGNET_KEK_KMS cannot be used: .*missing\.json/);
  if (before === undefined) {
    delete process.env["GOOGLE_APPLICATION_CREDENTIALS"];
  } else {
    process.env["GOOGLE_APPLICATION_CREDENTIALS"] = before;
  }
});
