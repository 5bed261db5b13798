/** The proofs that browsers check: the portal's own script, by Node's WebCrypto, beside the client library. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { verifyEntry } from "../../../src/lib/transparency-log/compliance-proof.ts";
import { formatVerifierKey, noteKeyId } from "../../../src/lib/transparency-log/signed-note.ts";
import { createCheckpointKey } from "../../../src/compliance/checkpoint-key.ts";
import { consistencyRanges, type EntryRange, inclusionRanges } from "../../../src/compliance/merkle.ts";
import { leafHash as clientLeafHash } from "../../../src/lib/transparency-log/merkle-proof.ts";
import {
  CONSISTENCY,
  grow,
  hashesOf,
  INCLUSION,
  LEAVES,
  ROOTS,
  uniformTree,
} from "../../support/merkle-vectors.ts";

interface TreeHead {
  readonly size: number;
  readonly root: Uint8Array;
}

interface ProofAnswer {
  readonly entry: string;
  readonly note: string;
  readonly hashes: unknown;
  readonly consistency?: unknown;
}

/** What src/portal/assets/log-proof.js exports. */
interface LogProof {
  ability(): Promise<string>;
  parseVerifierKey(text: string): Promise<{ readonly name: string; readonly id: string }>;
  openNote(note: string, keys: readonly unknown[]): Promise<string>;
  openCheckpoint(note: string, keys: readonly unknown[]): Promise<TreeHead & { readonly origin: string }>;
  leafHash(entry: Uint8Array): Promise<Uint8Array>;
  verifyInclusion(
    proof: { readonly index: number; readonly treeSize: number; readonly hashes: readonly Uint8Array[] },
    leaf: Uint8Array,
    root: Uint8Array,
  ): Promise<boolean>;
  verifyConsistency(smaller: TreeHead, larger: TreeHead, hashes: readonly Uint8Array[]): Promise<boolean>;
  checkEntry(
    index: number,
    answer: ProofAnswer,
    options: { readonly key: string; readonly earlier?: string | undefined },
  ): Promise<{
    readonly entry: unknown;
    readonly size: number;
    readonly root: string;
    readonly note: string;
  }>;
  sizeOf(note: string): number | undefined;
}

const SCRIPT = new URL("../../../src/portal/assets/log-proof.js", import.meta.url).href;
const proof = (await import(SCRIPT)) as LogProof;

const rootOf = (size: number): Buffer => Buffer.from(ROOTS[size] ?? "", "hex");
const hex = (hashes: readonly Uint8Array[]): string[] =>
  hashes.map((hash) => Buffer.from(hash).toString("hex"));

describe("the published trees of RFC 6962", () => {
  test.each(INCLUSION)("entry %i is in the tree of %i entries", async (index, treeSize, published) => {
    const hashes = published.map((hash) => Buffer.from(hash, "hex"));
    const leaf = LEAVES[index] ?? Buffer.of();
    expect(await proof.verifyInclusion({ index, treeSize, hashes }, leaf, rootOf(treeSize))).toBe(true);
    expect(await proof.verifyInclusion({ index, treeSize, hashes }, leaf, rootOf(0))).toBe(false);
  });

  test.each(CONSISTENCY)("%i entries are the beginning of %i", async (from, to, published) => {
    const hashes = published.map((hash) => Buffer.from(hash, "hex"));
    const old = { size: from, root: rootOf(from) };
    const grown = { size: to, root: rootOf(to) };
    expect(await proof.verifyConsistency(old, grown, hashes)).toBe(true);
    expect(await proof.verifyConsistency(old, { ...grown, root: rootOf(0) }, hashes)).toBe(false);
  });
});

