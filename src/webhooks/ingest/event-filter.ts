/**
 * Filters of endpoints: query documents as MongoDB has them, also in the nested spelling of Hookdeck and Outpost, over
 * `{type, data}` of an event. Nothing of a filter is ever run as code or as a regular expression, only members that the
 * event itself has are looked at, and the steps of one evaluation are counted (docs/decisions/0015).
 */
import { isJsonObject, isSameJson } from "../../domain/json-equality.ts";
import type { FieldProblem } from "../../domain/errors.ts";

/** Bytes of a filter's JSON. */
export const FILTER_MAX = 4_096;
/** Conditions of one filter, however they are nested. */
const CONDITIONS_MAX = 64;
const NESTING_MAX = 8;
const SEGMENTS_MAX = 32;
const LIST_MAX = 100;
/** Values looked at for one event by all filters of its type; an event of 256 KiB can hold 130,000. */
const STEPS_MAX = 200_000;

/** What a filter is tried on. */
export interface FilteredEvent {
  readonly type: string;
  /** `data`, parsed. */
  readonly data: unknown;
}

/**
 * Whether the endpoint takes the event. True also when the event is too large to tell within the steps of one
 * evaluation: rather one delivery too many than one lost.
 */
export type EventFilter = (event: FilteredEvent, steps?: Steps) => boolean;

/** The steps that are left to the filters of one event; undefined values are members that are not there. */
export interface Steps {
  left: number;
}

/** What the filters of one event share: fifty endpoints cost no more than one. */
export function stepsOfEvent(): Steps {
  return { left: STEPS_MAX };
}

type Test = (value: unknown, steps: Steps) => boolean;
/** Whether a test passes at any of the values that a path leads to. */
type Reach = (test: Test) => boolean;
/** Of a path: conditions on several values hold each for itself, and a negation means that no value passes. */
type Condition = (reach: Reach) => boolean;

class TooManySteps extends Error {}

/** What is wrong with a filter. */
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

/** What is looked for. */
interface Target {
  readonly path: readonly string[];
  readonly test: Test;
}

/**
 * Whether a value at the rest of the path passes. Arrays on the way stand for their elements that are objects, or for
 * one of them if the path has a number there; where nothing is, the test sees undefined.
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

/** A test of one value as a test of a value or of any element of an array. */
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
  // As in MongoDB, null is also what is not there.
  return orElement((value, steps) =>
    isSameJson(value === undefined ? null : value, operand, (count) => spend(steps, count)),
  );
}

/** That some value passes. */
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

/** Where a part of a filter stands, and what the whole has used up. */
interface Place {
  readonly pointer: string;
  readonly depth: number;
  readonly used: { conditions: number };
}

function inside(place: Place, name: string | number): Place {
  if (place.depth >= NESTING_MAX) {
    throw new FilterProblem(place.pointer, "too_deep", `is nested more than ${NESTING_MAX} levels deep`);
  }
  const segment = String(name).replaceAll("~", "~0").replaceAll("/", "~1");
  return { ...place, pointer: `${place.pointer}/${segment}`, depth: place.depth + 1 };
}

function listOf(operand: unknown, { pointer }: Place): readonly unknown[] {
  if (!Array.isArray(operand) || operand.length === 0 || operand.length > LIST_MAX) {
    throw new FilterProblem(pointer, "type", `must be an array of 1 to ${LIST_MAX} values`);
  }
  return operand;
}

/** Numbers that a double cannot hold would be compared as another number than the one that was written. */
function checkOperand(operand: unknown, place: Place): void {
  if (typeof operand === "number" && Number.isInteger(operand) && !Number.isSafeInteger(operand)) {
    throw new FilterProblem(
      place.pointer,
      "number",
      "must be within 2^53: compare larger numbers as strings",
    );
  }
  if (Array.isArray(operand)) {
    operand.forEach((item, index) => checkOperand(item, inside(place, index)));
  } else if (isJsonObject(operand)) {
    for (const [name, member] of Object.entries(operand)) {
      checkOperand(member, inside(place, name));
    }
  }
}

/** Numbers are compared with numbers, strings with strings (by UTF-16 code units); anything else never passes. */
function compare(holds: (order: number) => boolean): Operator {
  return (operand, place) => {
    checkOperand(operand, place);
    if (typeof operand !== "number" && typeof operand !== "string") {
      throw new FilterProblem(place.pointer, "type", "must be a number or a string");
    }
    return anyValue(
      orElement((value) => {
        if (typeof value !== typeof operand) {
          return false;
        }
        const other = value as typeof operand;
        return holds(other < operand ? -1 : Number(other > operand));
      }),
    );
  };
}

function text(holds: (value: string, operand: string) => boolean): Operator {
  return (operand, { pointer }) => {
    if (typeof operand !== "string" || operand === "") {
      throw new FilterProblem(pointer, "type", "must be a string that is not empty");
    }
    return anyValue(orElement((value) => typeof value === "string" && holds(value, operand)));
  };
}

type Operator = (operand: unknown, place: Place) => Condition;

const eq: Operator = (operand, place) => {
  checkOperand(operand, place);
  return anyValue(equals(operand));
};

const oneOf: Operator = (operand, place) =>
  some(listOf(operand, place).map((item, index) => eq(item, inside(place, index))));

