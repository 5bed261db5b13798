/** An endpoint's deliveries on its page: the newest, the ways to all others, and the last 24 hours in pictures. */
import type { Delivery, DeliveryHour } from "../../client/deliveries.ts";
import type { Endpoint } from "../../client/endpoints.ts";
import type { ListAnswer } from "../context.ts";
import { filteredPath } from "../filters.ts";
import { html, type Html } from "../html.ts";
import { moment, table } from "../parts.ts";
import type { Visit } from "../visit.ts";
import { chartsSection } from "./charts.ts";
import { DEAD_LETTERS, DELIVERIES, deliveryBadge, lastAnswer } from "./delivery-parts.ts";
import { missingPath } from "./endpoint-parts.ts";

const SHOWN = 5;
/** The newest ones of an endpoint, and its last 24 hours. */
export interface EndpointDeliveries {
  readonly newest: readonly Delivery[];
  readonly hours: readonly DeliveryHour[];
}

export async function endpointDeliveries({ api }: Visit, id: string): Promise<EndpointDeliveries> {
  const [newest, hours] = await Promise.all([
    api.get<ListAnswer<Delivery>>(`/v1/webhooks/deliveries?endpoint_id=${id}&limit=${SHOWN}`),
    api.get<{ readonly data: readonly DeliveryHour[] }>(`/v1/webhooks/stats?endpoint_id=${id}`),
  ]);
  return { newest: newest.data, hours: hours.data };
}

export function deliveriesSection(
  visit: Visit,
  { id, state }: Endpoint,
  { newest, hours }: EndpointDeliveries,
): Html {
  const rows = newest.map((delivery) => [
    html`<a class="name" href="${DELIVERIES}/${delivery.id}">${delivery.event_type}</a>`,
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
    </section>
    ${hours.some(({ total }) => total > 0) && chartsSection(hours)}`;
}
