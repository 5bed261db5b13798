import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseExactJson } from "#domain/decimal.ts";
import { compileSchema, schemaProblems } from "#webhooks/event-types/schema-validator.ts";
import { cases } from "#test/support/properties.ts";

const name = fc.constantFrom("a", "b", "__proto__", "constructor", "x\0y", "");
/** Returns the value as a parser creates it: objects with the usual prototype. */
const parsed = (value: unknown): unknown => JSON.parse(JSON.stringify(value)) as unknown;
const { value: jsonTree } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    fc.integer({ min: -2, max: 3 }),
    fc.double({ noNaN: true }),
    fc.constantFrom("", "a", "aa", "\0", "💥"),
    fc.boolean(),
    fc.constant(null),
    fc.array(tie("value"), { maxLength: 4 }),
    fc.dictionary(name, tie("value"), { maxKeys: 4 }),
  ),
}));
const json = jsonTree.map(parsed);
const { schema: schemaTree } = fc.letrec((tie) => ({
  schema: fc.oneof(
    { maxDepth: 3 },
    fc.record({ type: fc.constantFrom("object", "array", "string", "number", "integer", "null") }),
    fc.record({
      enum: fc.uniqueArray(json, { minLength: 1, maxLength: 3, selector: (value) => JSON.stringify(value) }),
    }),
    fc.record({ minimum: fc.integer({ min: -1, max: 2 }) }),
    fc.record({ maxLength: fc.integer({ min: 0, max: 2 }) }),
    fc.record({ pattern: fc.constantFrom("^a*$", "a", "^(a|b)+$", "^[^\\u0000]*$") }),
    fc.record({ uniqueItems: fc.boolean() }),
    fc.record({ required: fc.uniqueArray(fc.constantFrom("a", "b", "constructor"), { maxLength: 2 }) }),
    fc.record({
      properties: fc.dictionary(fc.constantFrom("a", "b", "constructor"), tie("schema"), { maxKeys: 2 }),
    }),
    fc.record({ additionalProperties: tie("schema") }),
    fc.record({ propertyNames: tie("schema") }),
    fc.record({ items: tie("schema") }),
    fc.record({ not: tie("schema") }),
    fc.record({ anyOf: fc.array(tie("schema"), { minLength: 1, maxLength: 2 }) }),
    fc.record({ oneOf: fc.array(tie("schema"), { minLength: 1, maxLength: 2 }) }),
  ),
}));
const schema = schemaTree.map(parsed);

test("the validator agrees with the plain one, which has no step limit", () => {
  const plain = new Ajv2020({ strict: false, ownProperties: true, logger: false });
  fc.assert(
    fc.property(schema, json, (candidate, data) => {
      expect(schemaProblems(candidate)).toEqual([]);
      expect(compileSchema(candidate)(data).length === 0).toBe(plain.validate(candidate as object, data));
    }),
    cases(60),
  );
});

test("any JSON as a schema is accepted, or rejected with a pointer; any data is checked, and nothing throws", () => {
  const keyword = fc.oneof(
    name,
    fc.constantFrom(
      "$ref",
      "$defs",
      "$id",
      "allOf",
      "properties",
      "items",
      "pattern",
      "enum",
      "type",
      "if",
      "$schema",
    ),
  );
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 5 },
      json,
      fc.constantFrom("#", "#/$defs/a", "(a+)+$", "object"),
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(keyword, tie("value"), { maxKeys: 3 }),
    ),
  }));
  fc.assert(
    fc.property(value, json, (candidate, data) => {
      const problems = schemaProblems(candidate);
      expect(problems.every(({ pointer }) => pointer === "" || pointer.startsWith("/"))).toBe(true);
      const found = problems.length === 0 ? compileSchema(candidate)(data) : [];
      expect(found.every(({ pointer }) => pointer.startsWith("/data"))).toBe(true);
    }),
    cases(100),
  );
});

