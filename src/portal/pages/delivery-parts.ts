/** Common parts of the pages for deliveries and dead letters. */
import { type Static, Type } from "typebox";
import { Closed } from "#http/common.ts";
import type { AttemptError, Delivery, DeliveryQuery } from "#lib/client/api-types.ts";
import { ATTEMPT_ERRORS, DELIVERY_STATES } from "#domain/delivery.ts";
import { FAILURES, SHOWN_STATES } from "#domain/shown-states.ts";
import { choice, field, type FilterFields, filters, option } from "../filters.ts";
import { Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import { moment } from "../parts.ts";
import type { Visit } from "../visit.ts";

export const DELIVERIES = "/portal/deliveries";
export const DEAD_LETTERS = "/portal/dead-letters";
export const EVENTS = "/portal/events";

/** Filters as the browser's form sends them; an empty field does not filter. */
export const FilterQuery = Closed({
  state: Type.Optional(Line(32)),
  endpoint_id: Type.Optional(Line(64)),
  event_type: Type.Optional(Line(128)),
  last_error: Type.Optional(Line(32)),
  reason: Type.Optional(Line(32)),
  from: Type.Optional(Line(40)),
  to: Type.Optional(Line(40)),
  cursor: Type.Optional(Line(256)),
} satisfies FilterFields<DeliveryQuery>);
export type FilterQuery = Static<typeof FilterQuery>;

/** Limit of {@link endpointUrls}: the API's page limit. */
const ENDPOINTS_MAX = 100;

/** Returns the URLs of the tenant's newest 100 endpoints by id. */
export async function endpointUrls({ api }: Visit): Promise<ReadonlyMap<string, string>> {
  const { data } = await api.endpoints.list({ limit: ENDPOINTS_MAX }).page();
  return new Map(data.map(({ id, url }) => [id, url]));
}

/** Renders the URL of an endpoint, or that it was deleted, if the URLs are complete. */
export function endpointText(endpoints: ReadonlyMap<string, string>, id: string): Part {
  const url = endpoints.get(id);
  if (url !== undefined) {
    return url;
  }
  return endpoints.size < ENDPOINTS_MAX ? html`<span class="muted">Deleted endpoint ${id}</span>` : id;
}

/** Returns the text for a class of failures. */
export function failureText(error: AttemptError): string {
  return FAILURES[error].words;
}

/** Returns the text for an attempt's result; undefined if there is none yet. */
export function answerText(status: number | null, error: AttemptError | null): string | undefined {
  if (status !== null) {
    return `HTTP ${status}`;
  }
  return error === null ? undefined : failureText(error);
}

/** Returns the text for the last attempt's result. */
export function lastAnswer({ last_status: status, last_error: error }: Delivery): string {
  return answerText(status, error) ?? "–";
}

/** Renders the filter form above a list; `states` adds the filter by state. */
export function filterForm(
  path: string,
  query: FilterQuery,
  { endpoints, states }: { readonly endpoints: ReadonlyMap<string, string>; readonly states: boolean },
): Html {
  const { state, endpoint_id: endpointId, event_type: type = "" } = query;
  const stateOptions = DELIVERY_STATES.map((name) => option(name, SHOWN_STATES[name].words, state));
  const label = states ? "Filter deliveries" : "Filter dead letters";
  const failures = ATTEMPT_ERRORS.map((name) => option(name, failureText(name), query.last_error));
  const known = [...endpoints].map(([id, url]) => option(id, url, endpointId));
  const other =
    endpointId !== undefined && endpointId !== "" && !endpoints.has(endpointId)
      ? [option(endpointId, endpointId, endpointId)]
      : [];
  const fields = [
    states && choice("state", "State", stateOptions),
    choice("endpoint_id", "Endpoint", [...known, ...other]),
    field("event_type", "Event type", html`value="${type}" maxlength="128" autocomplete="off"`),
    !states && choice("last_error", "Last failure", failures),
  ];
  return filters({ path, label, fields, query });
}

/** Renders a time with an element that the script fills with a countdown. */
export function countdown(iso: string | null): Part {
  return iso === null ? "–" : html`${moment(iso)} <span class="muted until" data-countdown></span>`;
}
