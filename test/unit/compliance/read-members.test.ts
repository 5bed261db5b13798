/** The fast path for reading an entry accepts nothing that the full parser rejects. */
import { randomBytes } from "node:crypto";
import { describe, expect, test } from "vitest";
import { type ComplianceEntry, encodeEntry } from "#compliance/entry.ts";
import { readMembers } from "#compliance/read-members.ts";

const AT = "2025-11-20T14:46:40.123Z";
const ENTRY: ComplianceEntry = {
  type: "role.changed",
  actor: "operator:root",
  tenant: "ten_1",
  target: "rol_1",
  details: { a: "x", b: [1, { c: null }] },
};

function written(entry: ComplianceEntry, index = 7): string {
  const sources = { clock: { now: () => Date.parse(AT) }, randomBytes };
  const { beforeIndex, afterIndex } = encodeEntry(entry, sources);
  return `${beforeIndex.toString()}${index}${afterIndex.toString()}`;
}

function read(text: string): unknown {
  return readMembers(Buffer.from(text));
}

test.each<readonly [string, Partial<ComplianceEntry>]>([
  ["in its usual form", {}],
  ["without details", { details: {} }],
  ["without a tenant", { tenant: null, target: null }],
  ["with a reason in another language", { reason: 'gestohlen: "Büro" \\ 東京 \u{1f511}\n' }],
  ["whose details look like the members after them", { details: { a: '},"idx":1,"reason":null,"' } }],
  ["with a replacement character", { reason: "\ufffd" }],
])("an entry %s is read", (_what, change) => {
  const entry = { ...ENTRY, ...change };
  expect(read(written(entry))).toMatchObject({ at: AT, idx: 7, tenant: entry.tenant, type: "role.changed" });
});

describe("is not canonical:", () => {
  const text = written(ENTRY);
  test.each<readonly [string, string]>([
    ["a space", text.replace(',"idx"', ', "idx"')],
    ["a space at the end", `${text} `],
    ["a line end", `${text}\n`],
    ["members in another order", text.replace(/("idx":7),("reason":null)/, "$2,$1")],
    ["a member twice", text.replace('"idx":7', '"idx":7,"idx":7')],
    ["details in another order", text.replace('{"a":"x",', "{").replace("}]}", '}],"a":"x"}')],
    ["a space in details", text.replace('"a":"x"', '"a": "x"')],
    ["a fraction in details", text.replace('"a":"x"', '"a":1.5')],
    ["a number in another spelling", text.replace('"a":"x"', '"a":1e0')],
    ["unterminated details", text.replace("}]}", "}]")],
    ["a letter as an escape", text.replace("operator:root", "operator:r\\u006fot")],
    ["a slash as an escape", text.replace("operator:root", "operator\\/root")],
    ["a control character", text.replace("operator:root", "operator\u0001root")],
    ["a leading zero", text.replace('"idx":7', '"idx":07')],
    ["an exponent", text.replace('"idx":7', '"idx":7e0')],
    ["a truncated text", text.slice(0, -5)],
    ["nothing", ""],
  ])("%s", (_what, changed) => {
    expect(changed).not.toBe(text);
    expect(read(changed)).toBeUndefined();
  });

  test("bytes that are not UTF-8", () => {
    const bytes = Buffer.from(text);
    for (const place of [text.indexOf("root"), text.indexOf('"x"') + 1]) {
      const changed = Buffer.from(bytes);
      changed[place] = 0xff;
      expect(readMembers(changed)).toBeUndefined();
    }
  });
});
