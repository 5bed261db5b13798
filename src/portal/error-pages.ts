/** `/errors/{slug}` for people: the page behind a problem document's `type`. It runs no scripts. */
import { ERROR_DESCRIPTIONS } from "#http/error-descriptions.ts";
import type { ErrorPages } from "#api/routes/error-types.ts";
import { ERROR_CATALOGUE, type ErrorCode, errorSlug } from "#domain/errors.ts";
import { Assets } from "./assets.ts";
import type { Brand } from "./brand.ts";
import { html, type Html, type Part } from "./html.ts";
import { document, type PageContent, SCRIPTLESS_HEADERS } from "./layout.ts";
import { badge, facts, table } from "./parts.ts";

const CODES = Object.keys(ERROR_CATALOGUE) as ErrorCode[];

function list(id: string, heading: string, lines: readonly string[]): Html {
  return html`<section aria-labelledby="${id}">
    <h2 id="${id}">${heading}</h2>
    <ul class="plain-list">
      ${lines.map((line) => html`<li>${line}</li>`)}
    </ul>
  </section>`;
}

function allErrors(shown: ErrorCode | undefined): Html {
  return html`<details ${shown === undefined && html`open`}>
    <summary>All errors</summary>
    ${table(
      "All errors",
      ["Status", "Code", "Meaning"],
      CODES.map((code) => [
        ERROR_CATALOGUE[code].status,
        html`<a href="/errors/${errorSlug(code)}" ${code === shown && html`aria-current="page"`}>${code}</a>`,
        ERROR_DESCRIPTIONS[code].meaning,
      ]),
    )}
  </details>`;
}

function contentOf(code: ErrorCode | undefined): PageContent {
  const others: Part = html`<section aria-label="Errors">${allErrors(code)}</section>`;
  if (code === undefined) {
    return { title: "Unknown error code", scripted: false, body: others };
  }
  const { status, title } = ERROR_CATALOGUE[code];
  const { meaning, causes, remedies } = ERROR_DESCRIPTIONS[code];
  return {
    title,
    scripted: false,
    body: html`<section aria-labelledby="meaning">
        <h2 id="meaning">Meaning</h2>
        <p>${meaning}</p>
        ${facts([
          ["Code", html`<code>${code}</code>`],
          ["Status", badge(status >= 500 ? "bad" : "wait", `HTTP ${status}`)],
        ])}
      </section>
      ${list("causes", causes.length === 1 ? "Cause" : "Causes", causes)}
      ${list("remedies", "What to do", remedies)} ${others}`,
  };
}

/** Creates the pages. */
export function createErrorPages(brand: Brand): ErrorPages {
  const assets = new Assets();
  return {
    headers: SCRIPTLESS_HEADERS,
    render: (code) => document(assets, brand, undefined, contentOf(code)),
  };
}
