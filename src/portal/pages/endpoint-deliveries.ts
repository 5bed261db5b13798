/** The newest deliveries of an endpoint, on its page, and the ways to all others. */
import type { Delivery } from "../../client/deliveries.ts";
import type { Endpoint } from "../../client/endpoints.ts";
import type { ListAnswer } from "../context.ts";
import { filteredPath } from "../filters.ts";
import { html, type Html } from "../html.ts";
import { moment, table } from "../parts.ts";
import type { Visit } from "../visit.ts";
import { DEAD_LETTERS, DELIVERIES, deliveryBadge, lastAnswer } from "./delivery-parts.ts";
import { missingPath } from "./endpoint-parts.ts";

const SHOWN = 5;

export async function newestDeliveries({ api }: Visit, id: string): Promise<readonly Delivery[]> {
  const path = `/v1/webhooks/deliveries?endpoint_id=${id}&limit=${SHOWN}`;
  return (await api.get<ListAnswer<Delivery>>(path)).data;
}

export function deliveriesSection(
  visit: Visit,
  { id, state }: Endpoint,
  deliveries: readonly Delivery[],
): Html {
  const rows = deliveries.map((delivery) => [
    html`<a href="${DELIVERIES}/${delivery.id}">${delivery.event_type}</a>`,
    deliveryBadge(delivery),
    lastAnswer(delivery),
    moment(delivery.created_at),
  ]);
  return html`<section aria-labelledby="deliveries-heading">
    <h2 id="deliveries-heading">Newest deliveries</h2>
    ${
      rows.length === 0
        ? html`<p class="empty">It has got no event yet.</p>`
        : table(
            "Newest deliveries of this endpoint",
            ["Event type", "State", "Last answer", "Accepted"],
            rows,
          )
    }
    <div class="buttons">
      <a class="button" href="${filteredPath(DELIVERIES, { endpoint_id: id })}">All its deliveries</a>
      <a class="button" href="${filteredPath(DEAD_LETTERS, { endpoint_id: id })}">Its dead letters</a>
      ${
        visit.can("webhooks:replay") &&
        state === "ACTIVE" &&
        html`<a class="button" href="${missingPath(id)}">Send what it never got</a>`
      }
    </div>
  </section>`;
}
