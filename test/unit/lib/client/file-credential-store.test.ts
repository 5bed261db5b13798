/** A credential in a file is complete at every instant, and readable for its owner only. */
import {
  chmod,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  realpath,
  rm,
  stat,
  symlink,
  utimes,
  writeFile,
} from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { FileCredentialStore } from "#lib/client/file-credential-store.ts";
import type { Warning } from "#lib/client/runtime.ts";
import { secretOf } from "#test/support/rotating-server.ts";

const CREDENTIAL = {
  clientId: "cl_1",
  current: { secret: secretOf(7), version: 7 },
  next: { secret: secretOf(8), version: 8 },
};

let directory: string;
let path: string;

beforeEach(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "signet-store-")));
  path = join(directory, "credential.json");
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

test("a saved credential can be loaded, and only its owner can read it", async () => {
  const store = new FileCredentialStore(path);
  expect(await store.load()).toBeUndefined();
  await store.save(CREDENTIAL);
  expect(await store.load()).toEqual(CREDENTIAL);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
  expect(await readdir(directory)).toEqual(["credential.json"]);
});

test("the service's response to a new credential is a valid store", async () => {
  const created = {
    id: "crd_1",
    client_id: "cl_1",
    client_secret: secretOf(1),
    version: 1,
    created_at: "now",
  };
  await writeFile(path, JSON.stringify(created), { mode: 0o600 });
  expect(await new FileCredentialStore(path).load()).toEqual({
    clientId: "cl_1",
    current: { secret: secretOf(1), version: 1 },
    next: null,
  });
});

test("a file that others can read gets one warning, and is made private when written", async () => {
  const warnings: Warning[] = [];
  const store = new FileCredentialStore(path, { warn: (warning) => void warnings.push(warning) });
  await store.save(CREDENTIAL);
  await chmod(path, 0o644);
  await store.load();
  await store.load();
  expect(warnings).toMatchObject([{ code: "STORE_EXPOSED" }]);
  await store.save(CREDENTIAL);
  expect((await stat(path)).mode & 0o777).toBe(0o600);
});

test.each([
  ["is truncated", `{"client_id":"cl_1","client_secret":"${secretOf(1)}`],
  ["lacks its client", `{"client_secret":"${secretOf(1)}"}`],
  ["is a list", `["${secretOf(1)}"]`],
])("a file that %s is rejected without showing its content", async (_name, text) => {
  await writeFile(path, text);
  const error = await new FileCredentialStore(path).load().catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "CredentialStoreError" });
  expect(inspect(error, { depth: 9, showHidden: true })).not.toContain("canary");
});

test("a file is named in errors, and may begin with a byte order mark", async () => {
  for (const none of ["", " ", undefined]) {
    expect(() => new FileCredentialStore(none as string)).toThrow(
      "the path of the credential's file is not set",
    );
  }
  await writeFile(path, "[", { mode: 0o600 });
  await expect(new FileCredentialStore(path).load()).rejects.toThrow(
    `${path}: the stored credential is not JSON`,
  );
  await writeFile(path, `\uFEFF{"client_id":"cl_1","client_secret":"${secretOf(1)}"}`, { mode: 0o600 });
  expect(await new FileCredentialStore(path).load()).toMatchObject({ clientId: "cl_1" });
});

test("a link stays a link: its target is written", async () => {
  await mkdir(join(directory, "real"));
  const target = join(directory, "real", "credential.json");
  await new FileCredentialStore(target).save({ ...CREDENTIAL, next: null });
  await symlink(target, path);
  await new FileCredentialStore(path).save(CREDENTIAL);
  expect(await readFile(target, "utf8")).toBe(await readFile(path, "utf8"));
  expect(await realpath(path)).toBe(target);
});

test("files that killed processes left are removed, and those still being written are not", async () => {
  const leftover = `${path}.4711.abcdef012345.tmp`;
  const present = `${path}.4712.abcdef012345.tmp`;
  await writeFile(leftover, "x");
  await writeFile(present, "x");
  await utimes(leftover, 0, 0);
  await new FileCredentialStore(path).save(CREDENTIAL);
  expect((await readdir(directory)).toSorted()).toEqual([
    "credential.json",
    "credential.json.4712.abcdef012345.tmp",
  ]);
});

test("a path that cannot be written is an error, and leaves nothing behind", async () => {
  await mkdir(path);
  await expect(new FileCredentialStore(path).save(CREDENTIAL)).rejects.toThrow(/EISDIR|directory/);
  expect(await readdir(directory)).toEqual(["credential.json"]);
});
