import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseExactJson } from "#domain/decimal.ts";
import { compileFilter } from "#webhooks/ingest/event-filter.ts";
import { cases } from "#test/support/properties.ts";

type Json = Readonly<Record<string, unknown>>;

function passes(filter: unknown, data: unknown, type = "order.paid"): boolean {
  const compiled = compileFilter(filter);
  if (typeof compiled !== "function") {
    throw new TypeError(`${compiled.pointer} ${compiled.detail}`);
  }
  return compiled({ type, data });
}

const ORDER = {
  amount: 120,
  currency: "EUR",
  customer: { id: "c1", tags: ["vip", "eu"], address: null },
  items: [
    { sku: "a-1", price: 20 },
    { sku: "b-2", price: 100, gift: true },
  ],
  matrix: [[1, 2], [3]],
  length: 7,
};

describe("a filter accepts", () => {
  test.each<readonly [string, Json, boolean]>([
    ["an equal value", { "data.currency": "EUR" }, true],
    ["not another value", { "data.currency": "USD" }, false],
    ["in the nested spelling too", { data: { currency: "EUR", customer: { id: "c1" } } }, true],
    ["the type", { type: "order.paid" }, true],
    ["the type by its prefix", { type: { $startsWith: "order." } }, true],
    ["a greater number", { "data.amount": { $gt: 119, $lte: 120 } }, true],
    ["not a number that is not greater", { "data.amount": { $gt: 120 } }, false],
    ["not a number compared with a string", { "data.amount": { $gt: "1" } }, false],
    ["one of a list", { "data.currency": { $in: ["USD", "EUR"] } }, true],
    ["not a value of an excluding list", { "data.currency": { $nin: ["USD", "EUR"] } }, false],
    ["an element of an array", { "data.customer.tags": "vip" }, true],
    ["a whole array", { "data.customer.tags": ["vip", "eu"] }, true],
    ["not an array in another order", { "data.customer.tags": ["eu", "vip"] }, false],
    ["all of several elements", { "data.customer.tags": { $all: ["eu", "vip"] } }, true],
    ["a member of any element", { "data.items.sku": "b-2" }, true],
    ["not a member of another element", { "data.items.0.sku": "b-2" }, false],
    [
      "an element that meets several conditions",
      { "data.items": { $elemMatch: { sku: "b-2", price: 100 } } },
      true,
    ],
    [
      "not two elements that meet them only together",
      { "data.items": { $elemMatch: { sku: "a-1", price: 100 } } },
      false,
    ],
    ["elements that are values", { "data.customer.tags": { $elemMatch: { $endsWith: "ip" } } }, true],
    ["an array of a length", { "data.items": { $size: 2 } }, true],
    ["a present member", { "data.items.gift": { $exists: true } }, true],
    ["an absent member", { "data.refund": { $exists: false } }, true],
    ["null for an absent member", { "data.refund": null, "data.customer.address": null }, true],
    ["a different value", { "data.currency": { $ne: "USD" } }, true],
    ["not a value that differs in one element only", { "data.items.sku": { $ne: "b-2" } }, false],
    ["not a member that is missing in one element only", { "data.items.gift": { $exists: false } }, false],
    ["conditions that different elements meet", { "data.items.price": { $gt: 90, $lt: 30 } }, true],
    ["the negation of a condition", { "data.amount": { $not: { $gte: 200 } } }, true],
    ["one of two conditions", { $or: [{ "data.amount": 1 }, { "data.currency": "EUR" }] }, true],
    ["not one condition of two", { $and: [{ "data.amount": 120 }, { "data.currency": "USD" }] }, false],
    ["neither of two conditions", { $nor: [{ "data.amount": 1 }, { "data.currency": "USD" }] }, true],
    ["one of two conditions, below a path", { data: { $or: [{ amount: 1 }, { currency: "EUR" }] } }, true],
    ["a member with the name of a property", { "data.length": 7 }, true],
    [
      "an equal object, whatever the order of its members",
      { "data.items.0": { $eq: { price: 20, sku: "a-1" } } },
      true,
    ],
  ])("%s", (_name, filter, expected) => {
    expect(passes(filter, ORDER)).toBe(expected);
  });

  test("only the event's own members, and no inherited ones", () => {
    for (const path of [
      "data.constructor",
      "data.toString",
      "data.items.length",
      "data.currency.length",
      "data.__proto__",
    ]) {
      expect({ path, there: passes({ [path]: { $exists: true } }, ORDER) }).toEqual({ path, there: false });
    }
    const own = JSON.parse('{"__proto__":{"a":1},"constructor":2,"hasOwnProperty":3}') as unknown;
    expect(passes({ "data.__proto__.a": 1, "data.constructor": 2, "data.hasOwnProperty": 3 }, own)).toBe(
      true,
    );
  });
});

