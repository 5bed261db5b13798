import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { compileSchema, schemaProblems } from "#webhooks/event-types/schema-validator.ts";
import { parseExactJson } from "#domain/decimal.ts";
import { cpuMs } from "#test/support/cpu-time.ts";

/** CPU time. Stalls take tens of milliseconds. */
const STALL_MAX_MS = 2_000;

function timed<T>(work: () => T): T {
  const before = cpuMs();
  const result = work();
  expect(cpuMs() - before).toBeLessThan(STALL_MAX_MS);
  return result;
}

const TOO_COMPLEX = [{ pointer: "/data", code: "too_complex", detail: expect.any(String) as string }];

describe("a hostile schema ends within its steps:", () => {
  test("references that double forty times", () => {
    const definitions: Record<string, unknown> = { l40: { type: "object" } };
    for (let level = 0; level < 40; level += 1) {
      const next = { $ref: `#/$defs/l${level + 1}` };
      definitions[`l${level}`] = { allOf: [next, next] };
    }
    const check = compileSchema({ $defs: definitions, $ref: "#/$defs/l0" });
    expect(timed(() => check({}))).toEqual(TOO_COMPLEX);
  });

  test("references that double with each level of the data", () => {
    const again = { $ref: "#" };
    const check = compileSchema({ properties: { a: { allOf: [again, again] } } });
    let data: unknown = {};
    for (let level = 0; level < 60; level += 1) {
      data = { a: data };
    }
    expect(timed(() => check(data))).toEqual(TOO_COMPLEX);
  });

  test("patterns that would backtrack", () => {
    const check = compileSchema({
      properties: { a: { pattern: "^(a+)+$" } },
      patternProperties: { "^(a|a?)+$": true },
    });
    expect(timed(() => check({ a: `${"a".repeat(200_000)}!` }))).toMatchObject([{ pointer: "/data/a" }]);
    expect(timed(() => check({ ["a".repeat(200_000)]: 1 }))).toEqual([]);
  });

  test("expressions with as many states as there are characters", () => {
    const pattern = "^(.*[ab].{100}z|.*[bc].{99}y|.*[cd].{98}x)\\d$";
    const text = [...randomBytes(250_000)].map((byte) => "abzxycd "[byte & 7]).join("");
    const check = compileSchema({
      properties: { text: { pattern } },
      patternProperties: { [pattern]: true },
    });
    expect(timed(() => check({ text }))).toEqual(TOO_COMPLEX);
    expect(timed(() => check({ [text]: 1 }))).toEqual(TOO_COMPLEX);
    // Realistic schemas are affordable for a full event.
    const ids = compileSchema({ items: { pattern: "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$" } });
    expect(ids(Array.from({ length: 3_000 }, () => randomUUID()))).toEqual([]);
    expect(compileSchema({ pattern: "^[a-z ]+$" })("a ".repeat(125_000))).toEqual([]);
  });

  test("a large enumeration of objects, on many items", () => {
    const check = compileSchema({
      properties: { n: { items: { enum: Array.from({ length: 1_000 }, (_, at) => ({ a: at, b: [at] })) } } },
    });
    const n = Array.from({ length: 10_000 }, (_, at) => ({ a: at, b: [0] }));
    expect(timed(() => check({ n }))).toEqual(TOO_COMPLEX);
  });

  test("unique items, compared by content", () => {
    const check = compileSchema({ properties: { n: { uniqueItems: true } } });
    const n = Array.from({ length: 20_000 }, (_, at) => ({ a: at, b: 1 }));
    expect(timed(() => check({ n }))).toEqual([]);
    expect(
      check({
        n: [
          { a: 1, b: 2 },
          { b: 2, a: 1 },
        ],
      }),
    ).toMatchObject([{ code: "unique_items" }]);
  });

  test("data that is invalid everywhere gets twenty errors", () => {
    const check = compileSchema({ properties: { n: { items: { type: "string" } } } });
    expect(timed(() => check({ n: Array.from({ length: 100_000 }, () => 1) }))).toHaveLength(20);
    expect(
      compileSchema({ additionalProperties: false })({ ["k".repeat(100_000)]: 1 })[0]?.pointer,
    ).toHaveLength(256);
  });

  test("compiling a schema of the largest size", () => {
    const properties = Object.fromEntries(Array.from({ length: 4_999 }, (_, at) => [`p${at}`, {}]));
    expect(timed(() => schemaProblems({ properties }))).toEqual([]);
    expect(timed(() => compileSchema({ properties })({}))).toEqual([]);
    expect(schemaProblems({ properties: { ...properties, more: {} } })).toMatchObject([
      { code: "too_large" },
    ]);
    const dense = Array.from({ length: 1_000 }, (_, at) => ({
      properties: { [`p${at}`]: { type: ["string", "null"], enum: ["a", "b"], maxLength: 9 } },
      required: ["a"],
    }));
    expect(timed(() => schemaProblems({ allOf: dense }))).toEqual([]);
    expect(timed(() => compileSchema({ allOf: dense })({ a: 1 }))).toEqual([]);
  });

  test.each([
    [
      "propertyNames",
      { propertyNames: true },
      Object.fromEntries(Array.from({ length: 30_000 }, (_, at) => [at, 1])),
    ],
    ["items", { items: true }, Array.from({ length: 100_000 }, () => 1)],
    ["contains", { contains: true, minContains: 200_000 }, Array.from({ length: 100_000 }, () => 1)],
    ["unevaluatedItems", { unevaluatedItems: true }, Array.from({ length: 100_000 }, () => 1)],
    ["uniqueItems", { uniqueItems: true }, ["x".repeat(250_000)]],
  ])("references to a schema that looks at everything: %s", (_keyword, looking, data) => {
    const allOf = Array.from({ length: 4_000 }, () => ({ $ref: "#/$defs/all" }));
    const check = compileSchema({ $defs: { all: looking }, allOf });
    expect(timed(() => check(data))).toEqual(TOO_COMPLEX);
  });

  test("a chain of references as long as the schema", () => {
    const links = Array.from({ length: 2_400 }, (_, at) => [`l${at}`, { $ref: `#/$defs/l${at + 1}` }]);
    const chain = { $defs: { ...Object.fromEntries(links), l2400: true }, $ref: "#/$defs/l0" };
    expect(timed(() => schemaProblems(chain))).toEqual([]);
    const loop = { ...chain, $defs: { ...chain.$defs, l2400: { $ref: "#/$defs/l0" } } };
    expect(timed(() => schemaProblems(loop))).toMatchObject([{ code: "reference" }]);
  });

  test("names of classes of Unicode", () => {
    const names = ["Greek", "Latin", "Cyrillic", "Arabic", "Hebrew", "Thai", "Han", "Khmer", "Lao", "Thaana"];
    const allOf = names.map((name) => ({ pattern: `\\p{Script_Extensions=${name}}[^\\p{scx=${name}}]` }));
    expect(timed(() => schemaProblems({ allOf: allOf.slice(0, 5) }))).toEqual([]);
    expect(schemaProblems({ allOf })).toMatchObject([{ code: "pattern" }]);
  });

  test("numbers as long as the event, and divisors as long as the schema", () => {
    const number = (text: string): unknown => parseExactJson(text);
    const value = "7".repeat(250_000);
    expect(timed(() => compileSchema({ multipleOf: 0.01 })(number(value)))).toEqual([]);
    const powers = [String(2n ** 200_000n), `1${"0".repeat(60_000)}1`, `1e${"9".repeat(60_000)}`];
    for (const divisor of powers) {
      const check = compileSchema({ properties: { n: { items: { multipleOf: number(divisor) } } } });
      const few = number(`[${value}]`);
      const many = number(`[${Array.from({ length: 20_000 }, (_, at) => `${at}.5`).join(",")}]`);
      expect(timed(() => check({ n: few }))).not.toEqual([]);
      expect(timed(() => check({ n: many }))).not.toEqual([]);
    }
    const again = { allOf: Array.from({ length: 300 }, () => ({ $ref: "#/$defs/by" })) };
    const check = compileSchema({ ...again, $defs: { by: { multipleOf: number("7".repeat(20_001)) } } });
    expect(timed(() => check(number(value)))).toEqual(TOO_COMPLEX);
  });
});
