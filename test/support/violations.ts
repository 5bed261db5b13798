/** Values that each break one constraint of a schema, for tests that visit all routes by their OpenAPI documents. */
import { exampleOf, type DocumentedSchema } from "#api/openapi/examples.ts";

/** A value that must be refused, and its location. */
export interface Violation {
  /** JSON pointer of the member, or `/` and the parameter's name. */
  readonly pointer: string;
  /** The violated constraint. */
  readonly breaks: string;
  readonly value: unknown;
}

/** Spellings that are not valid numbers here: beyond 31 and 53 bits, another base, another notation. */
export const NO_NUMBERS = [
  "2147483648",
  "9007199254740992",
  "99999999999999999999",
  "-0",
  "-1",
  "1e3",
  "0x10",
  "1.5",
  "+1",
  " 1",
  "",
  "NaN",
];

const LONG = 70_000;
/** Almost every pattern refuses one of these. The body parser refuses U+0000 earlier. */
const NO_MATCHES = ["\u0001 no\n", " ", "ä"];

function ofSize(schema: DocumentedSchema, size: number): unknown {
  const { type } = schema;
  if (type === "string") {
    return "x".repeat(size);
  }
  const item = exampleOf(schema.items ?? {});
  return Array.from({ length: size }, () => item);
}

function ofText(schema: DocumentedSchema): [string, unknown][] {
  const { pattern, minLength, maxLength } = schema as { minLength?: number } & DocumentedSchema;
  return [
    ...NO_MATCHES.filter((text) => pattern !== undefined && !new RegExp(pattern, "u").test(text))
      .slice(0, 1)
      .map((text): [string, unknown] => ["pattern", text]),
    ...(minLength === undefined || minLength === 0 ? [] : ([["minLength", ""]] as [string, unknown][])),
    ...(maxLength === undefined || maxLength > LONG
      ? []
      : ([["maxLength", ofSize(schema, maxLength + 1)]] as [string, unknown][])),
  ];
}

function ofNumber({ minimum, maximum }: DocumentedSchema & { maximum?: number }): [string, unknown][] {
  return [
    ["type", "1"],
    ["type", 1.5],
    ["minimum", (minimum ?? Number.NaN) - 1],
    ...(maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER
      ? []
      : ([["maximum", maximum + 1]] as [string, unknown][])),
    ["maximum", 1e300],
  ];
}

function ofList(schema: DocumentedSchema): [string, unknown][] {
  const { minItems, maxItems, uniqueItems } = schema as {
    minItems?: number;
    maxItems?: number;
    uniqueItems?: boolean;
  };
  return [
    ...(minItems === undefined ? [] : ([["minItems", []]] as [string, unknown][])),
    ...(maxItems === undefined || maxItems > 1_000
      ? []
      : ([["maxItems", ofSize(schema, maxItems + 1)]] as [string, unknown][])),
    ...(uniqueItems === true ? ([["uniqueItems", ofSize(schema, 2)]] as [string, unknown][]) : []),
  ];
}

/** Returns a value of another type. */
function ofOtherType(schema: DocumentedSchema): [string, unknown][] {
  const types = [schema.type ?? []].flat();
  return types.length === 0 || types.includes("object") ? [["type", 7.5]] : [["type", { other: 1 }]];
}

function direct(schema: DocumentedSchema): [string, unknown][] {
  const { type } = schema;
  const own =
    schema.enum !== undefined
      ? ([["enum", "none-of-these"]] as [string, unknown][])
      : type === "string"
        ? ofText(schema)
        : type === "integer" || type === "number"
          ? ofNumber(schema)
          : type === "array"
            ? ofList(schema)
            : [];
  return [...ofOtherType(schema), ...own];
}

/** Returns every way to break the schema with one value, including members, items and choices. */
export function violationsOf(schema: DocumentedSchema, pointer = ""): Violation[] {
  const choices = schema.anyOf;
  if (choices !== undefined) {
    return choices.filter(({ type }) => type !== "null").flatMap((choice) => violationsOf(choice, pointer));
  }
  const found: Violation[] = direct(schema).map(([breaks, value]) => ({ pointer, breaks, value }));
  const { properties = {}, items, required = [], additionalProperties } = schema;
  const example = exampleOf(schema, "required");
  const base = (typeof example === "object" ? example : {}) as Record<string, unknown>;
  for (const name of required) {
    const { [name]: _absent, ...rest } = base;
    found.push({ pointer: `${pointer}/${name}`, breaks: "required", value: rest });
  }
  if (additionalProperties === false) {
    found.push({ pointer: `${pointer}/surprise`, breaks: "unknown", value: { ...base, surprise: 1 } });
  }
  for (const [name, member] of Object.entries(properties)) {
    for (const inner of violationsOf(member, `${pointer}/${name}`)) {
      found.push({ ...inner, value: { ...base, [name]: inner.value } });
    }
  }
  if (items !== undefined && Object.keys(items).length > 0) {
    for (const inner of violationsOf(items, `${pointer}/0`)) {
      found.push({ ...inner, value: [inner.value] });
    }
  }
  return found;
}
