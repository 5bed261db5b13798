/** The layout of every page: head, navigation, notice, heading and body. */
import { html, type Html, type Part } from "./html.ts";
import type { AssetName, Assets } from "./assets.ts";
import type { Visit } from "./visit.ts";

/** An entry of the navigation, and the scope that it requires. */
interface Place {
  readonly path: string;
  readonly name: string;
  readonly scope?: string;
}

/** Scope of the operators' own pages, which only sessions of operators have. */
export const CONSOLE_SCOPE = "operator:read";

const PLACES: readonly Place[] = [
  { path: "/portal/operator", name: "Overview", scope: CONSOLE_SCOPE },
  { path: "/portal/operator/tenants", name: "Tenants", scope: CONSOLE_SCOPE },
  { path: "/portal", name: "Home" },
  { path: "/portal/endpoints", name: "Endpoints", scope: "webhooks:read" },
  { path: "/portal/deliveries", name: "Deliveries", scope: "webhooks:read" },
  { path: "/portal/dead-letters", name: "Dead letters", scope: "webhooks:read" },
  { path: "/portal/event-types", name: "Event types", scope: "webhooks:read" },
  { path: "/portal/credentials", name: "Credentials", scope: "credentials:read" },
  { path: "/portal/compliance", name: "Compliance", scope: "compliance:read" },
];

/** Content of a page. */
export interface PageContent {
  /** Title of the document and text of the `h1`. */
  readonly title: string;
  /** Path of the page's entry in the navigation. */
  readonly place?: string;
  readonly body: Part;
  /** Actions next to the heading. */
  readonly actions?: Part;
  /** Script only for this page, an ES module. */
  readonly module?: AssetName;
  /** False if the page runs no scripts. */
  readonly scripted?: boolean;
  /** Result of the last action. */
  readonly notice?: { readonly kind: "done" | "problem"; readonly text: Part } | undefined;
}

/** Makes htmx comply with the content security policy: no inline styles, no eval. */
const HTMX_CONFIG = JSON.stringify({
  includeIndicatorStyles: false,
  allowEval: false,
  allowScriptTags: false,
  selfRequestsOnly: true,
  historyCacheSize: 0,
});

function navigation(visit: Visit, place: string | undefined): Html {
  // Without a tenant, an operator's visit has no home page.
  const shown = PLACES.filter(({ scope }) =>
    scope === undefined ? visit.identity.tenantId !== "" : visit.can(scope),
  );
  return html`<nav aria-label="Main">
    <ul>
      ${shown.map(
        ({ path, name }) =>
          html`<li><a href="${path}" ${path === place ? html`aria-current="page"` : ""}>${name}</a></li>`,
      )}
    </ul>
  </nav>`;
}

/** Renders the line that says whose pages an operator sees, and how. */
function viewing(visit: Visit): Part {
  return (
    visit.operator !== undefined &&
    visit.identity.tenantId !== "" &&
    html`<div class="viewing" role="status">
      <span
        >Viewing <strong>${visit.session.tenantName}</strong> as an operator, read-only, without content. The
        tenant's compliance log has an entry.</span
      >
      <form method="post" action="/portal/operator/leave">
        <input type="hidden" name="csrf" value="${visit.csrf}" />
        <button>Leave the tenant</button>
      </form>
    </div>`
  );
}

function account(visit: Visit): Html {
  return html`<div class="account">
    ${
      visit.operator === undefined
        ? html`<a href="/portal/sessions">${visit.session.tenantName}</a>`
        : html`<a href="/portal/operator">${visit.operator.name}</a>`
    }
    <form method="post" action="/portal/sign-out">
      <input type="hidden" name="csrf" value="${visit.csrf}" />
      <button class="quiet">Sign out</button>
    </form>
  </div>`;
}

function noticeOf(notice: PageContent["notice"]): Part {
  if (notice === undefined) {
    return "";
  }
  const role = notice.kind === "problem" ? "alert" : "status";
  return html`<div class="notice ${notice.kind}" role="${role}">${notice.text}</div>`;
}

function scripts(assets: Assets, { module, scripted = true }: PageContent): Part {
  return (
    scripted &&
    html`<meta name="htmx-config" content="${HTMX_CONFIG}" />
      <script src="${assets.path("htmx.min.js")}" defer></script>
      <script src="${assets.path("portal.js")}" defer></script>
      ${module && html`<script src="${assets.path(module)}" type="module"></script>`}`
  );
}

/** Renders a document. Without a visit, nobody is signed in, so there is no navigation. */
export function document(assets: Assets, visit: Visit | undefined, content: PageContent): string {
  const { title, place, body, actions, notice } = content;
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · Signet</title>
        <link rel="icon" href="${assets.path("icon.svg")}" type="image/svg+xml" />
        <link rel="stylesheet" href="${assets.path("portal.css")}" />
        ${scripts(assets, content)}
      </head>
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header>
          <div class="bar">
            <a class="brand" href="/portal"
              ><img src="${assets.path("icon.svg")}" alt="" width="24" height="24" />Signet</a
            >
            ${visit && account(visit)}
          </div>
          ${visit && navigation(visit, place)} ${visit && viewing(visit)}
        </header>
        <main id="main" tabindex="-1">
          ${noticeOf(notice)}
          <div class="heading">
            <h1>${title}</h1>
            ${actions === undefined ? "" : html`<div class="actions">${actions}</div>`}
          </div>
          ${body}
        </main>
      </body>
    </html> `.text;
}
