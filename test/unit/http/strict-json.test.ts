import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RawJson, createStrictJsonParser } from "#http/strict-json.ts";
import { SignetError } from "#domain/errors.ts";
import { cases } from "#test/support/properties.ts";

const plain = createStrictJsonParser({ maxDepth: 64 });
const event = createStrictJsonParser({ maxDepth: 4, opaque: { "/data": 3, "/metadata": 2 } });
const batch = createStrictJsonParser({ maxDepth: 4, opaque: { "/events/*/data": 64 } });

function problemOf(text: string | Uint8Array, parse = plain): string | null {
  try {
    parse(Buffer.from(text));
    return null;
  } catch (error) {
    if (error instanceof SignetError && error.code === "INVALID_REQUEST") {
      return error.message;
    }
    throw error;
  }
}

function isJson(bytes: Uint8Array): boolean {
  try {
    JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes));
    return true;
  } catch {
    return false;
  }
}

/** JSON text with arbitrary white space, escapes and number spellings, corrupted at one place. */
const mangledJson = fc
  .tuple(
    fc.json({ stringUnit: "binary" }),
    fc.nat(),
    fc.nat(3),
    fc.constantFrom(
      "",
      '"',
      "\\",
      "\\u00",
      "{",
      "]",
      ",",
      ":",
      "-",
      "0",
      "1e",
      ".",
      " ",
      "\t",
      "\u0001",
      "true",
      "nul",
      "é",
    ),
  )
  .map(([text, at, removed, inserted]) => {
    const from = at % (text.length + 1);
    return Buffer.from(text.slice(0, from) + inserted + text.slice(from + removed)).toString();
  });

describe("strict JSON", () => {
  it("returns the value of JSON.parse, for any JSON", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), fc.constantFrom(undefined, 1, "\t"), (value, indent) => {
        fc.pre(!JSON.stringify(value).includes('"__proto__"'));
        const text = JSON.stringify(value, null, indent);
        expect(plain(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
    );
  });

  it("accepts inside opaque members exactly valid JSON", () => {
    const opaque = createStrictJsonParser({ maxDepth: 1, opaque: { "/data": 1000 } });
    fc.assert(
      fc.property(mangledJson, (text) => {
        expect(problemOf(`{"data":${text}\n}`, opaque) === null).toBe(
          isJson(Buffer.from(`{"data":${text}\n}`)),
        );
      }),
      cases(400),
    );
  });

  it("accepts outside opaque members only valid JSON, and returns its value", () => {
    fc.assert(
      fc.property(mangledJson, (text) => {
        fc.pre(problemOf(text) === null);
        expect(plain(Buffer.from(text))).toEqual(JSON.parse(text));
      }),
      cases(300),
    );
  });

  it("rejects JSON for the documented reasons only", () => {
    fc.assert(
      fc.property(mangledJson, (text) => {
        fc.pre(isJson(Buffer.from(text)));
        expect(problemOf(text) ?? "").toMatch(
          /^$|repeated|__proto__|lone surrogate|U\+0000|out of range|more digits/,
        );
      }),
      cases(300),
    );
  });

  it.each([
    '{"a":1,"a":2}',
    '{"a":1,"b":{},"a":1}',
    '{"a":1,"\\u0061":2}',
    '{"é":1,"\\u00e9":2}',
    '{"":1,"":1}',
    '{"b":{"a":1,"a":1}}',
    '[{"a":1,"a":1}]',
    '{"toString":1,"toString":2}',
    '{"constructor":1,"constr\\u0075ctor":2}',
  ])("rejects the repeated name in %s", (text) => {
    expect(problemOf(text)).toMatch(/the member ".*" is repeated at byte \d+/);
  });

  it.each([
    ["", "unexpected end at byte 0"],
    [" ", "unexpected end at byte 1"],
    ["{} {}", "unexpected character at byte 3"],
    ["\u00a0{}", "unexpected character at byte 0"],
    ["{}\0", "unexpected character at byte 2"],
    ["{'a':1}", "unexpected character at byte 1"],
    ['{"a":1,}', "unexpected character at byte 7"],
    ["[1,]", "unexpected character at byte 3"],
    ["[,1]", "unexpected character at byte 1"],
    ["[1 2]", "unexpected character at byte 3"],
    ["// x\n{}", "unexpected character at byte 0"],
    ["01", "unexpected character at byte 1"],
    ["+1", "unexpected character at byte 0"],
    ["-", "unexpected end at byte 1"],
    ["1.", "unexpected end at byte 2"],
    [".5", "unexpected character at byte 0"],
    ["1e", "unexpected end at byte 2"],
    ["NaN", "unexpected character at byte 0"],
    ["nulx", "unexpected character at byte 0"],
    ["tru", "unexpected character at byte 0"],
    ['"\u0001"', "unexpected character at byte 1"],
    ['"\\x"', "unexpected character at byte 2"],
    ['"\\u12G4"', "unexpected character at byte 5"],
    ['"abc', "unexpected end at byte 4"],
    ['"abc\\', "unexpected end at byte 5"],
    ["1e999", "number out of range at byte 0"],
    ["[19.99, 19.990000000000000001]", "number with more digits than a double has at byte 8"],
    ["0.30000000000000000001e1", "number with more digits than a double has at byte 0"],
    ["1e-400", "number with more digits than a double has at byte 0"],
    ["9007199254740993.5", "number with more digits than a double has at byte 0"],
    ['"\\ud800"', "lone surrogate at byte 0"],
    ['"\\udc00\\ud800"', "lone surrogate at byte 0"],
    ['"a\\u0000b"', "U+0000 is not allowed at byte 0"],
    ['{"__proto__":{"admin":true}}', 'the member name "__proto__" is not allowed at byte 1'],
    ['{"\\u005f_proto__":1}', 'the member name "__proto__" is not allowed at byte 1'],
  ])("rejects %j: %s", (text, problem) => {
    expect(problemOf(text)).toBe(`The body is not acceptable JSON: ${problem}.`);
  });

  it("accepts a surrogate pair written as escapes", () => {
    expect(plain(Buffer.from('"\\ud83d\\ude00"'))).toBe("\u{1f600}");
  });

  it.each([
    [[0x22, 0xff, 0x22]],
    [[0x22, 0xc0, 0xaf, 0x22]],
    [[0x22, 0xed, 0xa0, 0x80, 0x22]],
    [[0x22, 0xe2, 0x82, 0x22]],
  ])("rejects bytes that are not UTF-8: %j", (bytes) => {
    expect(problemOf(Uint8Array.from(bytes))).toBe("The body is not valid UTF-8.");
  });

  it("rejects nesting beyond the limit, and survives a million brackets", () => {
    const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
    expect(problemOf(nested(64))).toBeNull();
    expect(problemOf(nested(65))).toContain("nested too deeply at byte 64");
    expect(problemOf("[".repeat(1_000_000))).toContain("nested too deeply");
    expect(problemOf('{"a":'.repeat(1_000_000))).toContain("nested too deeply");
  });
});