test("names that every object inherits are ordinary names", () => {
  const data = (text: string): unknown => JSON.parse(text) as unknown;
  for (const inherited of ["valueOf", "toString", "constructor", "hasOwnProperty", "__proto__", "toJSON"]) {
    const one = `{"${inherited}":1}`;
    const two = `{"${inherited}":2}`;
    for (const check of [compileSchema({ const: data(one) }), compileSchema({ enum: [null, data(one)] })]) {
      expect({ inherited, found: check(data(one)) }).toEqual({ inherited, found: [] });
      expect({ inherited, found: check(data(two)).length }).toEqual({ inherited, found: 1 });
    }
    const unique = compileSchema({ uniqueItems: true });
    expect(unique(data(`[${one},${two}]`))).toEqual([]);
    expect(unique(data(`[${one},${one}]`))).toHaveLength(1);
    expect(compileSchema({ required: [inherited] })({})).toHaveLength(1);
  }
});

test("a schema's texts never become code", () => {
  const evil = '"];globalThis.broken=1;//`${globalThis.broken=1}*/\u2028';
  const candidate = {
    title: evil,
    $comment: evil,
    required: [evil],
    properties: { [evil]: { const: evil, description: evil } },
    dependentRequired: { [evil]: [evil] },
    $defs: { safe: { enum: [evil] } },
  };
  expect(schemaProblems(candidate)).toEqual([]);
  expect(compileSchema(candidate)({ [evil]: evil })).toEqual([]);
  expect(compileSchema(candidate)({})).toHaveLength(1);
  expect((globalThis as { broken?: unknown }).broken).toBeUndefined();
});

const read = (text: string): unknown => parseExactJson(text);
/** Returns the codes of the problems of JSON texts. */
const codes = (schema: string, data: string): string[] =>
  compileSchema(read(schema))(read(data)).map(({ code }) => code);

test("numbers are compared by their texts, not as doubles", () => {
  const cents = '{"multipleOf":0.01}';
  for (const price of ["0.07", "0.94", "8.69", "19.99", "143.48", "9313.8", "7".repeat(4_301), "1e999999"]) {
    expect({ price, codes: codes(cents, price) }).toEqual({ price, codes: [] });
  }
  expect(codes('{"multipleOf":2}', "9007199254740993")).toEqual(["multiple_of"]);
  expect(codes('{"maximum":9007199254740992}', "9007199254740993")).toEqual(["maximum"]);
  expect(codes('{"exclusiveMinimum":0}', "1e-400")).toEqual([]);
  expect(codes('{"exclusiveMaximum":1}', "0.99999999999999999999")).toEqual([]);
  expect(codes('{"const":9007199254740993}', "9007199254740992")).toEqual(["const"]);
  expect(codes('{"enum":[9007199254740992,1e400]}', "9007199254740993")).toEqual(["enum"]);
  expect(codes('{"enum":[9007199254740992,1e400]}', "10e399")).toEqual([]);
  expect(codes('{"uniqueItems":true}', "[9007199254740992,9007199254740993]")).toEqual([]);
  expect(codes('{"uniqueItems":true}', '[{"n":1e400},{"n":10e399}]')).toEqual(["unique_items"]);
  for (const whole of ["1.0", "1e2", "1e400", "100000000000000000000.0"]) {
    expect({ whole, codes: codes('{"type":"integer"}', whole) }).toEqual({ whole, codes: [] });
  }
  expect(codes('{"type":"integer"}', "1.00000000000000000001")).toEqual(["type"]);
  expect(codes('{"type":["object","string"]}', "1e400")).toEqual(["type"]);
});

test("a schema's own numbers are read as they are written", () => {
  expect(schemaProblems(read('{"multipleOf":1e-400,"minLength":2.0,"maxItems":1e400}'))).toEqual([]);
  expect(schemaProblems(read('{"multipleOf":0}'))).toMatchObject([{ pointer: "/multipleOf" }]);
  expect(schemaProblems(read('{"minLength":-1e-400}'))).toMatchObject([{ pointer: "/minLength" }]);
  expect(schemaProblems(read('{"minLength":1.00000000000000000001}'))).toMatchObject([
    { pointer: "/minLength" },
  ]);
});