describe("a filter is rejected, with a pointer to the fault,", () => {
  test.each<readonly [string, unknown, string]>([
    ["when it runs code", { $where: "true" }, "/$where"],
    ["when it has a regular expression", { "data.a": { $regex: "(a+)+$" } }, "/data.a/$regex"],
    ["when its operator is unknown", { "data.a": { $gt: 1, $near: 2 } }, "/data.a/$near"],
    ["when it mixes operators and members", { data: { $gt: 1, a: 2 } }, "/data/a"],
    ["when it does not begin at the event", { amount: 1 }, "/amount"],
    ["when it does not begin at the event, inside", { $or: [{ amount: 1 }] }, "/$or/0/amount"],
    ["when it is empty", {}, ""],
    ["when a part is empty", { data: {} }, "/data"],
    ["when a list is empty", { "data.a": { $in: [] } }, "/data.a/$in"],
    ["when a list is long", { "data.a": { $in: Array.from({ length: 101 }, (_, i) => i) } }, "/data.a/$in"],
    ["when a number is beyond a double", { "data.a": 2 ** 53 }, "/data.a/$eq"],
    ["when such a number is inside", { "data.a": { $in: [1, 2 ** 60] } }, "/data.a/$in/1"],
    ["when objects are compared by order", { "data.a": { $gt: {} } }, "/data.a/$gt"],
    ["when a path is empty", { "data.": 1 }, "/data."],
    ["when it is an array", [], ""],
    ["when it is not an object", "x", ""],
    [
      "when it has many conditions",
      Object.fromEntries(Array.from({ length: 65 }, (_, i) => [`data.m${i}`, i])),
      "/data.m64",
    ],
  ])("%s", (_name, filter, pointer) => {
    expect(compileFilter(filter)).toMatchObject({ pointer });
  });

  test("when it is too deep", () => {
    let filter: unknown = { "data.a": 1 };
    for (let level = 0; level < 20; level += 1) {
      filter = { $and: [filter] };
    }
    expect(compileFilter(filter)).toMatchObject({ code: "too_deep" });
  });
});

/** An independent interpretation of the same language: lists what a path reaches, then compares. */
function reach(value: unknown, path: readonly string[]): unknown[] {
  const [name, ...rest] = path;
  if (name === undefined) {
    return [value];
  }
  if (Array.isArray(value)) {
    if (/^\d+$/.test(name)) {
      return reach(value[Number(name)], rest);
    }
    const objects = value.filter((item) => typeof item === "object" && item !== null && !Array.isArray(item));
    return objects.length === 0 ? [undefined] : objects.flatMap((item) => reach(item, path));
  }
  const has = typeof value === "object" && value !== null && Object.hasOwn(value, name);
  return has ? reach((value as Json)[name], rest) : [undefined];
}

function canonical(value: unknown): string {
  return JSON.stringify(value ?? null, (_key, part: unknown) =>
    typeof part === "object" && part !== null && !Array.isArray(part)
      ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1)))
      : part,
  );
}

function modelCondition(reached: readonly unknown[], operator: string, operand: unknown): boolean {
  const spread = reached.flatMap((value) =>
    Array.isArray(value) ? [value, ...(value as unknown[])] : [value],
  );
  const equal = (wanted: unknown): boolean => spread.some((value) => canonical(value) === canonical(wanted));
  switch (operator) {
    case "$eq":
      return equal(operand);
    case "$in":
      return (operand as unknown[]).some(equal);
    case "$gt":
      return spread.some(
        (value) => typeof value === typeof operand && (value as number) > (operand as number),
      );
    case "$lte":
      return spread.some(
        (value) => typeof value === typeof operand && (value as number) <= (operand as number),
      );
    case "$exists":
      return reached.some((value) => value !== undefined) === operand;
    default:
      return reached.some((value) => Array.isArray(value) && value.length === operand);
  }
}

