/** Published events: the list, also of events that matched no endpoint, and a page for one. */
import { type Static, Type } from "typebox";
import { Closed, IdParams } from "#http/common.ts";
import { rawMember } from "#http/raw-json.ts";
import type { SignetServer } from "#http/types.ts";
import type { EventQuery, StoredEvent } from "#lib/client/api-types.ts";
import {
  apiQuery,
  filterNotice,
  field,
  type FilterFields,
  filteredPath,
  filters,
  isFiltered,
} from "../filters.ts";
import { Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { badge, dataBlock, facts, moment, nextPage, stateBadge, table, timeAgo } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DELIVERIES, endpointText, endpointUrls, EVENTS, lastAnswer } from "./delivery-parts.ts";

const READING = { portal: ["events:read"] };
/** Rows per page, so that a page with all its files stays below 100 KB. */
const PAGE = 25;
/** Number of an event's deliveries on its page. */
const DELIVERIES_SHOWN = 50;

const EventsQuery = Closed({
  event_type: Type.Optional(Line(128)),
  id: Type.Optional(Line(128)),
  from: Type.Optional(Line(40)),
  to: Type.Optional(Line(40)),
  cursor: Type.Optional(Line(256)),
} satisfies FilterFields<EventQuery>);
type EventsQuery = Static<typeof EventsQuery>;

function deliveriesText({ deliveries }: Pick<StoredEvent, "deliveries">): Part {
  return deliveries === 0 ? badge("idle", "matched no endpoint") : deliveries.toLocaleString("en");
}

function eventsTable(events: readonly StoredEvent[]): Html {
  return table(
    "Events",
    ["Event type", "Deliveries", "Event", "Your id", "Accepted"],
    events.map((event) => [
      html`<a class="name" href="${EVENTS}/${event.id}">${event.type}</a>`,
      deliveriesText(event),
      html`<code class="id">${event.id}</code>`,
      event.source_id === null ? "–" : html`<span class="break">${event.source_id}</span>`,
      timeAgo(event.created_at),
    ]),
    "compact",
  );
}

function filterForm(query: EventsQuery): Html {
  const { event_type: type = "", id = "" } = query;
  return filters({
    path: EVENTS,
    label: "Filter events",
    fields: [
      field("event_type", "Event type", html`value="${type}" maxlength="128" autocomplete="off"`),
      field("id", "Your id", html`value="${id}" maxlength="128" autocomplete="off"`),
    ],
    query,
  });
}

async function listPage(
  { api }: Visit,
  query: EventsQuery,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const asked = await refused(api.events.list({ limit: PAGE, ...apiQuery(query) }).page());
  const common = { title: "Events", place: EVENTS };
  const form = filterForm(query);
  if ("error" in asked) {
    const notice = filterNotice(asked.error);
    return { status: asked.error.status, content: { ...common, notice, body: form } };
  }
  const { data, next_cursor: next } = asked.answer;
  const nothing = isFiltered(query)
    ? "No events match these filters."
    : "No events yet. Published events appear here, also those that match no endpoint.";
  const body = html`${form}
    <section>${data.length === 0 ? html`<p class="empty">${nothing}</p>` : eventsTable(data)}</section>
    ${nextPage(filteredPath(EVENTS, query), next, query.cursor === undefined)}`;
  return { status: 200, content: { ...common, body } };
}

async function deliveriesSection(visit: Visit, { id, deliveries }: StoredEvent): Promise<Html> {
  const [{ data }, endpoints] = await Promise.all([
    visit.api.deliveries.list({ event_id: id, limit: DELIVERIES_SHOWN }).page(),
    endpointUrls(visit),
  ]);
  const rows = data.map((delivery) => [
    html`<a class="break" href="${DELIVERIES}/${delivery.id}"
      >${endpointText(endpoints, delivery.endpoint_id)}</a
    >`,
    stateBadge(delivery.state),
    String(delivery.attempt_count),
    lastAnswer(delivery),
  ]);
  return html`<section aria-labelledby="deliveries">
    <h2 id="deliveries">Deliveries</h2>
    ${
      rows.length === 0
        ? html`<p class="empty">
            No endpoint was subscribed to this event type when the event was accepted, or their filters did
            not match.
          </p>`
        : table("Deliveries of the event", ["Endpoint", "State", "Attempts", "Last answer"], rows, "compact")
    }
    ${data.length < deliveries && html`<p class="muted">The newest ${data.length} of ${deliveries}.</p>`}
  </section>`;
}

async function eventPage(visit: Visit, id: string): Promise<PageContent> {
  const event = await visit.api.events.get(id);
  return {
    title: event.type,
    place: EVENTS,
    body: html`<section aria-labelledby="about">
        <h2 id="about">About</h2>
        ${facts([
          ["Event", html`<code>${event.id}</code>`],
          ["Your id", event.source_id ?? "–"],
          ["Occurred", moment(event.occurred_at)],
          ["Accepted", timeAgo(event.created_at)],
          ["Deliveries", deliveriesText(event)],
        ])}
      </section>
      ${visit.can("webhooks:read") && (await deliveriesSection(visit, event))}
      ${dataBlock(rawMember(visit.textOf(event), "data"))}`,
  };
}

export function registerEventPages(scope: SignetServer, parts: PortalServices): void {
  scope.get(
    "/events",
    { config: READING, schema: { hide: true, querystring: EventsQuery } },
    async ({ visit, query }, reply) => {
      const { status, content } = await listPage(visit, query);
      return parts.send(reply.code(status), visit, content);
    },
  );
  scope.get(
    "/events/:id",
    { config: READING, schema: { hide: true, params: IdParams("event") } },
    async ({ visit, params: { id } }, reply) => parts.send(reply, visit, await eventPage(visit, id)),
  );
}
