/** Each path has one spelling: ambiguous targets are rejected, all others are reduced to their plainest form. */
import { array, assert, constantFrom, oneof, property, string } from "fast-check";
import { expect, test } from "vitest";
import { canonicalTarget } from "#edge/canonical-target.ts";
import { cases } from "#test/support/properties.ts";

test.each([
  ["/", "/"],
  ["/v1/a", "/v1/a"],
  ["/v1/a/", "/v1/a/"],
  ["/v1/a...b/.hidden/..c/d.", "/v1/a...b/.hidden/..c/d."],
  ["/v1/%64lq", "/v1/dlq"],
  ["/v1/%7Euser", "/v1/~user"],
  ["/v1/a%20b%c3%a9", "/v1/a%20b%C3%A9"],
  ["/v1/a:b@c,d=e&f'(g)!*$+", "/v1/a:b@c,d=e&f'(g)!*$+"],
  ["/v1/a?", "/v1/a?"],
  ['/v1/a?b=//../%2e%2e;c&d="', '/v1/a?b=//../%2e%2e;c&d="'],
])("%s is %s", (target, canonical) => {
  expect(canonicalTarget(target)).toBe(canonical);
});

const REFUSED = [
  "",
  "*",
  "v1/a",
  "//v1/a",
  "/v1//a",
  "/v1/a//",
  "/v1/./a",
  "/v1/../a",
  "/v1/a/..",
  "/v1/a/.",
  "/..",
  "/.",
  "/v1/%2e%2e/a",
  "/v1/%2E./a",
  "/v1/.%2e/a",
  "/v1/%2e/a",
  "/v1/a%2fb",
  "/v1/a%2Fb",
  "/v1/..%2fa",
  "/v1/a%5cb",
  "/v1/a%5C..%5Cb",
  "/v1/a\\b",
  "/v1/a%00",
  "/v1/a%00.json",
  "/v1/a%0d%0aX:y",
  "/v1/a%7f",
  "/v1/a;b",
  "/v1/..;/a",
  "/v1/a%3bb",
  "/v1/a#b",
  "/v1/a%23b",
  "/v1/a?b#c",
  "/v1/a?b\\c",
  "/v1/%252e%252e/a",
  "/v1/a%25",
  "/v1/a%",
  "/v1/a%2",
  "/v1/a%zz",
  "/v1/a%u002e",
  "/v1/%c0%ae%c0%ae/a",
  "/v1/%ff",
  "/v1/\u00e9",
  "/v1/a\u00a0",
  "/v1/a b",
  "/v1/a\tb",
  "/v1/a?\u00e9",
  "/v1/a?\u0000",
  "http://evil.example/v1/a",
  "https://127.0.0.1/v1/a",
  "HTTP://evil.example",
  "/v1/{a}",
  "/v1/a|b",
  "/v1/<a>",
  '/v1/"a"',
  "/v1/a^b",
  "/v1/`a`",
];

test.each(REFUSED)("%j is rejected", (target) => {
  expect(canonicalTarget(target)).toBeUndefined();
});

const piece = oneof(
  constantFrom(
    "/",
    ".",
    "..",
    "%2e",
    "%2f",
    "%5c",
    "%64",
    "%20",
    "%25",
    "%c3%a9",
    ";",
    "#",
    "\\",
    "a",
    "v1",
    "~",
    "%",
  ),
  string({ maxLength: 3 }),
);

test("an accepted target is canonical: it stays the same, and resolving or decoding it changes nothing", () => {
  assert(
    property(array(piece, { maxLength: 12 }), (pieces) => {
      const canonical = canonicalTarget(`/${pieces.join("")}`);
      if (canonical === undefined) {
        return;
      }
      expect(canonicalTarget(canonical)).toBe(canonical);
      const [path = ""] = canonical.split("?", 1);
      // The URL standard's parser resolves dots, backslashes and encoded dots; none may be left to resolve.
      expect(new URL(path, "http://upstream").pathname).toBe(path);
      const decoded = decodeURIComponent(path);
      expect(decoded.split("/").length).toBe(path.split("/").length);
      expect(decoded.split(/[/\\]/)).not.toContain("..");
    }),
    cases(500),
  );
});
