import { randomBytes, randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { compileSchema, schemaProblems } from "../../../../src/webhooks/event-types/schema-validator.ts";
import { cpuMs } from "../../../support/cpu-time.ts";

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
    const properties = Object.fromEntries(
      Array.from({ length: 299 }, (_, at) => [
        `p${at}`,
        { type: ["string", "null"], enum: ["a", "b"], maxLength: 9 },
      ]),
    );
    expect(timed(() => schemaProblems({ properties, additionalProperties: false }))).toEqual([]);
    expect(schemaProblems({ properties: { ...properties, more: {} } })).toMatchObject([
      { code: "too_large" },
    ]);
  });
});
