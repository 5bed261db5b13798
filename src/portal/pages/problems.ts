/** Error pages. */
import { ERROR_CATALOGUE, type SignetError } from "../../domain/errors.ts";
import { html } from "../html.ts";
import type { PageContent } from "../layout.ts";

/** Renders the page for a visitor who is not signed in. */
export function signInNeeded(): PageContent {
  return {
    title: "Sign in",
    body: html`<p>You are not signed in, or your session has ended.</p>
      <p>
        Your application opens this portal with a one-time link from the API:
        <code>POST /v1/portal/links</code>. Ask the team that runs your integration for a new link.
      </p>`,
  };
}

/** Renders the page for every other error. */
export function problemPage(error: SignetError, requestId: string): PageContent {
  return {
    title: ERROR_CATALOGUE[error.code].title,
    body: html`<p>${error.message}</p>
      <p class="muted">
        Code <code>${error.code}</code>, request <code>${requestId}</code>.
        <a href="/portal">Back to the home page</a>
      </p>`,
  };
}
