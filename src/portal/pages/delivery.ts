/** One delivery: its state, all its requests, and its actions. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Attempt, Delivery, Endpoint } from "#lib/client/api-types.ts";
import { rawMember } from "#http/raw-json.ts";
import { ATTEMPT_MAX as ATTEMPTS } from "#domain/retry-schedule.ts";
import { SEE_OTHER } from "../context.ts";
import { Form } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import {
  badge,
  buttonForm,
  dataBlock,
  facts,
  moment,
  shortened,
  stateBadge,
  temporalFact,
} from "../parts.ts";
import { prettyJson } from "../pretty-json.ts";
import { refused } from "../problems.ts";
import { workflowUrl } from "#temporal/views.ts";
import type { Visit } from "../visit.ts";
import { answerText, countdown, DEAD_LETTERS, DELIVERIES, EVENTS, lastAnswer } from "./delivery-parts.ts";
import { ENDPOINTS } from "./endpoint/endpoint-parts.ts";

const DONE = {
  tested: "The test event was sent for delivery.",
  hastened: "The next attempt starts now.",
  cancelled: "The delivery was cancelled.",
  replayed: `The delivery has a new cycle of ${ATTEMPTS} attempts.`,
  resent: `The delivery is sent again, in a new cycle of ${ATTEMPTS} attempts.`,
} as const;
const MS_PER_S = 1_000;
/** Number of attempts on the page, newest first: two cycles. */
const SHOWN_MAX = 2 * ATTEMPTS;
/** Maximum characters of all answers together, so that a page stays below 100 KB. */
const ANSWERS_MAX = 12_288;
/** Characters to show of an answer after others have filled the page. */
const ANSWER_MIN = 128;

function isOpen({ state }: Pick<Delivery, "state">): boolean {
  return state === "QUEUED" || state === "RETRYING";
}

interface AttemptPart {
  readonly key: string;
  readonly title: string;
  readonly text: string;
  /** Whether it is open at first. */
  readonly open?: boolean;
}

/** Renders a part of an attempt, which the reader can open. */
function part({ attempt, cycle }: Attempt, { key, title, text, open = false }: AttemptPart): Html {
  return html`<details ${kept(key)} ${open && html`open`}>
    <summary>${title}</summary>
    <pre class="wrap" tabindex="0" role="region" aria-label="${title} of attempt ${attempt}, cycle ${cycle}">
${text}</pre>
  </details>`;
}

/**
 * Renders a request's headers, except the endpoint's own. Signatures are not stored, and the headers that authenticate
 * the sender are not shown. All others are derived from the delivery.
 */
function requestHeaders(brand: string, delivery: Delivery, attempt: Attempt): Part {
  // The request is signed when it starts, so the timestamp is the same second.
  const seconds = Math.floor(Date.parse(attempt.started_at) / MS_PER_S);
  const lines = [
    "Content-Type: application/json",
    `X-${brand}-Signature-256: (not stored)`,
    `X-${brand}-Timestamp: ${seconds}`,
    `X-${brand}-Event-Id: ${delivery.event_id}`,
    `X-${brand}-Event-Type: ${delivery.event_type}`,
    `X-${brand}-Delivery-Id: ${delivery.id}`,
    `X-${brand}-Attempt: ${attempt.attempt}`,
    `webhook-id: ${delivery.event_id}`,
    `webhook-timestamp: ${seconds}`,
    "webhook-signature: (not stored)",
  ];
  return part(attempt, {
    key: `request-${attempt.id}`,
    title: "Request headers",
    text: lines.join("\n"),
  });
}

/** Keeps opened details open when the page reloads its content. */
function kept(id: string): Html {
  return html`id="${id}" hx-preserve`;
}

const MARKS = { wait: "in progress", good: "answered", bad: "failed" } as const;

function kindOf({ error, duration_ms: duration }: Attempt): keyof typeof MARKS {
  if (duration === null) {
    return "wait";
  }
  return error === null ? "good" : "bad";
}

/** Returns the answers of the attempts, newest first, shortened to fit the page. */
function answersOf(attempts: readonly Attempt[]): string[] {
  let room = ANSWERS_MAX;
  return attempts.map(({ response_body: body }) => {
    const shown = shortened(prettyJson(body ?? "", ANSWERS_MAX), Math.max(ANSWER_MIN, room));
    room -= shown.length;
    return shown;
  });
}

