/** Entries verified from an untrusted service's answer, with the cryptography of Node and of browsers. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import { describe, expect, test } from "vitest";
import {
  ComplianceProofError,
  type VerifiedEntry,
  verifyEntry,
} from "#lib/transparency-log/compliance-proof.ts";
import { leafHash } from "#lib/transparency-log/node-crypto.ts";
import { VerifierKeyError } from "#lib/transparency-log/signed-note.ts";
import { CheckpointKey, formatVerifierKey, noteKeyId } from "#compliance/checkpoint-key.ts";
import { consistencyRanges, inclusionRanges } from "#compliance/merkle.ts";
import { ability } from "#portal/browser/web-crypto.ts";
import { grow, hashesOf } from "#test/support/merkle-vectors.ts";
import { CRYPTOS } from "#test/support/proof-crypto.ts";

interface ProofAnswer {
  readonly entry: string;
  readonly note: string;
  readonly hashes: unknown;
  readonly consistency?: unknown;
}

const hex = (hashes: readonly Buffer[]): string[] => hashes.map((hash) => hash.toString("hex"));

test("Node verifies Ed25519 as browsers do", async () => {
  expect(await ability()).toBe("yes");
});

describe.each(CRYPTOS)("an entry, with %s's cryptography,", (_whose, crypto) => {
  const key = new CheckpointKey("log.example/1", randomBytes(32));
  const stranger = new CheckpointKey("log.example/1", randomBytes(32));
  const texts = Array.from({ length: 20 }, (_value, idx) => JSON.stringify({ idx, reason: "schön – 取消" }));
  const leaves = texts.map((text) => leafHash(Buffer.from(text)));
  const INDEX = 7;

  const noteOf = (size: number, signer = key): string =>
    signer.sign({ size, root: grow(leaves.slice(0, size)).root });

  function answerOf(size: number, from?: number): ProofAnswer {
    return {
      entry: Buffer.from(texts[INDEX] ?? "").toString("base64"),
      note: noteOf(size),
      hashes: hex(hashesOf(inclusionRanges(INDEX, size), leaves)),
      ...(from !== undefined && { consistency: hex(hashesOf(consistencyRanges(from, size), leaves)) }),
    };
  }
  async function check(
    answer: ProofAnswer,
    { verifierKey = key.verifierKey, earlier = [] }: { verifierKey?: string; earlier?: string[] } = {},
  ): Promise<VerifiedEntry> {
    const hashes = answer.hashes as string[];
    const consistency = (answer.consistency ?? []) as string[];
    const source = {
      entry: async () => await Promise.resolve({ index: INDEX, entry: answer.entry }),
      checkpoint: async () => await Promise.resolve({ note: answer.note }),
      inclusion: async () => await Promise.resolve({ hashes }),
      consistency: async () => await Promise.resolve({ hashes: consistency }),
    };
    return await verifyEntry(source, INDEX, { verifierKeys: [verifierKey], earlier, crypto });
  }

  test("is valid, and returns the content of its signed bytes", async () => {
    const answer = answerOf(20);
    const entry = JSON.parse(texts[INDEX] ?? "") as unknown;
    expect(await check(answer)).toEqual({ index: INDEX, entry, checkpoint: answer.note });
  });

  test("is valid in a log that continues the previously seen one", async () => {
    for (const from of [8, 13, 16, 20]) {
      await expect(check(answerOf(20, from), { earlier: [noteOf(from)] })).resolves.toBeDefined();
    }
  });

  const flipped = (base64: string): string => {
    const bytes = Buffer.from(base64, "base64");
    bytes[0] = (bytes[0] ?? 0) ^ 1;
    return bytes.toString("base64");
  };
  const { entry, note, hashes } = answerOf(20) as ProofAnswer & { hashes: string[] };
  const root = grow(leaves).root.toString("base64");

  test.each<[string, Partial<ProofAnswer>, RegExp]>([
    ["a changed entry", { entry: flipped(entry) }, /not in the tree/],
    ["an entry that is not base64", { entry: "{" }, /not base64/],
    ["a changed path", { hashes: hashes.toReversed() }, /not in the tree/],
    ["a short path", { hashes: hashes.slice(1) }, /not in the tree/],
    ["a long path", { hashes: [...hashes, hashes[0]] }, /not in the tree/],
    ["an invalid path", { hashes: [["0".repeat(64)]] }, /not a list of hashes/],
    ["an endless path", { hashes: Array.from({ length: 200 }, () => hashes[0]) }, /not a list of hashes/],
    ["another root", { note: note.replace(root, flipped(root)) }, /signature of log.example\/1 is invalid/],
    ["another size", { note: note.replace("\n20\n", "\n21\n") }, /signature of log.example\/1 is invalid/],
    ["a signature of a stranger", { note: noteOf(20, stranger) }, /none of the given keys/],
    ["no note", { note: "" }, /malformed/],
  ])("with %s is rejected", async (_what, change, why) => {
    await expect(check({ ...answerOf(20), ...change })).rejects.toThrow(why);
  });

  test("with a changed bit in a signature is rejected", async () => {
    const [, signature = ""] = /— \S+ (\S+)/.exec(note) ?? [];
    const bytes = Buffer.from(signature, "base64");
    bytes[40] = (bytes[40] ?? 0) ^ 1;
    const tampered = note.replace(signature, bytes.toString("base64"));
    await expect(check({ ...answerOf(20), note: tampered })).rejects.toThrow("is invalid");
  });

  test("is rejected with another key, and the error says so", async () => {
    const refused = check(answerOf(20), { verifierKey: stranger.verifierKey });
    await expect(refused).rejects.toThrow(VerifierKeyError);
  });

  test("of a log under another name is rejected, no matter who signed it", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const raw = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
    const text = `another.example\n20\n${root}\n`;
    const signature = Buffer.concat([
      noteKeyId("log.example/1", raw),
      sign(null, Buffer.from(text), privateKey),
    ]);
    const foreign = `${text}\n— log.example/1 ${signature.toString("base64")}\n`;
    const options = { verifierKey: formatVerifierKey("log.example/1", raw) };
    await expect(check({ ...answerOf(20), note: foreign }, options)).rejects.toThrow(VerifierKeyError);
  });

  test("is rejected in a log that is shorter than before or rewritten", async () => {
    const shorter = check(answerOf(16), { earlier: [noteOf(20)] });
    await expect(shorter).rejects.toThrow(
      new ComplianceProofError("the log has 16 entries and had 20: entry 16 is missing"),
    );
    await expect(check(answerOf(20), { earlier: [noteOf(13)] })).rejects.toThrow("does not continue");
    const forged = [...leaves.slice(0, 3), leafHash(Buffer.of(1)), ...leaves.slice(4, 13)];
    const earlier = [key.sign({ size: 13, root: grow(forged).root })];
    await expect(check(answerOf(20, 13), { earlier })).rejects.toThrow("does not continue");
  });
});