const name = fc.constantFrom("a", "b", "0", "constructor", "length");
const scalar = fc.oneof(
  fc.integer({ min: -2, max: 2 }),
  fc.constantFrom("", "x", "1"),
  fc.boolean(),
  fc.constant(null),
);
const { value: data } = fc.letrec((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    scalar,
    fc.array(tie("value"), { maxLength: 3 }),
    fc.dictionary(name, tie("value"), { maxKeys: 3 }),
  ),
}));
const condition = fc.oneof(
  fc.tuple(fc.constant("$eq"), data),
  fc.tuple(fc.constant("$in"), fc.array(scalar, { minLength: 1, maxLength: 3 })),
  fc.tuple(
    fc.constantFrom("$gt", "$lte"),
    fc.oneof(fc.integer({ min: -2, max: 2 }), fc.constantFrom("", "x")),
  ),
  fc.tuple(fc.constant("$exists"), fc.boolean()),
  fc.tuple(fc.constant("$size"), fc.integer({ min: 0, max: 3 })),
);

test("any condition on any data agrees with an independent interpretation of the language", () => {
  fc.assert(
    fc.property(
      fc.array(name, { minLength: 1, maxLength: 4 }),
      condition,
      data,
      fc.boolean(),
      (path, [operator, operand], value, negated) => {
        const positive = { [operator]: operand };
        const compiled = compileFilter({
          [["data", ...path].join(".")]: negated ? { $not: positive } : positive,
        });
        fc.pre(typeof compiled === "function");
        const event = { type: "a.b", data: value };
        const holds = modelCondition(reach(event, ["data", ...path]), operator, operand);
        expect(compiled(event)).toBe(negated ? !holds : holds);
      },
    ),
    cases(300),
  );
});

test("any JSON as a filter is accepted or rejected, and never throws afterwards", () => {
  const key = fc.oneof(
    name,
    fc.constantFrom(
      "data",
      "type",
      "data.a",
      "$or",
      "$and",
      "$not",
      "$elemMatch",
      "$in",
      "$eq",
      "$gt",
      "__proto__",
    ),
  );
  const { value: filter } = fc.letrec((tie) => ({
    value: fc.oneof(
      { maxDepth: 6 },
      scalar,
      fc.array(tie("value"), { maxLength: 3 }),
      fc.dictionary(key, tie("value"), { maxKeys: 3 }),
    ),
  }));
  fc.assert(
    fc.property(filter, data, (candidate, value) => {
      const compiled = compileFilter(candidate);
      expect(
        typeof compiled === "function"
          ? typeof compiled({ type: "a.b", data: value })
          : typeof compiled.pointer,
      ).toMatch(/boolean|string/);
    }),
    cases(300),
  );
});

test("a hostile filter on a large event ends within its steps, and accepts the event", () => {
  let looks = 0;
  const counting: ProxyHandler<object> = {
    getOwnPropertyDescriptor: (target, key) => {
      looks += 1;
      return Reflect.getOwnPropertyDescriptor(target, key);
    },
  };
  const rows = Array.from({ length: 60_000 }, () => new Proxy({ a: 1 }, counting));
  const filter = Object.fromEntries(
    Array.from({ length: 60 }, (_, index) => [
      `data.rows.m${index}`,
      { $in: [{ $eq: index }, index].slice(1) },
    ]),
  );
  const compiled = compileFilter({
    $nor: [{ $or: Object.entries(filter).map(([path, member]) => ({ [path]: member })) }],
  });
  if (typeof compiled !== "function") {
    throw new TypeError(compiled.detail);
  }
  expect(compiled({ type: "a.b", data: { rows } })).toBe(true);
  // 3,600,000 without the limit.
  expect(looks).toBeGreaterThan(10_000);
  expect(looks).toBeLessThanOrEqual(100_000);
});

test("numbers of the event are compared by their texts", () => {
  const event = (text: string): unknown => parseExactJson(`{"n":${text}}`);
  expect(passes({ "data.n": { $lt: 100 } }, event("99.99999999999999999999"))).toBe(true);
  expect(passes({ "data.n": { $gte: 100 } }, event("99.99999999999999999999"))).toBe(false);
  expect(passes({ "data.n": 9_007_199_254_740_991 }, event("9007199254740991.0000000001"))).toBe(false);
  expect(passes({ "data.n": { $gt: 0 } }, event("1e-400"))).toBe(true);
  expect(passes({ "data.n": { $gt: 5 } }, event("7".repeat(4_301)))).toBe(true);
  expect(passes({ "data.n.digits": { $exists: true } }, event("1e400"))).toBe(false);
});