interface AttemptAnswer {
  readonly text: string;
  /** Whether it is the newest answer with a body. */
  readonly newest: boolean;
}

function attemptItem({ brand, delivery }: Shown, attempt: Attempt, answer: AttemptAnswer): Part {
  const { duration_ms: duration, cycle } = attempt;
  const kind = kindOf(attempt);
  const text = answerText(attempt.status, attempt.error) ?? MARKS[kind];
  return html`<li class="${kind}">
    <h3>
      Attempt ${attempt.attempt}${cycle > 1 && html`, cycle ${cycle}`}${attempt.resend === true && ", resend"}
      ${badge(kind, text)}
    </h3>
    <p class="muted">${moment(attempt.started_at)}${duration !== null && html` · took ${duration} ms`}</p>
    ${requestHeaders(brand, delivery, attempt)}
    ${
      answer.text !== "" &&
      part(attempt, {
        key: `response-${attempt.id}`,
        title: "Response body",
        text: answer.text,
        open: answer.newest,
      })
    }
  </li>`;
}

/** Returns why a delivery that has ended cannot be sent again; undefined if nothing stands against it. */
function againstCycle({ delivery, endpoint }: Shown): Part | undefined {
  if (isOpen(delivery) || endpoint?.state === "ACTIVE" || endpoint?.state === "PENDING") {
    return undefined;
  }
  return endpoint === undefined
    ? html`<p>Its endpoint is deleted, so it cannot be sent again.</p>`
    : html`<p>
        This endpoint is disabled: <a href="${ENDPOINTS}/${endpoint.id}">enable it first</a>. Then you can
        send the delivery again.
      </p>`;
}

function buttons(visit: Visit, shown: Shown): Part {
  const { id, state } = shown.delivery;
  const path = `${DELIVERIES}/${id}`;
  const against = againstCycle(shown);
  if (against !== undefined) {
    return visit.can("webhooks:replay") && against;
  }
  if (state === "DEAD_LETTERED") {
    return (
      visit.can("webhooks:replay") &&
      html`<div class="buttons">
        ${buttonForm(visit, {
          action: `${DEAD_LETTERS}/${id}/replay`,
          label: "Replay",
          kind: "primary",
          id: "replay",
        })}
      </div>`
    );
  }
  if (!isOpen({ state })) {
    return (
      visit.can("webhooks:replay") &&
      html`<div class="buttons">
        ${buttonForm(visit, { action: `${path}/resend`, label: "Resend", id: "resend" })}
      </div>`
    );
  }
  return (
    visit.can("webhooks:write") &&
    html`<div class="buttons">
      ${buttonForm(visit, { action: `${path}/retry`, label: "Attempt now", kind: "primary", id: "retry" })}
      ${buttonForm(visit, { action: `${path}/cancel`, label: "Cancel", kind: "danger", id: "cancel" })}
    </div>`
  );
}

interface Shown {
  readonly delivery: Delivery;
  /** Undefined if the endpoint is deleted. */
  readonly endpoint: Endpoint | undefined;
  /** Undefined if the session may not read it. */
  readonly data: string | undefined;
  /** Newest first. */
  readonly attempts: readonly Attempt[];
  readonly brand: string;
}

/** Returns the facts about the delivery's state, without those that do not apply. */
function standing(visit: Visit, { delivery, endpoint }: Shown): (readonly [string, Part])[] {
  const { endpoint_id: endpointId, next_attempt_at: next, delivered_at: delivered, state } = delivery;
  const count = delivery.attempt_count;
  return [
    [
      "Endpoint",
      endpoint === undefined
        ? html`<span class="muted">Deleted endpoint ${endpointId}</span>`
        : html`<a href="${ENDPOINTS}/${endpointId}" id="endpoint-of-delivery">${endpoint.url}</a>`,
    ],
    [
      "Attempts",
      html`<meter min="0" max="${ATTEMPTS}" value="${count}" aria-label="Attempts made"></meter> ${count} of
        ${ATTEMPTS}${delivery.cycle > 1 && html`, cycle ${delivery.cycle}`}`,
    ],
    ["Last answer", lastAnswer(delivery)],
    ...(isOpen(delivery) ? [["Next attempt", next === null ? "soon" : countdown(next)] as const] : []),
    ...(delivered === null ? [] : [["Delivered", moment(delivered)] as const]),
    ...(state === "DEAD_LETTERED"
      ? [["Can be replayed until", countdown(delivery.expires_at)] as const]
      : []),
    ["Accepted", moment(delivery.created_at)],
    ["Delivery", html`<code>${delivery.id}</code>`],
    [
      "Event",
      visit.can("events:read")
        ? html`<a href="${EVENTS}/${delivery.event_id}" id="event-of-delivery"
            ><code>${delivery.event_id}</code></a
          >`
        : html`<code>${delivery.event_id}</code>`,
    ],
  ];
}

