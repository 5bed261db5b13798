import { expect, test } from "vitest";
import { openCheckpoint, openNote, parseVerifierKey } from "../../../src/lib/transparency-log/signed-note.ts";
import { createCheckpointKey } from "../../../src/compliance/checkpoint-key.ts";
import { checkpointSeed } from "../../../src/config/compliance.ts";

/** The key of the documentation of golang.org/x/mod/sumdb/note: `PRIVATE+KEY+PeterNeumann+c74f20a3+…`. */
const PUBLISHED_SEED = Buffer.from("AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz", "base64").subarray(1);
const PUBLISHED_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";

test("the published private key has the published verifier key", () => {
  expect(createCheckpointKey("PeterNeumann", PUBLISHED_SEED).verifierKey).toBe(PUBLISHED_KEY);
});

test("what it signs is a checkpoint of its own log, and the published signature is opened with the same key", () => {
  const root = Buffer.alloc(32, 1);
  const note = createCheckpointKey("PeterNeumann", PUBLISHED_SEED).sign({ size: 9, root });
  const keys = [parseVerifierKey(PUBLISHED_KEY)];
  expect(openCheckpoint(note, keys)).toEqual({ origin: "PeterNeumann", size: 9, root });
  const published =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n\n" +
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
  expect(openNote(published, keys)).toContain("cryptography");
});

test.each([
  "",
  "AAAA",
  "x".repeat(44),
  Buffer.alloc(33).toString("base64"),
  Buffer.alloc(32).toString("base64url"),
])("%j is no checkpoint key", (text) => {
  expect(() => checkpointSeed(text)).toThrow("must be 32 bytes in base64");
});
