/** An endpoint's deliveries: the newest ones, links to the others, and charts of the last 24 hours. */
import { IdParams } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Delivery, Endpoint } from "#lib/client/api-types.ts";
import { filteredPath } from "#portal/filters.ts";
import { html, type Html } from "#portal/html.ts";
import type { PageContent } from "#portal/layout.ts";
import type { PortalServices } from "#portal/page-parts.ts";
import { facts, stateBadge, table, timeAgo } from "#portal/parts.ts";
import type { Visit } from "#portal/visit.ts";
import { hourCharts } from "../charts.ts";
import { DEAD_LETTERS, DELIVERIES, lastAnswer } from "../delivery-parts.ts";
import { endpointFact, ENDPOINTS, missingPath, recoverPath } from "./endpoint-parts.ts";

const SHOWN = 5;

/** Returns the newest deliveries of an endpoint. */
export async function newestDeliveries({ api }: Visit, id: string): Promise<readonly Delivery[]> {
  return (await api.deliveries.list({ endpoint_id: id, limit: SHOWN }).page()).data;
}

export function deliveriesSection(visit: Visit, { id, state }: Endpoint, newest: readonly Delivery[]): Html {
  const rows = newest.map((delivery) => [
    html`<a class="name" href="${DELIVERIES}/${delivery.id}">${delivery.event_type}</a>`,
    stateBadge(delivery.state),
    lastAnswer(delivery),
    timeAgo(delivery.created_at),
  ]);
  return html`<section aria-labelledby="deliveries-heading">
    <h2 id="deliveries-heading">Newest deliveries</h2>
    ${
      rows.length === 0
        ? html`<p class="empty">No deliveries yet.</p>`
        : table(
            "Newest deliveries of this endpoint",
            ["Event type", "State", "Last answer", "Accepted"],
            rows,
            "compact",
          )
    }
    <div class="buttons">
      ${
        visit.can("webhooks:replay") &&
        state === "ACTIVE" &&
        html`<a class="button" href="${recoverPath(id)}">My receiver is fixed: retry everything now</a>`
      }
      <a class="button" href="${filteredPath(DELIVERIES, { endpoint_id: id })}">View deliveries</a>
      <a class="button" href="${ENDPOINTS}/${id}/hours">Activity</a>
      <a class="button" href="${filteredPath(DEAD_LETTERS, { endpoint_id: id })}">View dead letters</a>
      ${
        visit.can("webhooks:replay") &&
        state === "ACTIVE" &&
        html`<a class="button" href="${missingPath(id)}">Replay missing events</a>`
      }
    </div>
  </section>`;
}

/** Renders the charts of one endpoint on a separate page, which keeps the endpoint's page small. */
async function hoursPage(visit: Visit, id: string): Promise<PageContent> {
  const [endpoint, charts] = await Promise.all([visit.api.endpoints.get(id), hourCharts(visit, id)]);
  return {
    title: "Activity",
    place: ENDPOINTS,
    body: html`<section aria-label="Endpoint">${facts([endpointFact(endpoint)])}</section>
      ${charts}`,
  };
}

export function registerEndpointHours(scope: SignetServer, { send }: PortalServices): void {
  scope.get(
    "/endpoints/:id/hours",
    { config: { portal: ["webhooks:read"] }, schema: { hide: true, params: IdParams("endpoint") } },
    async ({ visit, params: { id } }, reply) => send(reply, visit, await hoursPage(visit, id)),
  );
}
