import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ConfigError } from "../../../src/config.ts";
import { readOrCreateKey } from "../../../src/crypto/development-keys.ts";
import { loadOperatorToken, loadServiceSecrets } from "../../../src/crypto/secrets.ts";

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
  kek: undefined,
  operatorToken: undefined,
  ...more,
});

test("starters at the same moment agree on one key, and leave nothing else behind", async () => {
  const keys = await Promise.all(
    Array.from({ length: 20 }, async () => await readOrCreateKey(home, "kek", randomBytes)),
  );
  expect(new Set(keys).size).toBe(1);
  expect(await readdir(home)).toEqual(["kek"]);
});

test("a key file can be read by its owner only", async () => {
  await readOrCreateKey(home, "kek", randomBytes);
  expect((await stat(join(home, "kek"))).mode & 0o777).toBe(0o600);
});

test("development makes its secrets once and keeps them", async () => {
  const first = await loadServiceSecrets(settings({}), randomBytes);
  const token = await loadOperatorToken(settings({}), randomBytes);
  expect(await loadServiceSecrets(settings({}), randomBytes)).toEqual(first);
  expect(await loadOperatorToken(settings({}), randomBytes)).toBe(token);
  expect((await readFile(join(home, "operator-token"), "utf8")).trim()).toBe(token);
  expect([first.pepper.length, first.kek.length]).toEqual([32, 32]);
  expect(first.pepper).not.toEqual(first.kek);
});

test("settings win over what development would make", async () => {
  const pepper = randomBytes(32);
  const kek = randomBytes(32);
  expect(await loadServiceSecrets(settings({ pepper, kek }), randomBytes)).toEqual({ pepper, kek });
  expect(await loadOperatorToken(settings({ operatorToken: "given" }), randomBytes)).toBe("given");
  expect(await readdir(home)).toEqual([]);
});

test("production makes nothing up", async () => {
  const production = settings({ development: false });
  await expect(loadServiceSecrets(production, randomBytes)).rejects.toThrow(ConfigError);
  await expect(loadOperatorToken(production, randomBytes)).rejects.toThrow(ConfigError);
  expect(await readdir(home)).toEqual([]);
});