function attemptsSection(shown: Shown): Html {
  const attempts = shown.attempts.slice(0, SHOWN_MAX);
  const answers = answersOf(attempts);
  const newest = answers.findIndex((answer) => answer !== "");
  return html`<section aria-labelledby="attempts">
    <h2 id="attempts">Attempts</h2>
    ${
      attempts.length === 0
        ? html`<p class="empty">No requests were made yet.</p>`
        : html`<ol class="timeline" reversed>
              ${attempts.map((attempt, index) => attemptItem(shown, attempt, { text: answers[index] ?? "", newest: index === newest }))}
            </ol>
            ${
              attempts.length < shown.attempts.length &&
              html`<p class="muted">
                Only the newest ${attempts.length} of ${shown.attempts.length} are shown; the API lists all.
              </p>`
            }`
    }
  </section>`;
}

function body(visit: Visit, shown: Shown): Part {
  const { delivery, data } = shown;
  const path = `${DELIVERIES}/${delivery.id}`;
  const polling =
    isOpen(delivery) &&
    html`hx-get="${path}" hx-select="#delivery" hx-trigger="every 3s" hx-swap="outerHTML"`;
  const workflow = delivery.workflow_id;
  return html`<div id="delivery" ${polling}>
      <section aria-labelledby="standing">
        <h2 id="standing">State ${stateBadge(delivery.state)}</h2>
        ${facts([
          ...standing(visit, shown),
          ...(workflow === null
            ? []
            : temporalFact("Workflow, for operators", workflowUrl(visit.temporal, workflow))),
        ])}
        ${buttons(visit, shown)}
      </section>
      ${attemptsSection(shown)}
    </div>
    ${dataBlock(data)}`;
}

/** Returns the answer, or undefined for NOT_FOUND. */
async function ifThere<Answer>(asking: Promise<Answer>): Promise<Answer | undefined> {
  const asked = await refused(asking);
  if ("answer" in asked) {
    return asked.answer;
  }
  if (asked.error.code === "NOT_FOUND") {
    return undefined;
  }
  throw asked.error;
}

async function deliveryPage(
  visit: Visit,
  { id, brand }: { readonly id: string; readonly brand: string },
  notice?: PageContent["notice"],
): Promise<PageContent> {
  const { api } = visit;
  const [delivery, attempts] = await Promise.all([api.deliveries.get(id), api.deliveries.attempts(id)]);
  const [endpoint, event] = await Promise.all([
    ifThere(api.endpoints.get(delivery.endpoint_id)),
    visit.can("events:read") ? ifThere(api.events.get(delivery.event_id)) : undefined,
  ]);
  return {
    title: delivery.event_type,
    place: DELIVERIES,
    notice,
    body: body(visit, {
      delivery,
      attempts: attempts.toReversed(),
      endpoint,
      data: event && rawMember(visit.textOf(event), "data"),
      brand,
    }),
  };
}

interface Change {
  readonly path: "retry" | "resend" | "cancel";
  readonly scope: "webhooks:replay" | "webhooks:write";
  readonly done: keyof typeof DONE;
}

function registerChange(
  scope: SignetServer,
  { send, headerBrand: brand }: PortalServices,
  { path, scope: needed, done }: Change,
): void {
  scope.post(
    `/deliveries/:id/${path}`,
    {
      config: { portal: ["webhooks:read", needed] },
      schema: { hide: true, params: IdParams("delivery"), body: Form({}) },
    },
    async ({ visit, params: { id } }, reply) => {
      const changed = await refused(visit.api.deliveries[path](id));
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

export function registerDeliveryPage(scope: SignetServer, parts: PortalServices): void {
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
  registerChange(scope, parts, { path: "retry", scope: "webhooks:write", done: "hastened" });
  registerChange(scope, parts, { path: "resend", scope: "webhooks:replay", done: "resent" });
  registerChange(scope, parts, { path: "cancel", scope: "webhooks:write", done: "cancelled" });
}
