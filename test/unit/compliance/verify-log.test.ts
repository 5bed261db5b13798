/** Every change of an exported log is found, with the first entry that cannot be trusted. */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { NODE_CRYPTO, leafHash } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { encodeEntry } from "#compliance/entry.ts";
import { decodeItem, encodeItem, type LogItem } from "#compliance/log-items.ts";
import { verifyLog } from "#compliance/verify-log.ts";
import { grow } from "#test/support/merkle-vectors.ts";

type Entry = Extract<LogItem, { kind: "entry" }>;

const ENTRIES = 20;
/** The checkpoints cover this many entries. */
const SIGNED = [7, 18] as const;
const key = new CheckpointKey("log.example", randomBytes(32));
const keys = [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)];

function entryAt(idx: number, target = `crd_${idx}`): Entry {
  const { beforeIndex, afterIndex } = encodeEntry(
    { type: "credential.revoked", actor: "operator:root", tenant: "ten_1", target },
    { clock: { now: () => Date.parse("2025-11-20T14:46:40.120Z") }, randomBytes },
  );
  const entry = Buffer.concat([beforeIndex, Buffer.from(String(idx)), afterIndex]);
  const columns = { at: "2025-11-20 14:46:40.12+00", type: "credential.revoked", tenant_id: "ten_1" };
  return { kind: "entry", idx, entry, leaf_hash: leafHash(entry), ...columns };
}

const entries = Array.from({ length: ENTRIES }, (_, idx) => entryAt(idx));
const rootOf = (list: readonly Entry[]): Buffer => grow(list.map((each) => each.leaf_hash)).root;

/** Returns the export of these entries, with the checkpoints that were signed over the genuine ones. */
function exported(list: readonly Entry[], signed: readonly number[] = SIGNED): LogItem[] {
  return [
    { kind: "head", size: list.length, root: rootOf(list), entries: list.length },
    ...signed.map((size, index): LogItem => {
      const root = rootOf(entries.slice(0, size));
      const note = key.sign({ size, root });
      return { kind: "checkpoint", seq: index + 1, size, root, note, signed_at: new Date(0) };
    }),
    ...list,
    { kind: "end" },
  ];
}

async function verified(items: readonly LogItem[]): Promise<unknown> {
  async function* pages(): AsyncGenerator<readonly LogItem[]> {
    yield items.map((item) => decodeItem(encodeItem(item)));
  }
  return await verifyLog(pages(), { keys, kept: [] });
}

test("an unchanged log verifies", async () => {
  expect(await verified(exported(entries))).toEqual({
    entries: ENTRIES,
    root: rootOf(entries).toString("hex"),
    checkpoints: SIGNED.length,
    signed: SIGNED.at(-1),
  });
});

describe("a log is rejected", () => {
  const forged = entryAt(9, "crd_forged");
  const [ninth, tenth] = entries.slice(9) as [Entry, Entry];

  test.each<readonly [string, LogItem[], first: number | null, last: number | null]>([
    ["with a changed entry", exported(entries.with(9, { ...ninth, entry: forged.entry })), 9, 9],
    ["with a changed entry and its hash", exported(entries.with(9, forged)), 7, 17],
    ["with two entries swapped", exported(entries.with(9, tenth).with(10, ninth)), 9, 9],
    ["without an entry", exported(entries.toSpliced(9, 1)), 9, 9],
    ["without its end", exported(entries.slice(0, 17)), 17, 17],
    ["with other columns", exported(entries.with(9, { ...ninth, tenant_id: "ten_2" })), 9, 9],
    ["without checkpoints", exported(entries, []), 0, 0],
    [
      "whose head counts more",
      exported(entries).with(0, { ...exported(entries)[0], size: 21 } as LogItem),
      20,
      20,
    ],
    [
      "whose head has another root",
      exported(entries).with(0, exported(entries.with(19, forged))[0] as LogItem),
      null,
      null,
    ],
    ["without its last line", exported(entries).slice(0, -1), null, null],
  ])("%s", async (_what, items, index, last) => {
    await expect(verified(items)).rejects.toMatchObject({ name: "LogProblem", index, last });
  });
});

test("a bad entry does not hide a later one", async () => {
  const text = '{"idx": 3}';
  const bad = { ...(entries[3] as Entry), entry: Buffer.from(text), leaf_hash: leafHash(Buffer.from(text)) };
  const moved = { ...(entries[12] as Entry), tenant_id: "ten_2" };
  const changed = { ...(entries[19] as Entry), entry: entryAt(19, "crd_forged").entry };
  const tampered = entries.with(12, moved).with(19, changed);
  await expect(verified(exported(tampered))).rejects.toMatchObject({
    index: 12,
    further: [{ index: 19, message: "entry 19 does not match its stored hash" }],
  });
  // An entry that was never canonical is under every later checkpoint.
  const all = [7, 18].map((size) => rootOf(entries.with(3, bad).slice(0, size)));
  const items = exported(entries.with(3, bad).with(12, moved)).map((item) => {
    const root = all[item.kind === "checkpoint" ? item.seq - 1 : -1];
    return item.kind === "checkpoint" && root !== undefined
      ? { ...item, root, note: key.sign({ size: item.size, root }) }
      : item;
  });
  await expect(verified(items)).rejects.toMatchObject({
    index: 3,
    message: "entry 3 is not canonical JSON",
    further: [{ index: 12 }],
  });
});

test("a fault that ends the verification does not hide those before it", async () => {
  const moved = { ...(entries[2] as Entry), tenant_id: "ten_2" };
  await expect(verified(exported(entries.with(2, moved).toSpliced(9, 1)))).rejects.toMatchObject({
    index: 2,
    further: [{ index: 9 }],
  });
});
