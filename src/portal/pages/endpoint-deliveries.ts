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
/** Deliveries to all endpoints that are looked at. By endpoint there is no index: who gets few would wait for seconds. */
const LOOKED_AT = 50;

export interface NewestDeliveries {
  readonly deliveries: readonly Delivery[];
  /** Whether the tenant has more than were looked at. */
  readonly more: boolean;
}

/** Those to an endpoint among the tenant's newest. */
export async function newestDeliveries({ api }: Visit, id: string): Promise<NewestDeliveries> {
  const path = `/v1/webhooks/deliveries?limit=${LOOKED_AT}`;
  const { data, next_cursor: next } = await api.get<ListAnswer<Delivery>>(path);
  const deliveries = data.filter(({ endpoint_id: endpoint }) => endpoint === id).slice(0, SHOWN);
  return { deliveries, more: next !== null };
}

export function deliveriesSection(
  visit: Visit,
  { id, state }: Endpoint,
  { deliveries, more }: NewestDeliveries,
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
        ? html`<p class="empty">
            ${
              more
                ? `None of your newest ${LOOKED_AT} deliveries went to this endpoint.`
                : "It has got no event yet."
            }
          </p>`
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
