/**
 * The bodies of requests and responses for Python, from the named schemas of the OpenAPI document, and the version.
 * `npm run docs` writes models.py and _version.py of sdk/python, and a test fails when one is stale.
 */
import { VERSION } from "#runtime/package.ts";
import {
  type Document,
  LITERALS_MAX,
  memberText,
  nameOf,
  type Schema,
  withClientNames,
} from "./openapi-schema.ts";
import { wrapped } from "./text.ts";

const PACKAGE = "sdk/python/src/signet_delivery";
export const PYTHON_MODELS = `${PACKAGE}/models.py`;
export const PYTHON_VERSION = `${PACKAGE}/_version.py`;

const WIDTH = 100;

const HEADER = `"""The bodies of requests and responses, from the schemas of the service's routes: \`npm run docs\` writes this file.

Times in responses are RFC 3339, in UTC with milliseconds. Responses may get new members, and enums new words.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Mapping, Optional, Sequence, TypedDict, Union, final`;

/** Words of Python that are names on the wire. Members with these names need the functional form of a TypedDict. */
export const KEYWORDS: ReadonlySet<string> = new Set("from class import global in is not".split(" "));

interface Model {
  readonly name: string;
  readonly schema: Schema;
  /** Whether it is an alternative of a union: programs tell alternatives apart by their members. */
  readonly isAlternative: boolean;
}

function unionOf(types: readonly string[]): string {
  const unique = [...new Set(types)];
  const others = unique.filter((type) => type !== "None");
  const [only = "None"] = others;
  const union = others.length > 1 ? `Union[${others.join(", ")}]` : only;
  return unique.length > others.length && others.length > 0 ? `Optional[${union}]` : union;
}

const SIMPLE: Readonly<Record<string, string>> = {
  string: "str",
  integer: "int",
  number: "float",
  boolean: "bool",
  null: "None",
};

/** Returns the type of a schema. @param quoted whether names may come before their declarations */
export function typeOf(schema: Schema, quoted = false): string {
  const { anyOf, enum: words } = schema;
  const name = nameOf(schema);
  if (name !== undefined) {
    return quoted ? `"${name}"` : name;
  }
  if (anyOf !== undefined) {
    return unionOf(anyOf.map((choice) => typeOf(choice, quoted)));
  }
  if (words !== undefined && words.length <= LITERALS_MAX) {
    const literals = words.map((word) => (word === true ? "True" : JSON.stringify(word)));
    return `Literal[${literals.join(", ")}]`;
  }
  return plainType(schema, quoted);
}

/** Returns the type by the member `type`. */
function plainType(schema: Schema, quoted: boolean): string {
  const { type, items, additionalProperties: values, format, pattern } = schema;
  if (typeof type === "object") {
    return unionOf(type.map((each) => typeOf({ ...schema, type: each }, quoted)));
  }
  if (type === "array") {
    return `Sequence[${typeOf(items ?? {}, quoted)}]`;
  }
  if (type === "object") {
    return `Mapping[str, ${typeof values === "object" ? typeOf(values, quoted) : "Any"}]`;
  }
  // An instant in a request.
  const isInstant = format === "date-time" && pattern !== undefined;
  return isInstant ? "Union[str, datetime]" : (SIMPLE[String(type)] ?? "Any");
}

/** Returns comment lines in the form that documentation tools read. */
function comment(schema: Schema): string[] {
  const text = memberText(schema);
  return text === "" ? [] : wrapped(`${text}.`, "    #: ", WIDTH);
}

function classOf(head: string, members: readonly (readonly [string, Schema])[], doc: string): string {
  const body = members.flatMap(([name, schema]) => [...comment(schema), `    ${name}: ${typeOf(schema)}`]);
  const docLines = doc === "" ? [] : [...wrapped(`"""${doc}."""`, "    ", WIDTH), ""];
  return [head, ...docLines, ...(body.length === 0 ? ["    pass"] : body)].join("\n");
}

/** Python has no other form for members whose names are keywords. */
function functional(name: string, members: readonly (readonly [string, Schema])[], total: boolean): string {
  const lines = members.flatMap(([member, schema]) => [
    ...wrapped(memberText(schema), "        # ", WIDTH).filter((line) => line.trim() !== "#"),
    `        "${member}": ${typeOf(schema, true)},`,
  ]);
  const tail = total ? "" : "    total=False,\n";
  return `${name} = TypedDict(\n    "${name}",\n    {\n${lines.join("\n")}\n    },\n${tail})`;
}

function declarationOf({ name, schema, isAlternative }: Model): string {
  const { properties, required = [], description = "" } = schema;
  if (properties === undefined) {
    return `${name} = ${typeOf(schema, true)}`;
  }
  const members = Object.entries(properties) as (readonly [string, Schema])[];
  const always = members.filter(([member]) => required.includes(member));
  const sometimes = members.filter(([member]) => !required.includes(member));
  if (members.some(([member]) => KEYWORDS.has(member))) {
    if (always.length > 0 && sometimes.length > 0) {
      throw new Error(`${name} has a keyword as a member, and optional and required members`);
    }
    return functional(name, members, sometimes.length === 0);
  }
  const mark = isAlternative ? "@final\n" : "";
  if (sometimes.length === 0 || always.length === 0) {
    const head = `${mark}class ${name}(TypedDict${always.length === 0 ? ", total=False" : ""}):`;
    return classOf(head, members, description);
  }
  // Python 3.9 has no NotRequired.
  const base = classOf(`class _${name}(TypedDict):`, always, "");
  return `${base}\n\n\n${classOf(`${mark}class ${name}(_${name}, total=False):`, sometimes, description)}`;
}

/** Returns the text of models.py. @param document the OpenAPI document for tenants */
export function pythonModels(document: Document): string {
  const { schemas } = withClientNames(document).components;
  const alternatives = new Set(
    Object.values(schemas).flatMap(({ anyOf = [] }) => anyOf.map((choice) => nameOf(choice))),
  );
  const models = Object.entries(schemas).map(([name, schema]) => ({
    name,
    schema,
    isAlternative: alternatives.has(name),
  }));
  return `${[HEADER, ...models.map(declarationOf)].join("\n\n\n")}\n`;
}

/** Returns the text of _version.py. */
export function pythonVersion(): string {
  return `"""The version of the package, which is that of the service: \`npm run docs\` writes this file."""\n\n__version__ = "${VERSION}"\n`;
}
