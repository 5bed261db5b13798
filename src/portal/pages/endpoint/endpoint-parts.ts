/** Common parts of the pages for endpoints. */
import type { Endpoint } from "#lib/client/api-types.ts";
import { html, type Part } from "#portal/html.ts";
import { moment, stateBadge } from "#portal/parts.ts";
import { answerText } from "../delivery-parts.ts";

export const ENDPOINTS = "/portal/endpoints";

/** Returns what is wrong with an active endpoint; undefined if nothing is, or is known. */
export function illness({
  state,
  health,
}: Pick<Endpoint, "state" | "health">): "degraded" | "failing" | undefined {
  const { status } = health;
  return state === "ACTIVE" && (status === "degraded" || status === "failing") ? status : undefined;
}

/** Renders the state as a coloured badge; of an active endpoint that is not well, its health. */
export function endpointBadge(endpoint: Pick<Endpoint, "state" | "health">): Part {
  return stateBadge(illness(endpoint) ?? endpoint.state);
}

/** Returns how the attempts of the last hour went; undefined without attempts. */
export function lastHourText({ health }: Pick<Endpoint, "health">): string | undefined {
  const { attempts, succeeded } = health.last_hour;
  return attempts === 0
    ? undefined
    : `${succeeded.toLocaleString("en")} of ${attempts.toLocaleString("en")} attempts succeeded in the last hour`;
}

/** Renders why an endpoint is not healthy, and since when. */
export function healthText({ health }: Pick<Endpoint, "health">): Part {
  const { failing_since: since, last_error: error, retrying } = health;
  return html`${
    since === null
      ? "Some of the last 20 attempts failed."
      : html`Attempts have failed since ${moment(since)}.`
  }${error !== null && html` Last error: ${answerText(error.status, error.error)}, ${moment(error.at)}.`}${
    retrying > 0 &&
    ` ${retrying.toLocaleString("en")} ${retrying === 1 ? "delivery waits" : "deliveries wait"} for another attempt.`
  }`;
}

/** Returns the text for the events that an endpoint subscribes to. */
export function eventsText({ events, ssf_stream: stream }: Pick<Endpoint, "events" | "ssf_stream">): string {
  if (stream !== undefined) {
    return `security events of the stream ${stream}`;
  }
  return events.includes("*") ? "all events" : events.join(", ");
}

/** Returns the path of the page that sends an endpoint's missed events. */
export const missingPath = (id: string): string => `${ENDPOINTS}/${id}/missing`;

/** Returns the path of the page that sends an endpoint's failed deliveries again. */
export const recoverPath = (id: string): string => `${ENDPOINTS}/${id}/recover`;

/** Returns the endpoint as a fact with a link. */
export function endpointFact({ id, url }: Pick<Endpoint, "id" | "url">): readonly [string, Part] {
  return ["Endpoint", html`<a class="break" href="${ENDPOINTS}/${id}">${url}</a>`];
}
