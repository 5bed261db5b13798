/** `/errors/{slug}`, the target of each problem's type: JSON for programs, a page for people. */
import { describe, expect, test } from "vitest";
import { ERROR_DESCRIPTIONS } from "#http/error-descriptions.ts";
import { ERROR_CATALOGUE, type ErrorCode, errorSlug } from "#domain/errors.ts";
import { type Answer, useSharedApi } from "#test/support/api.ts";

const BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
const CODES = Object.keys(ERROR_CATALOGUE) as ErrorCode[];
const api = useSharedApi();

async function getErrorPage(slug: string, accept?: string): Promise<Answer> {
  return await api.request(`/errors/${slug}`, accept === undefined ? {} : { headers: { accept } });
}

/** Escapes the text as a template does. */
function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;")
    .replaceAll("'", "&#39;");
}

describe.each(CODES)("%s", (code) => {
  const { meaning, causes, remedies } = ERROR_DESCRIPTIONS[code];

  test("has a page with its meaning, causes and remedies", async () => {
    const page = await getErrorPage(errorSlug(code), BROWSER);
    expect(page).toMatchObject({ status: 200 });
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    const { status, title } = ERROR_CATALOGUE[code];
    for (const text of [title, code, `HTTP ${status}`, meaning, ...causes, ...remedies]) {
      expect(page.text).toContain(escaped(text));
    }
    expect(causes.length).toBeGreaterThan(0);
    expect(remedies.length).toBeGreaterThan(0);
  });

  test("has the same content as JSON for programs", async () => {
    for (const accept of [undefined, "*/*", "application/json"]) {
      const answer = await getErrorPage(errorSlug(code), accept);
      expect(answer.headers.get("content-type")).toContain("application/json");
      expect(answer).toMatchObject({ status: 200, body: { code, description: meaning, causes, remedies } });
    }
  });
});

test("an error page has no scripts, loads only its own styles, and varies by Accept in caches", async () => {
  const page = await getErrorPage("conflict", BROWSER);
  expect(page.headers.get("content-security-policy")).toBe(
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
  );
  expect(page.headers.get("x-content-type-options")).toBe("nosniff");
  expect(page.headers.get("vary")).toBe("accept, accept-encoding");
  expect((await getErrorPage("conflict")).headers.get("vary")).toBe("accept, accept-encoding");
  expect(page.text).not.toMatch(/<script|<style| style=| on[a-z]+=/);
  const [, styles = ""] = /<link rel="stylesheet" href="([^"]+)"/.exec(page.text) ?? [];
  expect(await api.request(styles)).toMatchObject({ status: 200 });
});

test("an unknown error is a 404 in the requested format", async () => {
  const page = await getErrorPage("no-such-error", BROWSER);
  expect(page).toMatchObject({ status: 404 });
  expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
  expect(page.headers.get("cache-control")).toBe("no-store");
  for (const code of CODES) {
    expect(page.text).toContain(`href="/errors/${errorSlug(code)}"`);
  }
  const problem = await getErrorPage("no-such-error");
  expect(problem).toMatchObject({ status: 404, body: { code: "NOT_FOUND" } });
});
