import { expect, test } from "vitest";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { openCheckpoint, openNote, parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { checkpointSeed } from "#config/compliance.ts";

/** The key in the documentation of golang.org/x/mod/sumdb/note: `PRIVATE+KEY+PeterNeumann+c74f20a3+…`. */
const PUBLISHED_SEED = Buffer.from("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz", "base64").subarray(1);
const PUBLISHED_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

test("the published private key has the published verifier key", () => {
  expect(new CheckpointKey("PeterNeumann", PUBLISHED_SEED).verifierKey).toBe(PUBLISHED_KEY);
});

test("the key signs checkpoints of its own log and verifies the published signature", async () => {
  const root = Buffer.alloc(32, 1);
  const note = new CheckpointKey("PeterNeumann", PUBLISHED_SEED).sign({ size: 9, root });
  const keys = [await parseVerifierKey(PUBLISHED_KEY, NODE_CRYPTO)];
  expect(await openCheckpoint(note, keys, NODE_CRYPTO)).toEqual({
    origin: "PeterNeumann",
    size: 9,
    root: Uint8Array.from(root),
  });
  const published =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n" +
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
  expect(await openNote(published, keys, NODE_CRYPTO)).toContain("cryptography");
});

test.each([
  "",
  "AAAA",
  "x".repeat(44),
  Buffer.alloc(33).toString("base64"),
  Buffer.alloc(32).toString("base64url"),
])("%j is not a checkpoint key", (text) => {
  expect(() => checkpointSeed(text)).toThrow("must be 32 bytes in base64");
});