describe("what other keywords have evaluated is not unevaluated:", () => {
  const kind = { properties: { kind: { const: "a" } }, required: ["kind"] };
  test.each([
    ["if alone", { if: kind, unevaluatedProperties: false }, { kind: "a" }, []],
    ["if that fails", { if: kind, unevaluatedProperties: false }, { kind: "b" }, ["/data/kind"]],
    [
      "if with else",
      { if: kind, else: { properties: { n: {} } }, unevaluatedProperties: false },
      { kind: "b", n: "x" },
      ["/data/kind"],
    ],
    ["contains", { contains: { type: "string" }, unevaluatedItems: false }, ["x", 1], ["/data/1"]],
    [
      "minContains 0",
      { contains: { type: "string" }, minContains: 0, unevaluatedItems: false },
      [1],
      ["/data/0"],
    ],
    [
      "items in anyOf",
      { anyOf: [{ items: { type: "string" } }, true], unevaluatedItems: false },
      ["x", "y"],
      [],
    ],
    [
      "items in an anyOf that fails",
      { properties: { v: { anyOf: [{ items: { type: "string" } }, true], unevaluatedItems: false } } },
      { v: ["x", 1] },
      ["/data/v/0", "/data/v/1"],
    ],
    [
      "siblings of $ref",
      {
        $defs: { a: { properties: { a: {} } } },
        $ref: "#/$defs/a",
        properties: { b: {} },
        unevaluatedProperties: false,
      },
      { a: 1, b: 1, c: 1 },
      ["/data/c"],
    ],
    [
      "nested allOf",
      { allOf: [{ allOf: [{ properties: { a: {} } }] }], unevaluatedProperties: { type: "string" } },
      { a: 1, b: 1 },
      ["/data/b"],
    ],
    ["not", { not: { not: { properties: { a: {} } } }, unevaluatedProperties: false }, { a: 1 }, ["/data/a"]],
    [
      "cousins",
      { allOf: [{ properties: { a: {} } }, { unevaluatedProperties: false }] },
      { a: 1 },
      ["/data/a"],
    ],
  ])("%s", (_name, candidate, data, pointers) => {
    expect(schemaProblems(candidate)).toEqual([]);
    expect(compileSchema(candidate)(data).map(({ pointer }) => pointer)).toEqual(pointers);
  });
});

