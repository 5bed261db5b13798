import { randomBytes } from "node:crypto";
import { chmod, mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { readLocalSecret } from "#cli/agent/local-secret.ts";
import { readOrCreateKey } from "#crypto/development-keys.ts";
import { writeOnce } from "#runtime/write-once.ts";

const WRITERS = 30;
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-once-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true });
});

describe("a file that is written once", () => {
  test("is the first writer's, complete, with its permissions, and nothing else remains", async () => {
    const path = join(directory, "deep", "file");
    const contents = Array.from({ length: WRITERS }, (_, n) => `${String(n)}\n`.repeat(10_000));
    const wrote = await Promise.all(
      contents.map(async (content) => await writeOnce(path, content, { mode: 0o640, randomBytes })),
    );
    expect(wrote.filter(Boolean)).toHaveLength(1);
    expect(await readFile(path, "utf8")).toBe(contents[wrote.indexOf(true)]);
    expect((await stat(path)).mode & 0o777).toBe(0o640);
    expect(await readdir(join(directory, "deep"))).toEqual(["file"]);
    expect(await writeOnce(path, "later", { mode: 0o640, randomBytes })).toBe(false);
  });

  test("leaves nothing behind when it cannot be written", async () => {
    const write = writeOnce(join(directory, "x".repeat(300)), "a", { mode: 0o600, randomBytes });
    await expect(write).rejects.toThrow(/ENAMETOOLONG/);
    expect(await readdir(directory)).toEqual([]);
  });
});

test.each([
  ["agents", async (path: string) => await readLocalSecret(path)],
  ["processes", async () => await readOrCreateKey(directory, "key", randomBytes)],
])("%s that start together have one secret, and none reads half of it", async (_who, read) => {
  const path = join(directory, "secret");
  const secrets = await Promise.all(Array.from({ length: WRITERS }, async () => await read(path)));
  expect(new Set(secrets).size).toBe(1);
  expect(secrets[0]).toMatch(/^[\w-]{43}$/);
});

test("an existing local secret is read, and rejected when everyone can read it", async () => {
  const path = join(directory, "secret");
  await writeOnce(path, `${"s".repeat(40)}\n`, { mode: 0o440, randomBytes });
  expect(await readLocalSecret(path)).toBe("s".repeat(40));
  await chmod(path, 0o644);
  await expect(readLocalSecret(path)).rejects.toThrow(/everybody can read/);
});
