/** What the home cell writes of what a cell has sent. */
import { expect, test } from "vitest";
import { cellEntry, homeEntry, readSentEntry } from "#compliance/cell-entry.ts";
import { encodeEntry } from "#compliance/entry.ts";
import { readMembers } from "#compliance/read-members.ts";
import type { EntryBytes } from "#database/repositories/compliance-entries.ts";

function whole({ beforeIndex, afterIndex }: EntryBytes, index: number): Buffer {
  return Buffer.concat([beforeIndex, Buffer.from(String(index)), afterIndex]);
}

const MEMBERS = {
  actor: "operator:x",
  at: "2026-01-01T00:00:00.000Z",
  details: { cell: "us", cell_index: 7 },
  idx: 0,
  reason: null,
  request_id: null,
  salt: "c2FsdA",
  target: "ten_1",
  tenant: "ten_1",
  type: "tenant.read",
  v: 1,
};

/** The parts that a cell may send for any text with `"idx":0`. */
function sent(text: string): EntryBytes {
  const at = text.indexOf('"idx":0') + 6;
  return { beforeIndex: Buffer.from(text.slice(0, at)), afterIndex: Buffer.from(text.slice(at + 1)) };
}

const place = { cell: "us", place: 7 };

test("an honest entry has the bytes of the cell's own log, but for its index and the cell", () => {
  const parts = encodeEntry(
    {
      type: "endpoint.created",
      actor: "credential:crd_1",
      tenant: "ten_1",
      target: "ep_1",
      reason: 'quoted "\u20ac\u0001 \u{1f600}',
      details: { zebra: ["a", { b: null }], 10: true, events: [] },
    },
    { clock: { now: () => 0 }, randomBytes: (size) => new Uint8Array(size) },
  );
  const own = whole(parts, 7);
  const built = whole(homeEntry(readSentEntry(cellEntry(own, "us")), { ...place, owns: true }), 3_000);
  const { details, ...members } = JSON.parse(built.toString()) as { details: object };
  expect(details).toMatchObject({ cell: "us", cell_index: 7 });
  expect({ ...members, details: { ...details, cell: undefined, cell_index: undefined } }).toEqual({
    ...(JSON.parse(own.toString()) as object),
    idx: 3_000,
  });
  expect(readMembers(built)).toMatchObject({ idx: 3_000, tenant: "ten_1" });
});

test.each([
  ["white space", JSON.stringify(MEMBERS, null, 1).replace('"idx": 0', '"idx":0')],
  ["another order", JSON.stringify(Object.fromEntries(Object.entries(MEMBERS).toReversed()))],
  ["a repeated member", JSON.stringify(MEMBERS).replace("{", '{"v":2,')],
  ["escapes", JSON.stringify(MEMBERS).replace("operator:x", String.raw`operator:\u0078`)],
])("whatever %s a cell sends, the entry is canonical", (_what, text) => {
  const built = whole(homeEntry(readSentEntry(sent(text)), { ...place, owns: true }), 5);
  expect(readMembers(built)).toEqual({
    at: MEMBERS.at,
    idx: 5,
    tenant: MEMBERS.tenant,
    type: MEMBERS.type,
  });
});

test.each<readonly [string, object]>([
  ["a member that no entry has", { zzz: 1 }],
  ["a type that no entry has", { type: "tenant.adopted" }],
  ["no type", { type: undefined }],
  ["an actor of no kind", { actor: "root" }],
  ["a time without milliseconds", { at: "2026-01-01T00:00:00Z" }],
  ["a time that does not exist", { at: "2026-02-30T00:00:00.000Z" }],
  ["a leap second", { at: "2026-01-01T00:00:60.000Z" }],
  ["another version", { v: 2 }],
  ["a tenant that is no text", { tenant: 5 }],
  ["details that are a list", { details: [] }],
  ["a fraction", { details: { rate: 1.5 } }],
  ["a number beyond the safe ones", { details: { rate: 2 ** 53 } }],
  ["deep details", { details: { a: JSON.parse("[".repeat(9) + "]".repeat(9)) as unknown } }],
])("the home cell refuses %s", (_what, wrong) => {
  const parts = sent(JSON.stringify({ ...MEMBERS, ...wrong }));
  expect(() => homeEntry(readSentEntry(parts), { ...place, owns: true })).toThrow(
    expect.objectContaining({ name: "CellEntryError" }) as Error,
  );
});

test("an entry says which cell it is from, and only tenants of that cell get it", () => {
  const lie = sent(
    JSON.stringify({ ...MEMBERS, details: { cell: "eu", cell_index: 1, cell_tenant: "ten_2" } }),
  );
  const read = (owns: boolean): unknown =>
    JSON.parse(whole(homeEntry(readSentEntry(lie), { ...place, owns }), 9).toString());
  expect(read(true)).toMatchObject({ tenant: "ten_1", details: { cell: "us", cell_index: 7 } });
  expect(read(false)).toMatchObject({
    tenant: null,
    details: { cell: "us", cell_index: 7, cell_tenant: "ten_1" },
  });
});
