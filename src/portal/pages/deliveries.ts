/** Deliveries: the list with its filters, updated live. */
import { PositionHeaders, positionOf, sendDeliveries } from "#api/delivery-stream.ts";
import type { SignetServer } from "#http/types.ts";
import type { Delivery } from "#lib/client/api-types.ts";
import { apiQuery, filterNotice, filteredPath, isFiltered } from "../filters.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { nextPage, stateBadge, table, timeAgo } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { registerDeliveryPage } from "./delivery.ts";
import {
  DELIVERIES,
  endpointText,
  endpointUrls,
  filterForm,
  FilterQuery,
  lastAnswer,
} from "./delivery-parts.ts";

/** Rows per page, so that a page with all its files stays below 100 KB. */
const PAGE = 25;

/** Renders the state, with a countdown to the next attempt. */
function standing(delivery: Delivery): Part {
  const next = delivery.state === "RETRYING" ? delivery.next_attempt_at : null;
  return [
    stateBadge(delivery.state),
    next !== null && html` <span class="muted until" data-countdown="${next}"></span>`,
  ];
}

/** Renders the text for an empty list. */
function nothing(query: FilterQuery): Html {
  return isFiltered(query)
    ? html`<p class="empty">No deliveries match these filters.</p>`
    : html`<div class="empty">
        <p><strong>No deliveries yet.</strong></p>
        <p>
          An event that you publish becomes a delivery for each endpoint that subscribes to its type. You can
          send a test event from the page of an <a href="/portal/endpoints">endpoint</a>.
        </p>
      </div>`;
}

function deliveriesTable(deliveries: readonly Delivery[], endpoints: ReadonlyMap<string, string>): Html {
  return table(
    "Deliveries",
    ["Event type", "State", "Endpoint", "Attempts", "Last answer", "Accepted"],
    deliveries.map((delivery) => [
      html`<a class="name" id="${delivery.id}" href="${DELIVERIES}/${delivery.id}"
        >${delivery.event_type}</a
      >`,
      standing(delivery),
      html`<span class="break">${endpointText(endpoints, delivery.endpoint_id)}</span>`,
      String(delivery.attempt_count),
      lastAnswer(delivery),
      timeAgo(delivery.created_at),
    ]),
    "compact",
  );
}

async function listPage(
  visit: Visit,
  query: FilterQuery,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const [asked, endpoints] = await Promise.all([
    refused(visit.api.deliveries.list({ limit: PAGE, ...apiQuery(query) }).page()),
    endpointUrls(visit),
  ]);
  const form = filterForm(DELIVERIES, query, { endpoints, states: true });
  const common = { title: "Deliveries", place: DELIVERIES };
  if ("error" in asked) {
    const notice = filterNotice(asked.error);
    return { status: asked.error.status, content: { ...common, notice, body: form } };
  }
  const { data, next_cursor: next } = asked.answer;
  // Only the first page is updated live, because new deliveries appear there.
  const live = query.cursor === undefined && html`data-live="${DELIVERIES}/live"`;
  const body = html`${form}
    <section id="deliveries" ${live}>
      ${data.length === 0 ? nothing(query) : deliveriesTable(data, endpoints)}
    </section>
    ${nextPage(filteredPath(DELIVERIES, query), next, query.cursor === undefined)}`;
  const actions = query.cursor === undefined && html`<span class="live" data-live-mark hidden>Live</span>`;
  return { status: 200, content: { ...common, actions, body } };
}

/** Registers the stream that updates the list until the session ends. */
function registerLive(scope: SignetServer, { sessions, cookie, streaming }: PortalServices): void {
  scope.get(
    "/deliveries/live",
    { config: { portal: ["webhooks:read"] }, schema: { hide: true, headers: PositionHeaders } },
    async (request, reply) => {
      const { identity, session } = request.visit;
      const secret = cookie.read(request);
      return await sendDeliveries(
        reply,
        {
          tenantId: identity.tenantId,
          endsAtMs: session.expiresAt.getTime(),
          // A browser that reconnects sends its last position.
          sinceMs: positionOf(request.headers),
          isAdmitted: async () => await sessions.isAdmitted(identity),
          isSignedIn: async () => (await sessions.find(secret, request.clientAddress)) !== undefined,
        },
        streaming,
      );
    },
  );
}

export function registerDeliveryPages(scope: SignetServer, parts: PortalServices): void {
  scope.get(
    "/deliveries",
    { config: { portal: ["webhooks:read"] }, schema: { hide: true, querystring: FilterQuery } },
    async ({ visit, query }, reply) => {
      const { status, content } = await listPage(visit, query);
      return parts.send(reply.code(status), visit, content);
    },
  );
  registerLive(scope, parts);
  registerDeliveryPage(scope, parts);
}