describe("opaque members", () => {
  it.each([
    '{ "b": 1.0, "a": 1152921504606846977 , "a":1e2 }',
    "-0",
    '"\\ud800 \\u0000"',
    "[1E400,{}]",
    '{"__proto__":1}',
    '"é✓"',
  ])("keep their exact text: %s", (text) => {
    expect(event(Buffer.from(` { "type" : "x", "data" : ${text} , "é":1} `))).toEqual({
      type: "x",
      data: expect.objectContaining({ text }),
      é: 1,
    });
  });

  it.each([
    ["{}", "object"],
    ["[]", "array"],
    ['""', "string"],
    ["-1", "number"],
    ["0", "number"],
    ["true", "boolean"],
    ["false", "boolean"],
    ["null", "null"],
  ])("know their type: %s is %s", (text, kind) => {
    expect(event(Buffer.from(`{"data":${text}}`))).toEqual({
      data: new RawJson(kind as RawJson["kind"], text),
    });
  });

  it("have their own depth limit, and report where they exceed it", () => {
    expect(event(Buffer.from('{"data":[[[]]],"metadata":{"a":{"b":{}}}}'))).toEqual({
      data: new RawJson("array", "[[[]]]"),
      metadata: new RawJson("object", '{"a":{"b":{}}}', 2),
    });
    expect(event(Buffer.from('{"data":[[[[]]]],"x":1}'))).toEqual({
      data: new RawJson("array", "[[[[]]]]", 3),
      x: 1,
    });
    expect(problemOf('{"data":[[[[1 2]]]]}', event)).toContain("unexpected character");
    expect(problemOf('{"data":[[[["\\x"]]]]}', event)).toContain("at byte");
    expect(problemOf(`{"data":${"[".repeat(1_001)}${"]".repeat(1_001)}}`, event)).toContain("too deeply");
    expect(problemOf(`{"data":${'{"a":'.repeat(1_000_000)}`, event)).toContain("too deeply");
  });

  it("are found in every item of a list, and nowhere else", () => {
    const parsed = batch(Buffer.from('{"events":[{"data":{"a":1}},{"data":[2]}],"data":{"a":1}}'));
    expect(parsed).toEqual({
      events: [{ data: new RawJson("object", '{"a":1}') }, { data: new RawJson("array", "[2]") }],
      data: { a: 1 },
    });
    expect(problemOf('{"events":[{"data":{"a":1,"a":2}}]}', batch)).toBeNull();
    expect(problemOf('{"events":[{"x":{"a":1,"a":2}}]}', batch)).toContain("repeated");
  });

  it("must not be repeated", () => {
    expect(problemOf('{"data":{},"data":{}}', event)).toContain('the member "data" is repeated');
    expect(problemOf('{"data":{},"d\\u0061ta":{}}', event)).toContain('the member "data" is repeated');
  });

  it("are opaque even if their name is escaped", () => {
    expect(event(Buffer.from('{"d\\u0061ta":{"a":1,"a":2}}'))).toEqual({
      data: new RawJson("object", '{"a":1,"a":2}'),
    });
  });
});

it("one byte order mark before the value is ignored, and none elsewhere", () => {
  const read = createStrictJsonParser({ maxDepth: 2 });
  expect(read(Buffer.from('\ufeff{"a":1}'))).toEqual({ a: 1 });
  for (const text of ["\ufeff\ufeff{}", " \ufeff{}", "{}\ufeff", "\ufeff"]) {
    expect(() => read(Buffer.from(text))).toThrow("The body is not acceptable JSON");
  }
});
