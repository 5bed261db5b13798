/** What the pages about endpoints share. */
import type { Endpoint } from "../../../lib/client/resources/endpoints.ts";
import { html, type Part } from "../../html.ts";
import { badge } from "../../parts.ts";
import type { Visit } from "../../visit.ts";

export const ENDPOINTS = "/portal/endpoints";

/** An endpoint, by the API. @throws SignetError NOT_FOUND */
export async function getEndpoint({ api }: Pick<Visit, "api">, id: string): Promise<Endpoint> {
  return await api.get<Endpoint>(`/v1/webhooks/endpoints/${id}`);
}

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
