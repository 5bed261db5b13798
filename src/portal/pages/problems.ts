/** Pages of what went wrong. */
import { ERROR_CATALOGUE, type SignetError } from "../../domain/errors.ts";
import { html } from "../html.ts";
import type { PageContent } from "../layout.ts";

/** For who is not signed in. */
export function signInNeeded(): PageContent {
  return {
    title: "Sign in",
    body: html`<p>Nobody is signed in here, or the session is over.</p>
      <p>
        Your application opens this portal with a one-time link, which it asks the API for:
        <code>POST /v1/portal/links</code>. Ask whoever runs your integration for a new one.
      </p>`,
  };
}

/** For every other failure. */
export function problemPage(error: SignetError, requestId: string): PageContent {
  return {
    title: ERROR_CATALOGUE[error.code].title,
    body: html`<p>${error.message}</p>
      <p class="muted">
        Code <code>${error.code}</code>, request <code>${requestId}</code>.
        <a href="/portal">Back to the start</a>
      </p>`,
  };
}