/** Conditions on one value: the operators that there are, and no others. */
const OPERATORS: ReadonlyMap<string, Operator> = new Map<string, Operator>([
  ["$eq", eq],
  ["$ne", (operand, place) => not(eq(operand, place))],
  ["$gt", compare((order) => order > 0)],
  ["$gte", compare((order) => order >= 0)],
  ["$lt", compare((order) => order < 0)],
  ["$lte", compare((order) => order <= 0)],
  ["$in", oneOf],
  ["$nin", (operand, place) => not(oneOf(operand, place))],
  [
    "$all",
    (operand, place) => every(listOf(operand, place).map((item, index) => eq(item, inside(place, index)))),
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
        throw new FilterProblem(pointer, "type", "must be a whole number, 0 or more");
      }
      return anyValue((value) => Array.isArray(value) && value.length === operand);
    },
  ],
  ["$startsWith", text((value, operand) => value.startsWith(operand))],
  ["$endsWith", text((value, operand) => value.endsWith(operand))],
  ["$not", (operand, place) => not(readCondition(operand, place))],
  ["$elemMatch", elementMatch],
]);

function elementMatch(operand: unknown, place: Place): Condition {
  const test = isCondition(operand) ? onValue(readCondition(operand, place)) : readQuery(operand, place, []);
  return anyValue(
    (value, steps) =>
      Array.isArray(value) &&
      value.some((element: unknown) => {
        spend(steps);
        return test(element, steps);
      }),
  );
}

/** A condition of one value. */
function onValue(condition: Condition): Test {
  return (value, steps) => condition((test) => test(value, steps));
}

/** Operators of a whole query. */
const COMBINATIONS: ReadonlyMap<string, (tests: readonly Test[]) => Test> = new Map([
  ["$and", every],
  ["$or", some],
  ["$nor", (tests: readonly Test[]) => not(some(tests))],
]);

/** An object of operators; anything else is a value or a path further on. */
function isCondition(value: unknown): value is Json {
  return (
    isJsonObject(value) && Object.keys(value).some((name) => name.startsWith("$") && !COMBINATIONS.has(name))
  );
}

/** `{"$gt": 1, "$lt": 5}`: all of them hold. */
function readCondition(condition: unknown, place: Place): Condition {
  if (!isJsonObject(condition) || Object.keys(condition).length === 0) {
    throw new FilterProblem(place.pointer, "type", "must be an object of operators");
  }
  return every(
    Object.entries(condition).map(([name, operand]) => {
      const operator = OPERATORS.get(name);
      const operandPlace = inside(place, name);
      if (operator === undefined) {
        throw new FilterProblem(
          operandPlace.pointer,
          "unknown_operator",
          `is none of ${[...OPERATORS.keys()].join(" ")}`,
        );
      }
      place.used.conditions += 1;
      if (place.used.conditions > CONDITIONS_MAX) {
        throw new FilterProblem(place.pointer, "too_many", `is more than ${CONDITIONS_MAX} conditions`);
      }
      return operator(operand, operandPlace);
    }),
  );
}

function pathOf(name: string, { pointer }: Place, prefix: readonly string[]): readonly string[] {
  const path = [...prefix, ...name.split(".")];
  if (path.includes("") || path.length > SEGMENTS_MAX) {
    throw new FilterProblem(pointer, "path", `must be 1 to ${SEGMENTS_MAX} names with dots between them`);
  }
  return path;
}

/** `{"data.amount": {"$gte": 100}}`, or the same as `{"data": {"amount": {"$gte": 100}}}`: all members hold. */
function readQuery(query: unknown, place: Place, prefix: readonly string[]): Test {
  if (!isJsonObject(query) || Object.keys(query).length === 0) {
    throw new FilterProblem(
      place.pointer,
      "type",
      'must be an object with members (use {"$eq":{}} for an empty one)',
    );
  }
  return every(
    Object.entries(query).map(([name, member]) => {
      const memberPlace = inside(place, name);
      const combination = COMBINATIONS.get(name);
      if (combination !== undefined) {
        return combination(
          listOf(member, memberPlace).map((part, index) =>
            readQuery(part, inside(memberPlace, index), prefix),
          ),
        );
      }
      if (name.startsWith("$")) {
        throw new FilterProblem(memberPlace.pointer, "unknown_operator", "cannot stand here");
      }
      return readMember(member, memberPlace, pathOf(name, memberPlace, prefix));
    }),
  );
}

function readMember(member: unknown, place: Place, path: readonly string[]): Test {
  if (isJsonObject(member) && !isCondition(member)) {
    return readQuery(member, place, path);
  }
  const condition = readCondition(isCondition(member) ? member : { $eq: member }, place);
  return (value, steps) => condition((test) => someAt(value, 0, { path, test }, steps));
}

/** Paths begin where the event does. */
function checkRoots(query: Json, place: Place): void {
  for (const [name, member] of Object.entries(query)) {
    const memberPlace = inside(place, name);
    if (COMBINATIONS.has(name)) {
      listOf(member, memberPlace).forEach((part, index) => {
        if (isJsonObject(part)) {
          checkRoots(part, inside(memberPlace, index));
        }
      });
    } else if (!/^(type$|data($|\.))/.test(name)) {
      throw new FilterProblem(memberPlace.pointer, "path", "must begin with type or data");
    }
  }
}

/** Makes a filter of its JSON value, or says what is wrong with it (pointers begin at the filter). */
export function compileFilter(filter: unknown): EventFilter | FieldProblem {
  const place = { pointer: "", depth: 0, used: { conditions: 0 } };
  let test: Test;
  try {
    test = readQuery(filter, place, []);
    checkRoots(filter as Json, place);
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
