/**
 * Filters of endpoints: MongoDB query documents over an event's `{type, data}`, also in the nested syntax of Hookdeck
 * and Outpost. A filter never runs as code or as a regular expression. It reads only members that the event itself
 * has, and the steps of each evaluation are limited (docs/decisions/0015).
 */
import { compareNumbers, isJsonNumber } from "#domain/decimal.ts";
import { isJsonObject, isSameJson } from "#domain/json-equality.ts";
import type { FieldProblem } from "#domain/errors.ts";

/** Maximum bytes of a filter's JSON. */
export const FILTER_MAX = 4_096;
/** Maximum conditions per filter, at any nesting. */
const CONDITIONS_MAX = 64;
const NESTING_MAX = 8;
const SEGMENTS_MAX = 32;
const LIST_MAX = 100;
/** Maximum values examined for one event by all filters of its type. An event of 256 KiB can contain 130,000. */
const STEPS_MAX = 200_000;

/** The event that a filter is applied to. */
export interface FilteredEvent {
  readonly type: string;
  /** `data`, as parsed by `parseExactJson`. */
  readonly data: unknown;
}

/**
 * Whether the endpoint gets the event. Also true if the evaluation runs out of steps, because an extra delivery is
 * better than a lost one.
 */
export type EventFilter = (event: FilteredEvent, steps?: Steps) => boolean;

/** Steps left for the filters of one event. */
export interface Steps {
  left: number;
}

/** Returns the steps that all filters of an event share, so that fifty endpoints cost no more than one. */
export function stepsOfEvent(): Steps {
  return { left: STEPS_MAX };
}

type Test = (value: unknown, steps: Steps) => boolean;
/** Whether a test passes for any of the values at a path. */
type Reach = (test: Test) => boolean;
/**
 * A condition on the values at a path. Each condition may be met by a different value. A negation requires that no
 * value passes.
 */
type Condition = (reach: Reach) => boolean;

class TooManySteps extends Error {}

/** An error in a filter. */
class FilterProblem extends Error {
  readonly problem: FieldProblem;

  constructor(pointer: string, code: string, detail: string) {
    super(detail);
    this.problem = { pointer, code, detail };
  }
}

type Json = Readonly<Record<string, unknown>>;

function spend(steps: Steps, count = 1): void {
  steps.left -= count;
  if (steps.left < 0) {
    throw new TooManySteps();
  }
}

const INDEX = /^(0|[1-9]\d{0,5})$/;

/** The path and test of a condition. */
interface Target {
  readonly path: readonly string[];
  readonly test: Test;
}

/**
 * Whether a value at the rest of the path passes. An array stands for its object elements, or for one element if the
 * path has a number there. The test gets undefined for a missing value.
 */
function someAt(value: unknown, at: number, target: Target, steps: Steps): boolean {
  spend(steps);
  const name = target.path[at];
  if (name === undefined) {
    return target.test(value, steps);
  }
  if (Array.isArray(value)) {
    return INDEX.test(name)
      ? someAt(value[Number(name)], at + 1, target, steps)
      : someOfElements(value, at, target, steps);
  }
  return isJsonObject(value) && Object.hasOwn(value, name)
    ? someAt(value[name], at + 1, target, steps)
    : target.test(undefined, steps);
}

function someOfElements(elements: readonly unknown[], at: number, target: Target, steps: Steps): boolean {
  let objects = 0;
  for (const element of elements) {
    spend(steps);
    if (isJsonObject(element)) {
      objects += 1;
      if (someAt(element, at, target, steps)) {
        return true;
      }
    }
  }
  return objects === 0 && target.test(undefined, steps);
}

/** Extends a test of one value to a value or any element of an array. */
function orElement(test: Test): Test {
  return (value, steps) => {
    if (test(value, steps)) {
      return true;
    }
    return (
      Array.isArray(value) &&
      value.some((element: unknown) => {
        spend(steps);
        return test(element, steps);
      })
    );
  };
}

function equals(operand: unknown): Test {
  // As in MongoDB, null also matches a missing value.
  return orElement((value, steps) =>
    isSameJson(value === undefined ? null : value, operand, (count) => spend(steps, count)),
  );
}

/** Requires that some value passes. */
function anyValue(test: Test): Condition {
  return (reach) => reach(test);
}

function not<Argument extends unknown[]>(holds: (...on: Argument) => boolean) {
  return (...on: Argument): boolean => !holds(...on);
}

function every<Argument extends unknown[]>(all: readonly ((...on: Argument) => boolean)[]) {
  return (...on: Argument): boolean => all.every((holds) => holds(...on));
}

