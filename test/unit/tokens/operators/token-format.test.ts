/** The format of operators' tokens: typing errors are detected without the database. */
import { randomBytes } from "node:crypto";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import { maskSecrets } from "#observability/logger.ts";
import { isOperatorToken, newOperatorToken, shownPrefix } from "#tokens/operators/token-format.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

test("every token has the format and its own checksum, and no two are the same", () => {
  const tokens = Array.from({ length: 500 }, () => newOperatorToken(randomBytes));
  expect(tokens.every((token) => /^sgn_op_[0-9A-Za-z]{49}$/.test(token) && isOperatorToken(token))).toBe(
    true,
  );
  expect(new Set(tokens).size).toBe(tokens.length);
});

test("a token with one changed character is invalid", () => {
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

test("the displayed part leaves more than 220 random bits unknown", () => {
  const token = newOperatorToken(randomBytes);
  expect(token.startsWith(shownPrefix(token))).toBe(true);
  const hidden = 43 - (shownPrefix(token).length - "sgn_op_".length);
  expect(hidden * Math.log2(62)).toBeGreaterThan(220);
});

test("a token is masked anywhere in the log", () => {
  const token = newOperatorToken(randomBytes);
  expect(maskSecrets(`{"msg":"could not read ${token}."}`)).toBe(
    '{"msg":"could not read sgn_op_[redacted]."}',
  );
});
