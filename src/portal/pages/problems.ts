/** Error pages. */
import { ERROR_CATALOGUE, type SignetError } from "#domain/errors.ts";
import { NPX_SIGNET } from "#runtime/package.ts";
import type { Brand } from "../brand.ts";
import { html, type Html } from "../html.ts";
import { type PageContent, returnLink } from "../layout.ts";

interface Visitor {
  readonly brand: Brand;
  readonly development: boolean;
}

/** Renders how to open the portal again. */
function openAgain({ brand, development }: Visitor): Html {
  return html`<p>
      Open the portal again from ${brand.own ? "the application that you came from" : brand.name}: it creates
      a new sign-in link.
    </p>
    ${brand.returnUrl !== undefined && html`<p>${returnLink(brand, "button primary")}</p>`}
    ${development && html`<p class="muted">In development: <code>${NPX_SIGNET} portal --open</code></p>`}`;
}

/** Renders the page for a visitor who is not signed in. */
export function signInNeeded(visitor: Visitor): PageContent {
  return {
    title: "Sign in",
    brand: visitor.brand,
    body: html`<p>You are not signed in, or your session has ended.</p>
      ${openAgain(visitor)}`,
  };
}

/** Renders the page for a sign-in link that opens no session. */
export function linkEnded(visitor: Visitor): PageContent {
  return {
    title: "This link was already used or has expired",
    brand: visitor.brand,
    body: html`<p>A sign-in link works once, and only for a few minutes.</p>
      ${openAgain(visitor)}`,
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