function some<Argument extends unknown[]>(any: readonly ((...on: Argument) => boolean)[]) {
  return (...on: Argument): boolean => any.some((holds) => holds(...on));
}

/** Position within a filter, and conditions used by the whole filter. */
interface Position {
  readonly pointer: string;
  readonly depth: number;
  readonly used: { conditions: number };
}

function inside(position: Position, name: string | number): Position {
  if (position.depth >= NESTING_MAX) {
    throw new FilterProblem(position.pointer, "too_deep", `is nested more than ${NESTING_MAX} levels deep`);
  }
  const segment = String(name).replaceAll("~", "~0").replaceAll("/", "~1");
  return { ...position, pointer: `${position.pointer}/${segment}`, depth: position.depth + 1 };
}

function listOf(operand: unknown, { pointer }: Position): readonly unknown[] {
  if (!Array.isArray(operand) || operand.length === 0 || operand.length > LIST_MAX) {
    throw new FilterProblem(pointer, "type", `must be an array of 1 to ${LIST_MAX} values`);
  }
  return operand;
}

/** Rejects numbers that a double cannot hold, because they would compare as a different number. */
function checkOperand(operand: unknown, position: Position): void {
  if (typeof operand === "number" && Number.isInteger(operand) && !Number.isSafeInteger(operand)) {
    throw new FilterProblem(
      position.pointer,
      "number",
      "must be within ±2^53; use strings to compare larger numbers",
    );
  }
  if (Array.isArray(operand)) {
    operand.forEach((item, index) => checkOperand(item, inside(position, index)));
  } else if (isJsonObject(operand)) {
    for (const [name, member] of Object.entries(operand)) {
      checkOperand(member, inside(position, name));
    }
  }
}

/** Compares numbers with numbers and strings with strings (by UTF-16 code units). Other combinations never pass. */
function compare(holds: (order: number) => boolean): Operator {
  return (operand, position) => {
    checkOperand(operand, position);
    if (typeof operand !== "number" && typeof operand !== "string") {
      throw new FilterProblem(position.pointer, "type", "must be a number or a string");
    }
    return anyValue(
      orElement((value) => {
        if (typeof operand === "number") {
          return isJsonNumber(value) && holds(compareNumbers(value, operand));
        }
        return typeof value === "string" && holds(value < operand ? -1 : Number(value > operand));
      }),
    );
  };
}

function text(holds: (value: string, operand: string) => boolean): Operator {
  return (operand, { pointer }) => {
    if (typeof operand !== "string" || operand === "") {
      throw new FilterProblem(pointer, "type", "must be a non-empty string");
    }
    return anyValue(orElement((value) => typeof value === "string" && holds(value, operand)));
  };
}

type Operator = (operand: unknown, position: Position) => Condition;

const eq: Operator = (operand, position) => {
  checkOperand(operand, position);
  return anyValue(equals(operand));
};

const oneOf: Operator = (operand, position) =>
  some(listOf(operand, position).map((item, index) => eq(item, inside(position, index))));

/** All operators of a condition on one value. */
const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ["$eq", eq],
  ["$ne", (operand, position) => not(eq(operand, position))],
  ["$gt", compare((order) => order > 0)],
  ["$gte", compare((order) => order >= 0)],
  ["$lt", compare((order) => order < 0)],
  ["$lte", compare((order) => order <= 0)],
  ["$in", oneOf],
  ["$nin", (operand, position) => not(oneOf(operand, position))],
  [
    "$all",
    (operand, position) =>
      every(listOf(operand, position).map((item, index) => eq(item, inside(position, index)))),
  ],
  [
    "$exists",
    (operand, { pointer }) => {
      if (typeof operand !== "boolean") {
        throw new FilterProblem(pointer, "type", "must be true or false");
      }
      const isThere = anyValue((value) => value !== undefined);
      return operand ? isThere : not(isThere);
    },
  ],
  [
    "$size",
    (operand, { pointer }) => {
      if (!Number.isSafeInteger(operand) || Number(operand) < 0) {
        throw new FilterProblem(pointer, "type", "must be a non-negative integer");
      }
      return anyValue((value) => Array.isArray(value) && value.length === operand);
    },
  ],
  ["$startsWith", text((value, operand) => value.startsWith(operand))],
  ["$endsWith", text((value, operand) => value.endsWith(operand))],
  ["$not", (operand, position) => not(readCondition(operand, position))],
  ["$elemMatch", elementMatch],
]);

function elementMatch(operand: unknown, position: Position): Condition {
  const test = isCondition(operand)
    ? onValue(readCondition(operand, position))
    : readQuery(operand, position, []);
  return anyValue(
    (value, steps) =>
      Array.isArray(value) &&
      value.some((element: unknown) => {
        spend(steps);
        return test(element, steps);
      }),
  );
}

