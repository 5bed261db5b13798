/** One delivery: where it stands, every request that was made for it, and what can be done. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "../../api/schemas/common.ts";
import type { SignetServer } from "../../api/types.ts";
import type { Attempt, Delivery } from "../../client/deliveries.ts";
import { SEE_OTHER } from "../context.ts";
import { Form } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalParts } from "../page-parts.ts";
import { badge, buttonForm, facts, moment, workflowFact } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { countdown, DEAD_LETTERS, DELIVERIES, deliveryBadge, lastAnswer } from "./delivery-parts.ts";
import { ENDPOINTS } from "./endpoint-parts.ts";

const DONE = {
  hastened: "The next attempt is being made.",
  cancelled: "The delivery is cancelled.",
  replayed: "The delivery has a fresh cycle of 17 attempts.",
} as const;
const MS_PER_S = 1_000;

/**
 * What a request carried beside the endpoint's own headers. Signatures are not kept, and nothing that proves who sends is
 * shown; the rest follows from the delivery.
 */
function requestHeaders(brand: string, delivery: Delivery, attempt: Attempt): Part {
  // The request is signed once it begins, so within the second.
  const seconds = Math.floor(Date.parse(attempt.started_at) / MS_PER_S);
  const lines = [
    "Content-Type: application/json",
    `X-${brand}-Signature-256: (not kept)`,
    `X-${brand}-Timestamp: ${seconds}`,
    `X-${brand}-Event-Id: ${delivery.event_id}`,
    `X-${brand}-Event-Type: ${delivery.event_type}`,
    `X-${brand}-Delivery-Id: ${delivery.id}`,
    `X-${brand}-Attempt: ${attempt.attempt}`,
    `webhook-id: ${delivery.event_id}`,
    `webhook-timestamp: ${seconds}`,
    "webhook-signature: (not kept)",
  ];
  return html`<details>
    <summary>Request headers</summary>
    <pre
      tabindex="0"
      role="region"
      aria-label="Request headers of attempt ${attempt.attempt}, cycle ${attempt.cycle}"
    >
${lines.join("\n")}</pre>
  </details>`;
}

function outcome({ status, error, duration_ms: duration }: Attempt): Part {
  if (duration === null) {
    return badge("wait", "under way");
  }
  const text = status === null ? (error ?? "failed") : `HTTP ${status}`;
  return badge(error === null ? "good" : "bad", text);
}

function attemptItem(brand: string, delivery: Delivery, attempt: Attempt): Part {
  const { response_body: body, duration_ms: duration, cycle } = attempt;
  return html`<li class="card">
    <h3>Attempt ${attempt.attempt}${cycle > 1 && html`, cycle ${cycle}`} ${outcome(attempt)}</h3>
    <p class="muted">${moment(attempt.started_at)}${duration !== null && html` · took ${duration} ms`}</p>
    ${requestHeaders(brand, delivery, attempt)}
    ${
      body !== null &&
      body !== "" &&
      html`<details>
        <summary>Response body (the first 4 KiB)</summary>
        <pre
          tabindex="0"
          role="region"
          aria-label="Response body of attempt ${attempt.attempt}, cycle ${cycle}"
        >
${body}</pre>
      </details>`
    }
  </li>`;
}

function buttons(visit: Visit, { id, state }: Delivery): Part {
  const path = `${DELIVERIES}/${id}`;
  if (state === "DEAD_LETTERED") {
    return (
      visit.can("webhooks:replay") &&
      html`<div class="buttons">
        ${buttonForm(visit, { action: `${DEAD_LETTERS}/${id}/replay`, label: "Replay", kind: "primary" })}
      </div>`
    );
  }
  const open = state === "QUEUED" || state === "RETRYING";
  return (
    open &&
    visit.can("webhooks:write") &&
    html`<div class="buttons">
      ${buttonForm(visit, { action: `${path}/retry`, label: "Attempt now", kind: "primary" })}
      ${buttonForm(visit, { action: `${path}/cancel`, label: "Cancel", kind: "danger" })}
    </div>`
  );
}

interface Shown {
  readonly delivery: Delivery;
  /** Newest first. */
  readonly attempts: readonly Attempt[];
  readonly brand: string;
}

