/** Operators' tokens: what they look like, and that a slip of the hand is noticed without the database. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { maskSecrets } from "../../../../src/observability/logger.ts";
import {
  isOperatorToken,
  newOperatorToken,
  shownPrefix,
} from "../../../../src/tokens/operators/token-format.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

test("every token has the form and its own checksum, and no two are the same", () => {
  const tokens = Array.from({ length: 500 }, () => newOperatorToken(randomBytes));
  expect(tokens.every((token) => /^sgn_op_[0-9A-Za-z]{49}$/.test(token) && isOperatorToken(token))).toBe(
    true,
  );
  expect(new Set(tokens).size).toBe(tokens.length);
});

test("one character changed makes it no token", () => {
  const token = newOperatorToken(randomBytes);
  fc.assert(
    fc.property(
      fc.integer({ min: 7, max: token.length - 1 }),
      fc.constantFrom(...BASE62.split("")),
      (place, other) => {
        fc.pre(token[place] !== other);
        expect(isOperatorToken(token.slice(0, place) + other + token.slice(place + 1))).toBe(false);
      },
    ),
  );
});

test("what is shown of it leaves more than 220 random bits unknown", () => {
  const token = newOperatorToken(randomBytes);
  expect(token.startsWith(shownPrefix(token))).toBe(true);
  const hidden = 43 - (shownPrefix(token).length - "sgn_op_".length);
  expect(hidden * Math.log2(62)).toBeGreaterThan(220);
});

test("is masked wherever it stands in the log", () => {
  const token = newOperatorToken(randomBytes);
  expect(maskSecrets(`{"msg":"could not read ${token}."}`)).toBe(
    '{"msg":"could not read sgn_op_[redacted]."}',
  );
});
