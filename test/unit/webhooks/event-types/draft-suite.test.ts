/** The draft's own test suite (test/corpora/json-schema). */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseExactJson } from "#domain/decimal.ts";
import { compileSchema, schemaProblems } from "#webhooks/event-types/schema-validator.ts";

interface Group {
  readonly description: string;
  readonly schema: unknown;
  readonly tests: readonly {
    readonly description: string;
    readonly data: unknown;
    readonly valid: boolean;
  }[];
}

const SUITE = parseExactJson(
  readFileSync(join(import.meta.dirname, "../../../corpora/json-schema/draft2020-12.json"), "utf8"),
) as Readonly<Record<string, readonly Group[]>>;

/** What the gate refuses (docs/event-types.md): by code, the member that the pointer names. */
const REFUSED: Readonly<Record<string, RegExp>> = {
  dialect: /\/\$schema$/,
  // Out of the document, or to an anchor.
  reference: /\/\$ref$/,
  unknown_keyword: /\/\$(?:id|anchor|dynamicRef|dynamicAnchor)$/,
};
/** Files of older drafts, of formats that assert, and of keywords of nobody. */
const OTHER = [
  "optional/cross-draft",
  "optional/dependencies-compatibility",
  "optional/format-assertion",
  "optional/refOfUnknownKeyword",
  "optional/unknownKeyword",
];

const files = Object.entries(SUITE).filter(([file]) => !OTHER.includes(file));

/** Returns what a schema's tests find, or where it is refused. */
function resultsOf({ schema, tests }: Group): unknown {
  const [problem] = schemaProblems(schema);
  if (problem !== undefined) {
    return REFUSED[problem.code]?.test(problem.pointer) === true ? "refused" : problem;
  }
  const check = compileSchema(schema);
  return tests.map(({ description, data }) => ({ description, valid: check(data).length === 0 }));
}

describe.each(files)("%s", (_file, groups) => {
  test.each(groups.map((group) => [group.description, group] as const))("%s", (_description, group) => {
    const wanted = group.tests.map(({ description, valid }) => ({ description, valid }));
    expect([wanted, "refused"]).toContainEqual(resultsOf(group));
  });
});

test("few of the suite's schemas are refused", () => {
  const groups = files.flatMap(([, all]) => all);
  expect(groups.length).toBeGreaterThan(390);
  expect(groups.filter((group) => resultsOf(group) === "refused").length).toBeLessThanOrEqual(69);
});