/** Applies a condition to a single value. */
function onValue(condition: Condition): Test {
  return (value, steps) => condition((test) => test(value, steps));
}

/** Operators of a whole query. */
const COMBINATIONS: ReadonlyMap<string, (tests: readonly Test[]) => Test> = new Map([
  ["$and", every],
  ["$or", some],
  ["$nor", (tests: readonly Test[]) => not(some(tests))],
]);

/** Whether the value is an object of operators. Anything else is a literal value or a longer path. */
function isCondition(value: unknown): value is Json {
  return (
    isJsonObject(value) && Object.keys(value).some((name) => name.startsWith("$") && !COMBINATIONS.has(name))
  );
}

/** Reads `{"$gt": 1, "$lt": 5}`, where all operators must hold. */
function readCondition(condition: unknown, position: Position): Condition {
  if (!isJsonObject(condition) || Object.keys(condition).length === 0) {
    throw new FilterProblem(position.pointer, "type", "must be an object of operators");
  }
  return every(
    Object.entries(condition).map(([name, operand]) => {
      const operator = OPERATORS.get(name);
      const operandPlace = inside(position, name);
      if (operator === undefined) {
        throw new FilterProblem(
          operandPlace.pointer,
          "unknown_operator",
          `is not one of ${[...OPERATORS.keys()].join(" ")}`,
        );
      }
      position.used.conditions += 1;
      if (position.used.conditions > CONDITIONS_MAX) {
        throw new FilterProblem(position.pointer, "too_many", `exceeds ${CONDITIONS_MAX} conditions`);
      }
      return operator(operand, operandPlace);
    }),
  );
}

function pathOf(name: string, { pointer }: Position, prefix: readonly string[]): readonly string[] {
  const path = [...prefix, ...name.split(".")];
  if (path.includes("") || path.length > SEGMENTS_MAX) {
    throw new FilterProblem(pointer, "path", `must be 1 to ${SEGMENTS_MAX} names separated by dots`);
  }
  return path;
}

/**
 * Reads `{"data.amount": {"$gte": 100}}` or the equivalent `{"data": {"amount": {"$gte": 100}}}`. All members must
 * hold.
 */
function readQuery(query: unknown, position: Position, prefix: readonly string[]): Test {
  if (!isJsonObject(query) || Object.keys(query).length === 0) {
    throw new FilterProblem(
      position.pointer,
      "type",
      'must be an object with members (use {"$eq":{}} for an empty one)',
    );
  }
  return every(
    Object.entries(query).map(([name, member]) => {
      const memberPosition = inside(position, name);
      const combination = COMBINATIONS.get(name);
      if (combination !== undefined) {
        return combination(
          listOf(member, memberPosition).map((part, index) =>
            readQuery(part, inside(memberPosition, index), prefix),
          ),
        );
      }
      if (name.startsWith("$")) {
        throw new FilterProblem(memberPosition.pointer, "unknown_operator", "is not allowed here");
      }
      return readMember(member, memberPosition, pathOf(name, memberPosition, prefix));
    }),
  );
}

function readMember(member: unknown, position: Position, path: readonly string[]): Test {
  if (isJsonObject(member) && !isCondition(member)) {
    return readQuery(member, position, path);
  }
  const condition = readCondition(isCondition(member) ? member : { $eq: member }, position);
  return (value, steps) => condition((test) => someAt(value, 0, { path, test }, steps));
}

/** Checks that paths begin at the root of the event. */
function checkRoots(query: Json, position: Position): void {
  for (const [name, member] of Object.entries(query)) {
    const memberPosition = inside(position, name);
    if (COMBINATIONS.has(name)) {
      listOf(member, memberPosition).forEach((part, index) => {
        if (isJsonObject(part)) {
          checkRoots(part, inside(memberPosition, index));
        }
      });
    } else if (!/^(type$|data($|\.))/.test(name)) {
      throw new FilterProblem(memberPosition.pointer, "path", "must begin with type or data");
    }
  }
}

/** Compiles a filter from its JSON value, or returns its error, with a pointer relative to the filter. */
export function compileFilter(filter: unknown): EventFilter | FieldProblem {
  const position = { pointer: "", depth: 0, used: { conditions: 0 } };
  let test: Test;
  try {
    test = readQuery(filter, position, []);
    checkRoots(filter as Json, position);
  } catch (error) {
    if (error instanceof FilterProblem) {
      return error.problem;
    }
    throw error;
  }
  return (event, steps = stepsOfEvent()) => {
    try {
      return test(event, steps);
    } catch (error) {
      if (error instanceof TooManySteps) {
        return true;
      }
      throw error;
    }
  };
}
