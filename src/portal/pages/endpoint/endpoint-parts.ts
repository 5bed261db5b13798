/** Common parts of the pages for endpoints. */
import type { Endpoint } from "../../../lib/client/api-types.ts";
import { html, type Part } from "../../html.ts";
import { badge } from "../../parts.ts";
import type { Visit } from "../../visit.ts";

export const ENDPOINTS = "/portal/endpoints";

/** Gets an endpoint from the API. @throws SignetError NOT_FOUND */
export async function getEndpoint({ api }: Pick<Visit, "api">, id: string): Promise<Endpoint> {
  return await api.get<Endpoint>(`/v1/webhooks/endpoints/${id}`);
}

/** Renders the state as a coloured badge. */
export function stateBadge({ state }: Pick<Endpoint, "state">): Part {
  const kinds = { ACTIVE: "good", PENDING: "wait", DISABLED: "bad" } as const;
  return badge(kinds[state], state.toLowerCase());
}

/** Returns the text for the events that an endpoint subscribes to. */
export function eventsText({ events }: Pick<Endpoint, "events">): string {
  return events.includes("*") ? "all events" : events.join(", ");
}

/** Returns the path of the page that sends an endpoint's missed events. */
export const missingPath = (id: string): string => `${ENDPOINTS}/${id}/missing`;

/** Returns the endpoint as a fact with a link. */
export function endpointFact({ id, url }: Pick<Endpoint, "id" | "url">): readonly [string, Part] {
  return ["Endpoint", html`<a class="break" href="${ENDPOINTS}/${id}">${url}</a>`];
}
