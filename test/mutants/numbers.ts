/** Faults in schemas, and in how numbers of any length are read. */
import type { Mutant } from "./mutant.ts";

export const NUMBERS: readonly Mutant[] = [
  {
    name: "numbers-are-doubles",
    breaks: "A schema's numbers are the decimals that their texts say (docs/event-types.md)",
    file: "src/domain/decimal.ts",
    find: "return Number.isFinite(double) && toDecimal(double).key === decimal.key ? double : decimal;",
    replace: 'return Number.isFinite(double) || decimal.digits === "" ? double : decimal;',
    caughtBy: "test/unit/domain/decimal.test.ts",
  },
  {
    name: "multiples-of-twos-forgotten",
    breaks: "multipleOf is exact for any divisor (docs/event-types.md)",
    file: "src/domain/decimal.ts",
    find: "hasFactors(of, 2n, twos.count - tens)",
    replace: "hasFactors(of, 2n, -tens)",
    caughtBy: "test/unit/domain/decimal.test.ts",
  },
  {
    name: "if-alone-evaluates-nothing",
    breaks: "unevaluatedProperties follows the draft (docs/event-types.md)",
    file: "src/webhooks/event-types/schema-applicators.ts",
    find: "if (whenTrue === undefined && whenFalse === undefined && seen === undefined) {",
    replace: "if (whenTrue === undefined && whenFalse === undefined) {",
    caughtBy: "test/unit/webhooks/event-types/draft-suite.test.ts",
  },
  {
    name: "space-of-re2",
    breaks: "Expressions have the meaning of ECMA 262 (docs/event-types.md)",
    file: "src/webhooks/event-types/patterns.ts",
    find: "\\x{b}\\x{a0}\\x{1680}",
    replace: "\\x{b}\\x{1680}",
    caughtBy: "test/unit/webhooks/event-types/schema-validator.test.ts",
  },
  {
    name: "unparsed-payload-reaches-handlers",
    breaks: "No handler gets a payload that was not parsed (docs/write-an-sdk.md)",
    file: "src/lib/receiver/verify.ts",
    find: "if (verified.payload === undefined) {",
    replace: "if (verified.payload === null) {",
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "nested-id-without-links",
    breaks: "Links of the OpenAPI document lead from ids at any depth to the operations that take them",
    file: "src/api/openapi/links.ts",
    find: "idsIn(items, `${pointer}/0`)",
    replace: "idsIn(items, `${pointer}/1`)",
    caughtBy: "test/machine/api/openapi-links.test.ts",
  },
  {
    name: "counters-of-32-bits",
    breaks: "Generated clients read what can grow (docs/generated-clients.md)",
    file: "src/api/openapi/describe.ts",
    find: "(maximum as number) > INT32_MAX",
    replace: "(maximum as number) > Number.MAX_VALUE",
    caughtBy: "test/machine/api/openapi.test.ts",
  },
  {
    name: "alternatives-become-one-object",
    breaks: "Generated clients send and read each alternative (docs/generated-clients.md)",
    file: "src/api/openapi/components.ts",
    find: '[isUnion ? "oneOf" : "anyOf"]',
    replace: '["anyOf"]',
    caughtBy: "test/machine/api/openapi.test.ts",
  },
];