describe("trees of up to 40 entries", () => {
  const leaves = Array.from({ length: 40 }, (_value, index) => clientLeafHash(Buffer.from(String(index))));
  const roots = leaves.map((_leaf, index) => grow(leaves.slice(0, index + 1)).root);
  const headOf = (size: number): TreeHead => ({ size, root: roots[size - 1] ?? Buffer.of() });

  test("have proofs that hold for every entry and every earlier size", async () => {
    for (let size = 1; size <= leaves.length; size += 1) {
      for (let index = 0; index < size; index += 1) {
        const hashes = hashesOf(inclusionRanges(index, size), leaves);
        const leaf = leaves[index] ?? Buffer.of();
        const { root } = headOf(size);
        expect(await proof.verifyInclusion({ index, treeSize: size, hashes }, leaf, root)).toBe(true);
        const consistency = hashesOf(consistencyRanges(index + 1, size), leaves);
        expect(await proof.verifyConsistency(headOf(index + 1), headOf(size), consistency)).toBe(true);
      }
    }
  });

  test("have none that hold with a hash changed, missing or added", async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 3, max: 40 }), fc.nat(), fc.nat(), async (size, at, where) => {
        const index = at % size;
        const hashes = hashesOf(inclusionRanges(index, size), leaves);
        const place = where % hashes.length;
        const { root } = headOf(size);
        for (const wrong of [
          hashes.with(place, Buffer.alloc(32)),
          hashes.with(place, Buffer.of(1)),
          hashes.toSpliced(place, 1),
          [...hashes, Buffer.alloc(32)],
        ]) {
          const tampered = { index, treeSize: size, hashes: wrong };
          expect(await proof.verifyInclusion(tampered, leaves[index] ?? Buffer.of(), root)).toBe(false);
        }
        const from = 1 + (index % (size - 1));
        const consistency = hashesOf(consistencyRanges(from, size), leaves);
        const spot = where % consistency.length;
        for (const wrong of [
          consistency.with(spot, Buffer.alloc(32)),
          consistency.toSpliced(spot, 1),
          [...consistency, Buffer.alloc(32)],
        ]) {
          expect(await proof.verifyConsistency(headOf(from), headOf(size), wrong)).toBe(false);
        }
      }),
    );
  });
});

test.each([2 ** 31 + 5, 2 ** 40 - 1, 2 ** 52 - 1])("proofs of a tree of %d entries hold", async (size) => {
  const { leaf, rootOf: uniform } = uniformTree();
  const hashesFrom = (ranges: readonly EntryRange[]): Buffer[] =>
    ranges.map(({ start, end }) => uniform(start, end));
  const root = uniform(0, size);
  const inclusion = { index: size - 3, treeSize: size, hashes: hashesFrom(inclusionRanges(size - 3, size)) };
  expect(await proof.verifyInclusion(inclusion, leaf, root)).toBe(true);
  for (const from of [3, 2 ** 30 + 7, size - 1, size]) {
    const old = { size: from, root: uniform(0, from) };
    const consistency = hashesFrom(consistencyRanges(from, size));
    expect(await proof.verifyConsistency(old, { size, root }, consistency)).toBe(true);
  }
});

/** The example of c2sp.org/signed-note. */
const SPECIFIED_KEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
const SPECIFIED_NOTE =
  "This is an example message.\n\n" +
  "— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n";

test("the example of the signed notes' specification is read", async () => {
  const key = await proof.parseVerifierKey(SPECIFIED_KEY);
  expect(key).toMatchObject({ name: "example.com/foo", id: "530d903a" });
  expect(await proof.openNote(SPECIFIED_NOTE, [key])).toBe("This is an example message.\n");
});

test.each([
  "",
  "log.example",
  SPECIFIED_KEY.replace("530d903a", "530d903b"),
  SPECIFIED_KEY.replace("foo", "bar"),
  SPECIFIED_KEY.replace("+Aek", "+Bek"),
  SPECIFIED_KEY.slice(0, -4),
  SPECIFIED_KEY.replace(/k$/, "l"),
])("what is no verifier key is refused: %s", async (text) => {
  await expect(proof.parseVerifierKey(text)).rejects.toThrow(/verifier key/);
});

test("Node verifies Ed25519 as browsers do", async () => {
  expect(await proof.ability()).toBe("yes");
});

