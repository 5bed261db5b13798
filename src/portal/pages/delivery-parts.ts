/** What the pages about deliveries and dead letters share. */
import { type Static, Type } from "typebox";
import { Closed } from "../../http/common.ts";
import type { AttemptError, Delivery } from "../../lib/client/resources/deliveries.ts";
import type { Endpoint } from "../../lib/client/resources/endpoints.ts";
import { ATTEMPT_ERRORS, DELIVERY_STATES } from "../../domain/delivery.ts";
import type { ListAnswer } from "../context.ts";
import { choice, field, filters, option } from "../filters.ts";
import { Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import { badge, moment } from "../parts.ts";
import type { Visit } from "../visit.ts";

export const DELIVERIES = "/portal/deliveries";
export const DEAD_LETTERS = "/portal/dead-letters";

/** Filters as the browser's form sends them: a field that is left empty filters nothing. */
export const FilterQuery = Closed({
  state: Type.Optional(Line(32)),
  endpoint_id: Type.Optional(Line(64)),
  event_type: Type.Optional(Line(128)),
  last_error: Type.Optional(Line(32)),
  reason: Type.Optional(Line(32)),
  from: Type.Optional(Line(40)),
  to: Type.Optional(Line(40)),
  cursor: Type.Optional(Line(256)),
});
export type FilterQuery = Static<typeof FilterQuery>;

/** The addresses of the tenant's endpoints by their ids: the newest 100, which is what a page may ask for. */
export async function endpointUrls({ api }: Visit): Promise<ReadonlyMap<string, string>> {
  const { data } = await api.get<ListAnswer<Endpoint>>("/v1/webhooks/endpoints?limit=100");
  return new Map(data.map(({ id, url }) => [id, url]));
}

const STATE_BADGES = {
  QUEUED: badge("wait", "queued"),
  RETRYING: badge("wait", "retrying"),
  DELIVERED: badge("good", "delivered"),
  DEAD_LETTERED: badge("bad", "dead letter"),
  EXPIRED: badge("idle", "expired"),
  CANCELLED: badge("idle", "cancelled"),
} as const;

/** The state, by colour and word. */
export function deliveryBadge({ state }: Pick<Delivery, "state">): Html {
  return STATE_BADGES[state];
}

/** Why an attempt failed, in words. */
const FAILURES: Readonly<Record<AttemptError, string>> = {
  status: "HTTP error",
  timeout: "no answer in time",
  connect: "no connection",
  tls: "TLS failed",
  dns: "host not found",
  refused: "address not allowed",
  aborted: "connection broke off",
  authentication: "no access token",
};

/** A class of failures, in words. */
export function failureText(error: AttemptError): string {
  return FAILURES[error];
}

/** What an attempt came to; undefined while nothing is known. */
export function answerText(status: number | null, error: AttemptError | null): string | undefined {
  if (status !== null) {
    return `HTTP ${status}`;
  }
  return error === null ? undefined : failureText(error);
}

/** What the last attempt came to. */
export function lastAnswer({ last_status: status, last_error: error }: Delivery): string {
  return answerText(status, error) ?? "–";
}

/** The form above a list; states are offered where the list has several. */
export function filterForm(
  path: string,
  query: FilterQuery,
  { endpoints, states }: { readonly endpoints: ReadonlyMap<string, string>; readonly states: boolean },
): Html {
  const { state, endpoint_id: endpointId, event_type: type = "" } = query;
  const stateOptions = DELIVERY_STATES.map((name) =>
    option(name, name.toLowerCase().replace("_", " "), state),
  );
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

/** How long until then, for scripts to count down; the moment itself without them. */
export function countdown(iso: string | null): Part {
  return iso === null ? "–" : html`${moment(iso)} <span class="muted until" data-countdown="${iso}"></span>`;
}