function body(visit: Visit, { delivery, attempts, brand }: Shown): Part {
  const open = delivery.state === "QUEUED" || delivery.state === "RETRYING";
  const path = `${DELIVERIES}/${delivery.id}`;
  const polling =
    open && html`hx-get="${path}" hx-select="#delivery" hx-trigger="every 3s" hx-swap="outerHTML"`;
  return html`<div id="delivery" ${polling}>
    <section aria-labelledby="standing">
      <h2 id="standing">State ${deliveryBadge(delivery)}</h2>
      ${facts([
        ["Endpoint", html`<a href="${ENDPOINTS}/${delivery.endpoint_id}">${delivery.endpoint_id}</a>`],
        ["Event", html`<code>${delivery.event_id}</code>`],
        ["Id", html`<code>${delivery.id}</code>`],
        ["Accepted", moment(delivery.created_at)],
        ["Attempts of 17", delivery.attempt_count],
        ["Last answer", lastAnswer(delivery)],
        ["Next attempt", countdown(delivery.next_attempt_at)],
        ["Delivered", moment(delivery.delivered_at)],
        ["Kept as a dead letter until", countdown(delivery.expires_at)],
        ...(delivery.workflow_id === null
          ? []
          : workflowFact(visit, "Workflow, for operators", delivery.workflow_id)),
      ])}
      ${buttons(visit, delivery)}
    </section>
    <section aria-labelledby="attempts">
      <h2 id="attempts">Attempts</h2>
      ${
        attempts.length === 0
          ? html`<p class="empty">No request was made yet.</p>`
          : html`<ol class="cards">
              ${attempts.map((attempt) => attemptItem(brand, delivery, attempt))}
            </ol>`
      }
    </section>
  </div>`;
}

async function deliveryPage(
  visit: Visit,
  { id, brand }: { readonly id: string; readonly brand: string },
  notice?: PageContent["notice"],
): Promise<PageContent> {
  const path = `/v1/webhooks/deliveries/${id}`;
  const [delivery, attempts] = await Promise.all([
    visit.api.get<Delivery>(path),
    visit.api.get<{ readonly data: readonly Attempt[] }>(`${path}/attempts`),
  ]);
  return {
    title: delivery.event_type,
    place: DELIVERIES,
    notice,
    body: body(visit, { delivery, attempts: attempts.data.toReversed(), brand }),
  };
}

function registerChange(
  scope: SignetServer,
  { send, headerBrand: brand }: PortalParts,
  { path, done }: { readonly path: "retry" | "cancel"; readonly done: keyof typeof DONE },
): void {
  scope.post(
    `/deliveries/:id/${path}`,
    {
      config: { portal: ["webhooks:read", "webhooks:write"] },
      schema: { hide: true, params: IdParams("delivery"), body: Form({}) },
    },
    async ({ visit, params: { id } }, reply) => {
      const changed = await refused(visit.api.send("POST", `/v1/webhooks/deliveries/${id}/${path}`));
      if ("error" in changed) {
        const notice = { kind: "problem", text: changed.error.message } as const;
        return send(
          reply.code(changed.error.status),
          visit,
          await deliveryPage(visit, { id, brand }, notice),
        );
      }
      return await reply.redirect(`${DELIVERIES}/${id}?done=${done}`, SEE_OTHER);
    },
  );
}

export function registerDeliveryPage(scope: SignetServer, parts: PortalParts): void {
  const { headerBrand: brand } = parts;
  const names = Object.keys(DONE) as (keyof typeof DONE)[];
  scope.get(
    "/deliveries/:id",
    {
      config: { portal: ["webhooks:read"] },
      schema: {
        hide: true,
        params: IdParams("delivery"),
        querystring: Closed({ done: Type.Optional(OneOf(names)) }),
      },
    },
    async ({ visit, params: { id }, query: { done } }, reply) => {
      const notice = done && ({ kind: "done", text: DONE[done] } as const);
      return parts.send(reply, visit, await deliveryPage(visit, { id, brand }, notice));
    },
  );
  registerChange(scope, parts, { path: "retry", done: "hastened" });
  registerChange(scope, parts, { path: "cancel", done: "cancelled" });
}