describe("an entry", () => {
  const key = createCheckpointKey("log.example/1", randomBytes(32));
  const stranger = createCheckpointKey("log.example/1", randomBytes(32));
  const texts = Array.from({ length: 20 }, (_value, idx) => JSON.stringify({ idx, reason: "schön – 取消" }));
  const leaves = texts.map((text) => clientLeafHash(Buffer.from(text)));
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
  const check = async (answer: ProofAnswer, options: { key?: string; earlier?: string } = {}) =>
    await proof.checkEntry(INDEX, answer, { key: key.verifierKey, ...options });

  test("holds, with what its signed bytes say, as the client library finds it", async () => {
    const answer = answerOf(20);
    const checked = await check(answer);
    expect(checked).toMatchObject({ size: 20, entry: JSON.parse(texts[INDEX] ?? "") as unknown });
    const { hashes } = answer as { hashes: string[] };
    const source = {
      entry: async () => await Promise.resolve({ index: INDEX, entry: answer.entry }),
      checkpoint: async () => await Promise.resolve({ note: answer.note }),
      inclusion: async () => await Promise.resolve({ hashes }),
      consistency: async () => await Promise.resolve({ hashes: [] }),
    };
    const verified = await verifyEntry(source, INDEX, { verifierKeys: [key.verifierKey] });
    expect(verified).toEqual({ index: INDEX, entry: checked.entry, checkpoint: checked.note });
  });

  test("holds in a log that continues the one that was seen before", async () => {
    for (const from of [8, 13, 16, 20]) {
      expect(await check(answerOf(20, from), { earlier: noteOf(from) })).toMatchObject({ size: 20 });
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
    ["an entry that is no base64", { entry: "{" }, /not base64/],
    ["a changed path", { hashes: hashes.toReversed() }, /not in the tree/],
    ["a short path", { hashes: hashes.slice(1) }, /not in the tree/],
    ["a long path", { hashes: [...hashes, hashes[0]] }, /not in the tree/],
    ["a path that is none", { hashes: [["0".repeat(64)]] }, /not a list of hashes/],
    ["an endless path", { hashes: Array.from({ length: 200 }, () => hashes[0]) }, /not a list of hashes/],
    ["another root", { note: note.replace(root, flipped(root)) }, /signature of log.example\/1 is not valid/],
    ["another size", { note: note.replace("\n20\n", "\n21\n") }, /signature of log.example\/1 is not valid/],
    ["a signature of a stranger", { note: noteOf(20, stranger) }, /none of the given keys/],
    ["no note", { note: "" }, /malformed/],
  ])("with %s is refused", async (_what, change, why) => {
    await expect(check({ ...answerOf(20), ...change })).rejects.toThrow(why);
  });

  test("with a signature of which one bit differs is refused", async () => {
    const [, signature = ""] = /— \S+ (\S+)/.exec(note) ?? [];
    const bytes = Buffer.from(signature, "base64");
    bytes[40] = (bytes[40] ?? 0) ^ 1;
    const tampered = note.replace(signature, bytes.toString("base64"));
    await expect(check({ ...answerOf(20), note: tampered })).rejects.toThrow("is not valid");
  });

  test("is refused by another key, and the reason tells so", async () => {
    const failure = await check(answerOf(20), { key: stranger.verifierKey }).catch((error: unknown) => error);
    expect(failure).toMatchObject({ name: "ProofError", code: "key" });
  });

  test("of a log under another name is refused, whoever signed it", async () => {
    const { publicKey, privateKey } = generateKeyPairSync("ed25519");
    const raw = Buffer.from(publicKey.export({ format: "jwk" }).x ?? "", "base64url");
    const text = `another.example\n20\n${root}\n`;
    const signature = Buffer.concat([
      noteKeyId("log.example/1", raw),
      sign(null, Buffer.from(text), privateKey),
    ]);
    const foreign = `${text}\n— log.example/1 ${signature.toString("base64")}\n`;
    const options = { key: formatVerifierKey("log.example/1", raw) };
    await expect(check({ ...answerOf(20), note: foreign }, options)).rejects.toMatchObject({ code: "key" });
  });

  test("is refused in a log that is shorter than it was, or was written anew", async () => {
    await expect(check(answerOf(16), { earlier: noteOf(20) })).rejects.toThrow("entries are missing");
    await expect(check(answerOf(20), { earlier: noteOf(13) })).rejects.toThrow("rewritten");
    const forged = [...leaves.slice(0, 3), clientLeafHash(Buffer.of(1)), ...leaves.slice(4, 13)];
    const earlier = key.sign({ size: 13, root: grow(forged).root });
    await expect(check(answerOf(20, 13), { earlier })).rejects.toThrow("rewritten");
  });
});

test("the size of a note is read for asking", () => {
  expect(proof.sizeOf("log\n42\nroot\n")).toBe(42);
  expect(proof.sizeOf("log\n-1\n")).toBeUndefined();
  expect(proof.sizeOf("log")).toBeUndefined();
});
