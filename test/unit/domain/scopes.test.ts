import * as fc from "fast-check";
import { expect, test } from "vitest";
import { isScope, parseScopes, SCOPES_MAX, scopeSet } from "#domain/scopes.ts";

test.each([
  "inference:read",
  "events:publish_any",
  "a:b",
  "a-b_1:c-d_2",
  `${"a".repeat(32)}:${"b".repeat(32)}`,
])("%s is a scope", (text) => {
  expect(isScope(text)).toBe(true);
});

test.each([
  "",
  "inference",
  "inference:",
  ":read",
  "inference:*",
  "*",
  "Inference:read",
  "inference:read:all",
  "1nference:read",
  "inference:read ",
  "inference:read\n",
  `${"a".repeat(33)}:b`,
  `a:${"b".repeat(33)}`,
  'a:b"',
])("%j is not a scope", (text) => {
  expect(isScope(text)).toBe(false);
});

const scope = fc.stringMatching(/^[a-z][a-z0-9_-]{0,31}:[a-z][a-z0-9_-]{0,31}$/);

test("a scope parameter is read as a set, whatever its order and repetitions", () => {
  fc.assert(
    fc.property(fc.array(scope, { minLength: 1, maxLength: 20 }), (scopes) => {
      const reversed = scopes.toReversed();
      expect(parseScopes([...scopes, ...reversed].join(" "))).toEqual(scopeSet(scopes));
    }),
  );
});

test.each(["", " ", "a:b ", " a:b", "a:b  c:d", "a:b\tc:d", "a:b,c:d", "a:b c"])(
  "%j is not a well-formed parameter",
  (text) => {
    expect(parseScopes(text)).toBeUndefined();
  },
);

test("more scopes than a role can have are rejected", () => {
  const scopes = Array.from({ length: SCOPES_MAX + 1 }, (_, index) => `a:b${index}`);
  expect(parseScopes(scopes.join(" "))).toBeUndefined();
  expect(parseScopes(scopes.slice(1).join(" "))).toHaveLength(SCOPES_MAX);
});
