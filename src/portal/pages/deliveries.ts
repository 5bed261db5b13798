/** Deliveries: the list with its filters, kept up to date while somebody looks. */
import { PositionHeaders, positionOf, sendDeliveries } from "../../api/delivery-stream.ts";
import type { SignetServer } from "../../http/types.ts";
import type { Delivery } from "../../lib/client/resources/deliveries.ts";
import type { ListAnswer } from "../context.ts";
import { apiQuery, filteredPath, isFiltered } from "../filters.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalParts } from "../page-parts.ts";
import { moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { registerDeliveryPage } from "./delivery.ts";
import {
  DELIVERIES,
  deliveryBadge,
  endpointUrls,
  filterForm,
  FilterQuery,
  lastAnswer,
} from "./delivery-parts.ts";

/** With all its files a page stays below 100 KB. */
const PAGE = 25;

/** The state, and how long it stays so. */
function standing(delivery: Delivery): Part {
  const next = delivery.state === "RETRYING" ? delivery.next_attempt_at : null;
  return [
    deliveryBadge(delivery),
    next !== null && html` <span class="muted until" data-countdown="${next}"></span>`,
  ];
}

/** Nothing to show: what to do about it. */
function nothing(query: FilterQuery): Html {
  return isFiltered(query)
    ? html`<p class="empty">No delivery fits these filters.</p>`
    : html`<div class="empty">
        <p><strong>No delivery yet.</strong></p>
        <p>
          An event that you publish becomes a delivery for each endpoint that takes its type. A test event can
          be sent from the page of an <a href="/portal/endpoints">endpoint</a>.
        </p>
      </div>`;
}

function deliveriesTable(deliveries: readonly Delivery[], endpoints: ReadonlyMap<string, string>): Html {
  return table(
    "Deliveries",
    ["Event type", "Endpoint", "State", "Attempts", "Last answer", "Accepted"],
    deliveries.map((delivery) => [
      html`<a class="name" id="${delivery.id}" href="${DELIVERIES}/${delivery.id}"
        >${delivery.event_type}</a
      >`,
      html`<span class="break">${endpoints.get(delivery.endpoint_id) ?? delivery.endpoint_id}</span>`,
      standing(delivery),
      String(delivery.attempt_count),
      lastAnswer(delivery),
      moment(delivery.created_at),
    ]),
  );
}

async function listPage(
  visit: Visit,
  query: FilterQuery,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const [asked, endpoints] = await Promise.all([
    refused(visit.api.get<ListAnswer<Delivery>>(`/v1/webhooks/deliveries?limit=${PAGE}&${apiQuery(query)}`)),
    endpointUrls(visit),
  ]);
  const form = filterForm(DELIVERIES, query, { endpoints, states: true });
  const common = { title: "Deliveries", place: DELIVERIES };
  if ("error" in asked) {
    const notice = { kind: "problem", text: asked.error.message } as const;
    return { status: asked.error.status, content: { ...common, notice, body: form } };
  }
  const { data, next_cursor: next } = asked.answer;
  // What is older does not change places: only the first page is followed.
  const live = query.cursor === undefined && html`data-live="${DELIVERIES}/live"`;
  const body = html`${form}
    <section id="deliveries" ${live}>
      ${data.length === 0 ? nothing(query) : deliveriesTable(data, endpoints)}
    </section>
    ${nextPage(filteredPath(DELIVERIES, query), next, query.cursor === undefined)}`;
  const actions = query.cursor === undefined && html`<span class="live" data-live-mark hidden>Live</span>`;
  return { status: 200, content: { ...common, actions, body } };
}

/** The stream of the list, as long as the session lasts. */
function registerLive(scope: SignetServer, { sessions, cookie, streaming }: PortalParts): void {
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
          // A browser that connects again says by itself how far it was told.
          sinceMs: positionOf(request.headers),
          isAdmitted: async () => await sessions.isAdmitted(identity),
          isSignedIn: async () => (await sessions.find(secret, request.clientAddress)) !== undefined,
        },
        streaming,
      );
    },
  );
}

export function registerDeliveryPages(scope: SignetServer, parts: PortalParts): void {
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
