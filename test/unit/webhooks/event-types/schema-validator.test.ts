import { Ajv2020 } from "ajv/dist/2020.js";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { compileSchema, schemaProblems } from "../../../../src/webhooks/event-types/schema-validator.ts";
import { cases } from "../../../support/properties.ts";

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
