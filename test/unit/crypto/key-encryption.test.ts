import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { EnvelopeError, envelopeKeyId } from "#crypto/envelope.ts";
import { createKeyEncryption, fixedKeys, keysOfFile } from "#crypto/key-encryption.ts";
import { testKeyring } from "#test/support/keyring.ts";

const [older, newer] = [randomBytes(32), randomBytes(32)];
const directory = await mkdtemp(join(tmpdir(), "signet-keks-"));
afterAll(async () => {
  await rm(directory, { recursive: true });
});

const provider = (...keys: Buffer[]) => createKeyEncryption(fixedKeys(keys), randomBytes);

test("the newest key wraps, every known key unwraps", async () => {
  const before = await provider(older).wrap("place", Buffer.from("secret"));
  const both = provider(newer, older);
  expect((await both.unwrap("place", before)).toString()).toBe("secret");
  const after = await both.wrap("place", Buffer.from("secret"));
  expect(envelopeKeyId(after)).toBe(await both.currentKeyId());
  expect(envelopeKeyId(after)).not.toBe(envelopeKeyId(before));
  await expect(provider(older).unwrap("place", after)).rejects.toThrow(EnvelopeError);
});

test("an envelope under an unknown key names that key, and one in another place does not open", async () => {
  const envelope = await provider(older).wrap("place", Buffer.from("secret"));
  await expect(provider(newer).unwrap("place", envelope)).rejects.toThrow(envelopeKeyId(envelope));
  await expect(provider(older).unwrap("elsewhere", envelope)).rejects.toThrow(EnvelopeError);
});

test("a key added to the file works without a restart, for unwrapping and wrapping", async () => {
  const path = join(directory, "keks");
  await writeFile(path, `${older.toString("base64")}\n`);
  const running = createKeyEncryption(keysOfFile(path), randomBytes);
  const before = await running.wrap("place", Buffer.from("old"));
  const elsewhere = await provider(newer).wrap("place", Buffer.from("new"));
  await expect(running.unwrap("place", elsewhere)).rejects.toThrow(EnvelopeError);
  await writeFile(path, `${newer.toString("base64")}\n${older.toString("base64")}\n`);
  expect((await running.unwrap("place", elsewhere)).toString()).toBe("new");
  expect(await running.currentKeyId()).toBe(envelopeKeyId(elsewhere));
  expect((await running.unwrap("place", before)).toString()).toBe("old");
});

test("a rewrapped envelope keeps its content and its place", async () => {
  const envelope = await testKeyring(older).sealWithKek("place", "secret");
  const both = testKeyring(newer, older);
  const again = await both.rewrap("place", envelope);
  expect(envelopeKeyId(again)).toBe(await both.kekId());
  const after = testKeyring(newer);
  expect((await after.openWithKek("place", again)).toString()).toBe("secret");
  await expect(after.openWithKek("elsewhere", again)).rejects.toThrow(EnvelopeError);
});