describe("patterns have the meaning of ECMA 262:", () => {
  const SPACES = "\t\n\v\f\r \u00a0\u1680\u2000\u200a\u2028\u2029\u202f\u205f\u3000\ufeff";
  const PATTERNS = [
    "^\\s$",
    "^\\S$",
    "^[\\s]$",
    "^[^\\s]$",
    "^[\\S]$",
    "^[^\\S]$",
    "^.$",
    "^\\d$",
    "^\\D$",
    "^\\w$",
    "^\\W$",
    "a\\b",
    "\\Ba",
    "^a$",
    "^[\\b]$",
    "^\\cJ$",
    "^\\u00e9$",
    "^\\ud83d\\ude00$",
    "^\\u{1f600}$",
    "^[]$",
    "^[^]$",
    "^(?<naïve>a)$",
    "^\\0$",
    "^[.]$",
    "^\\.$",
    "^\\/$",
    "^[\\s\\-.]$",
    "^\\p{Letter}$",
    "^\\p{L}$",
    "^\\P{Letter}$",
    "^[\\p{Letter}\\d]$",
    "^[^\\p{Uppercase_Letter}]$",
    "^[\\P{Lu}]$",
    "^\\p{General_Category=Decimal_Number}$",
    "^\\p{gc=Nd}$",
    "^\\p{Script=Greek}$",
    "^\\p{sc=Grek}$",
    "^\\p{Script_Extensions=Greek}$",
    "^\\p{Alphabetic}$",
    "^\\p{Emoji}$",
    "^\\p{White_Space}$",
    "^\\p{ASCII}$",
    "^\\p{Any}$",
    "^\\p{ID_Start}$",
    "^\\p{Noncharacter_Code_Point}$",
    "^\\p{Cn}$",
    "^\\p{Unassigned}$",
    "^\\p{Private_Use}$",
  ];
  const texts = [
    ...Array.from(SPACES),
    ...Array.from("aZ09_-.é\0\n\u0008ΩЯ٣😀§\u{10ffff}\ufffe\u{50000}\u{f0000}\u{e0001}\u{2a6dd}\u0378"),
    "a\n",
    "\na",
    "",
    "ab",
  ];
  test.each(PATTERNS)("%s", (pattern) => {
    expect(schemaProblems({ pattern })).toEqual([]);
    const check = compileSchema({ pattern });
    const ecma = new RegExp(pattern, "u");
    const differing = texts.filter((text) => (check(text).length === 0) !== ecma.test(text));
    expect(differing).toEqual([]);
  });

  test.each([
    ["a(?=b)", "look ahead"],
    ["(?<!a)b", "look ahead or behind"],
    ["(a)\\1", "back-reference"],
    ["(?<n>a)\\k<n>", "back-reference"],
    ["\\p{Klingon}", "Klingon is unknown"],
    ["a{1001}", "1,000 times"],
    ["(a{100}){9}b{200}", "1,120 instructions"],
    ["(a", "missing closing"],
  ])("%s is refused with the reason", (pattern, reason) => {
    expect(schemaProblems({ properties: { a: { pattern } } })).toMatchObject([
      {
        pointer: "/properties/a/pattern",
        code: "pattern",
        detail: expect.stringContaining(reason) as string,
      },
    ]);
  });

  test("many long names of classes in one schema are refused", () => {
    const scripts = [
      "Greek",
      "Latin",
      "Cyrillic",
      "Arabic",
      "Hebrew",
      "Thai",
      "Han",
      "Hiragana",
      "Katakana",
      "Hangul",
    ];
    const schemaOf = (names: readonly string[]): unknown => ({
      allOf: names.map((n) => ({ pattern: `\\p{Script=${n}}` })),
    });
    expect(schemaProblems(schemaOf([...scripts, ...scripts]))).toEqual([]);
    expect(schemaProblems(schemaOf([...scripts, "Khmer"]))).toMatchObject([{ code: "pattern" }]);
  });
});

test("pointers of problems are places in the event", () => {
  const check = compileSchema({
    properties: {
      v: {
        anyOf: [
          { items: { type: "string" }, minItems: 5 },
          { prefixItems: [true], items: false },
        ],
      },
      "a/b~": { propertyNames: { maxLength: 1 }, additionalProperties: false },
    },
  });
  const data = { v: [1, "x"], "a/b~": { long: 1 } };
  const pointers = check(data).map(({ pointer }) => pointer);
  expect([...new Set(pointers)].sort()).toEqual(["/data/a~1b~0/long", "/data/v", "/data/v/0"]);
});

test("a schema as large as any that GitHub publishes is accepted", () => {
  const properties = Object.fromEntries(
    Array.from({ length: 1_500 }, (_, at) => [`p${at}`, { type: "string" }]),
  );
  expect(schemaProblems({ properties })).toEqual([]);
  expect(compileSchema({ properties })({ p1499: 1 })).toMatchObject([
    { pointer: "/data/p1499", code: "type" },
  ]);
});

test("references reach any schema of the document", () => {
  const check = compileSchema({
    properties: { a: { type: "string" }, "b%~/": { $ref: "#/properties/a" } },
    items: { $ref: "#/properties/b%25~0~1" },
  });
  expect(check([1])).toMatchObject([{ pointer: "/data/0", code: "type" }]);
  expect(schemaProblems({ $ref: "#/properties/a" })).toMatchObject([{ code: "reference" }]);
  expect(schemaProblems({ $ref: "#/%" })).toMatchObject([{ pointer: "/$ref", code: "reference" }]);
});
