/** What pages say of compliance entries. */
import { html, type Part } from "../html.ts";
import type { Visit } from "../visit.ts";
import { ENDPOINTS } from "./endpoint/endpoint-parts.ts";

export const COMPLIANCE = "/portal/compliance";

/** An entry by its place in the log; a link for who may read it. */
export function entryLink(visit: Visit, index: number): Part {
  const text = `entry ${index}`;
  return visit.can("compliance:read") ? html`<a href="${COMPLIANCE}/${index}">${text}</a>` : text;
}

/** Pages about things, by the prefix of their ids, and the scope that shows them. */
const PAGES: Readonly<Record<string, { readonly path: string; readonly scope: string }>> = {
  crd: { path: "/portal/credentials", scope: "credentials:read" },
  ep: { path: ENDPOINTS, scope: "webhooks:read" },
};

/** An id; a link where the portal has a page about it. */
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

/** Who did it, in words: `credential:crd_…`, `operator:…` or `system:…`. */
export function actorText(visit: Visit, actor: string): Part {
  const [kind = "", ...rest] = actor.split(":");
  const id = rest.join(":");
  return html`${kind} ${kind === "credential" ? thing(visit, id) : html`<code class="id">${id}</code>`}`;
}
