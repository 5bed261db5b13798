/** What the pages about endpoints share. */
import type { Endpoint } from "../../client/endpoints.ts";
import { html, type Part } from "../html.ts";
import { badge } from "../parts.ts";

export const ENDPOINTS = "/portal/endpoints";

/** The state, by colour and word. */
export function stateBadge({ state }: Pick<Endpoint, "state">): Part {
  const kinds = { ACTIVE: "good", PENDING: "wait", DISABLED: "bad" } as const;
  return badge(kinds[state], state.toLowerCase());
}

/** The events that an endpoint takes, in words. */
export function eventsText({ events }: Pick<Endpoint, "events">): string {
  return events.includes("*") ? "all events" : events.join(", ");
}

/** Where events are sent that an endpoint has never got. */
export const missingPath = (id: string): string => `${ENDPOINTS}/${id}/missing`;

/** The endpoint as one of the facts. */
export function endpointFact({ id, url }: Pick<Endpoint, "id" | "url">): readonly [string, Part] {
  return ["Endpoint", html`<a class="break" href="${ENDPOINTS}/${id}">${url}</a>`];
}
