/** The layout of every page: head, navigation, notice, heading and body. */
import { html, type Html, type Part } from "./html.ts";
import type { AssetName, Assets } from "./assets.ts";
import type { Brand } from "./brand.ts";
import type { Visit } from "./visit.ts";

/** Headers of pages that run no scripts and have no forms. */
export const SCRIPTLESS_HEADERS = {
  "content-security-policy":
    "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "referrer-policy": "no-referrer",
  "x-content-type-options": "nosniff",
} as const;

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
  { path: "/portal/events", name: "Events", scope: "events:read" },
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
  /** Brand of a page without a session; the installation's by default. */
  readonly brand?: Brand;
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

const SEARCH = html`<form action="/portal/search" role="search" aria-label="Search" class="find">
  <input type="search" name="q" maxlength="256" aria-label="Find by id" placeholder="Find by id" required />
</form>`;

/** Renders the line that says whose pages an operator sees, and how. */
function viewing(visit: Visit): Part {
  return (
    visit.operator !== undefined &&
    visit.identity.tenantId !== "" &&
    html`<div class="viewing" role="status">
      <span
        >Viewing <a href="/portal/operator/why/${visit.identity.tenantId}">${visit.session.tenantName}</a> as
        an operator, read-only, without content. The tenant's compliance log has an entry.</span
      >
      <form method="post" action="/portal/operator/leave">
        <input type="hidden" name="csrf" value="${visit.csrf}" />
        <button>Leave the tenant</button>
      </form>
    </div>`
  );
}

function account(visit: Visit): Html {
  return html`${visit.identity.tenantId !== "" && SEARCH}
    <div class="account">
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

function icon(assets: Assets, { own, logo }: Brand): Html {
  if (logo !== undefined) {
    return html`<link rel="icon" href="${logo.path}" type="${logo.type}" />`;
  }
  return own
    ? html`<link rel="icon" href="${assets.path("icon.svg")}" type="image/svg+xml" />`
    : // Otherwise browsers ask for /favicon.ico.
      html`<link rel="icon" href="data:," />`;
}

function mark(assets: Assets, { name, own, logo }: Brand): Html {
  const ring = own && html`<img src="${assets.path("icon.svg")}" alt="" width="24" height="24" />`;
  return html`<a class="brand" href="/portal"
    >${logo === undefined ? ring : html`<img src="${logo.path}" alt="" height="24" />`}${name}</a
  >`;
}

/** Renders a link that leaves a frame in which another page shows the portal. */
export function returnLink({ name, returnUrl }: Brand, kind: "button primary" | "return"): Part {
  return (
    returnUrl !== undefined &&
    html`<a class="${kind}" href="${returnUrl}" target="_top"
      >${kind === "return" ? "Back to" : "Go to"} ${name}</a
    >`
  );
}

/** Renders how to reach the support. */
function supportText({ support }: Brand): Part {
  return (
    support !== undefined &&
    html`Support:
      <a href="${support.includes("://") ? support : `mailto:${support}`}" target="_top">${support}</a>`
  );
}

/** Renders a document. Without a visit, nobody is signed in, so there is no navigation. */
export function document(
  assets: Assets,
  brand: Brand,
  visit: Visit | undefined,
  content: PageContent,
): string {
  const { title, place, body, actions, notice } = content;
  const support = supportText(brand);
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${title} · ${brand.name}</title>
        ${icon(assets, brand)}
        <link rel="stylesheet" href="${assets.path("portal.css")}" />
        ${brand.styles !== undefined && html`<link rel="stylesheet" href="${brand.styles}" />`}
        ${scripts(assets, content)}
      </head>
      <body>
        <a class="skip" href="#main">Skip to content</a>
        <header>
          <div class="bar">
            ${mark(assets, brand)} ${returnLink(brand, "return")} ${visit && account(visit)}
          </div>
          ${visit && navigation(visit, place)} ${visit && viewing(visit)}
        </header>
        <main id="main" tabindex="-1">
          ${noticeOf(notice)}
          <div class="heading">
            <h1>${title}</h1>
            ${actions && html`<div class="actions">${actions}</div>`}
          </div>
          ${body}
        </main>
        ${support !== false && html`<footer>${support}</footer>`}
      </body>
    </html> `.text;
}
