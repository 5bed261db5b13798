/** Parts of pages that show compliance entries. */
import { html, type Part } from "../html.ts";
import type { Visit } from "../visit.ts";
import { ENDPOINTS } from "./endpoint/endpoint-parts.ts";

export const COMPLIANCE = "/portal/compliance";

/** Renders an entry's index, as a link if the session may read the entry. */
export function entryLink(visit: Visit, index: number): Part {
  const text = `entry ${index}`;
  return visit.can("compliance:read") ? html`<a href="${COMPLIANCE}/${index}">${text}</a>` : text;
}

/** Pages of objects by the prefix of their ids, and the scope that each page requires. */
const PAGES: Readonly<Record<string, { readonly path: string; readonly scope: string }>> = {
  crd: { path: "/portal/credentials", scope: "credentials:read" },
  ep: { path: ENDPOINTS, scope: "webhooks:read" },
};

/** Renders an id, as a link if the portal has a page for it. */
export function thing(visit: Visit, id: string | null): Part {
  if (id === null) {
    return "–";
  }
  const page = PAGES[id.slice(0, id.indexOf("_"))];
  const shown = html`<code class="id">${id}</code>`;
  return page !== undefined && visit.can(page.scope)
    ? html`<a href="${page.path}/${id}">${shown}</a>`
    : shown;
}

/** Renders an actor: `credential:crd_…`, `operator:…` or `system:…`. */
export function actorText(visit: Visit, actor: string): Part {
  const [kind = "", ...rest] = actor.split(":");
  const id = rest.join(":");
  return html`${kind} ${kind === "credential" ? thing(visit, id) : html`<code class="id">${id}</code>`}`;
}
