/** Content negotiation between HTML and JSON. */
import { describe, expect, test } from "vitest";
import { prefersHtml } from "#http/accept.ts";

describe("a client gets HTML if it names it and prefers it to JSON", () => {
  test.each([
    ["text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8", true],
    ["text/html", true],
    ["TEXT/HTML; charset=utf-8", true],
    ["text/*, */*;q=0.1", true],
    ["application/json;q=0.5, text/html", true],
    [undefined, false],
    ["", false],
    ["*/*", false],
    ["application/json", false],
    ["application/problem+json, text/html;q=0.9", false],
    ["text/html, application/json", false],
    ["text/html;q=0", false],
    ["text/html;q=0, */*", false],
    ["text/html;q=nonsense", false],
    ["text/html;q=2", false],
    ["application/*, text/html;q=0.5", false],
    [", ;q=1, ,", false],
  ])("%s: %s", (accept, expected) => {
    expect(prefersHtml(accept)).toBe(expected);
  });
});
