/** "My receiver is fixed": counts an endpoint's failed deliveries, then sends them again as a job. */
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import { type Static, Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { NewReplay, ReplayCount } from "#lib/client/api-types.ts";
import type { SignetError } from "#domain/errors.ts";
import { SEE_OTHER } from "../context.ts";
import { lineField } from "../fields.ts";
import { instantOf, option, zoned } from "../filters.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, formFields } from "../parts.ts";
import { FieldErrors, refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { endpointFact, ENDPOINTS, recoverPath } from "./endpoint/endpoint-parts.ts";
import { allWouldFail, REPLAYS, wouldFailText } from "./replays.ts";

const REPLAYING = { portal: ["webhooks:read", "webhooks:replay"] };

/** What can be sent again, by the value of the form's choice. */
const CHOICES = {
  failed: { text: "retrying deliveries and dead letters", states: ["RETRYING", "DEAD_LETTERED"] },
  retrying: { text: "retrying deliveries only", states: ["RETRYING"] },
  dead: { text: "dead letters only", states: ["DEAD_LETTERED"] },
  all: {
    text: "also what was delivered",
    states: ["RETRYING", "DEAD_LETTERED", "DELIVERED"],
  },
} as const satisfies Record<string, { text: string; states: NewReplay["states"] }>;

const Chosen = {
  what: Type.Optional(OneOf(Object.keys(CHOICES) as (keyof typeof CHOICES)[])),
  since: Type.Optional(Line(40)),
};
const ChosenQuery = Closed(Chosen);
type Chosen = Static<typeof ChosenQuery>;

function bodyOf(endpointId: string, { what = "failed", since = "" }: Chosen): NewReplay {
  return {
    states: [...CHOICES[what].states],
    filter: { endpoint_id: endpointId, ...(since === "" ? {} : { from: instantOf(since) }) },
  };
}

function choiceForm(id: string, { what, since = "" }: Chosen, error: SignetError | undefined): Html {
  // The API names the field by its place in the filter.
  const invalid = error !== undefined && JSON.stringify(error.extensions).includes("/filter/from");
  return html`<section aria-labelledby="which">
    <h2 id="which">Select deliveries</h2>
    <form method="get" action="${recoverPath(id)}">
      <div class="field">
        <label for="what">Deliveries</label>
        <select id="what" name="what">
          ${Object.entries(CHOICES).map(([name, { text }]) => option(name, text, what))}
        </select>
      </div>
      ${lineField(
        {
          name: "since",
          label: zoned("Accepted since"),
          optional: true,
          value: since,
          attributes: html`type="datetime-local" ${invalid && html`aria-invalid="true"`}`,
        },
        new FieldErrors(),
      )}
      <div class="buttons">
        <button>Count deliveries</button>
        <a class="button" href="${ENDPOINTS}/${id}">Cancel</a>
      </div>
    </form>
  </section>`;
}

function countText({ total, at_least: atLeast }: ReplayCount): string {
  return `${atLeast === true ? "at least " : ""}${total.toLocaleString("en")} ${total === 1 ? "delivery" : "deliveries"}`;
}

function hasNone({ total, at_least: atLeast }: ReplayCount): boolean {
  return total === 0 && atLeast !== true;
}

function confirmation(visit: Visit, id: string, chosen: Chosen, count: ReplayCount): Part {
  const { what = "failed", since = "" } = chosen;
  return hasNone(count)
    ? html`<p class="empty">Nothing waits for a retry, and there are no matching dead letters.</p>`
    : html`${wouldFailText(count, id)}
        <p>
          Retries are attempted now. Other deliveries get a new cycle of ${ATTEMPT_MAX} attempts, with the
          same
          <code>webhook-id</code>.
        </p>
        <form method="post" action="${recoverPath(id)}">
          ${formFields(visit)}
          <input type="hidden" name="what" value="${what}" />
          <input type="hidden" name="since" value="${since}" />
          ${
            !allWouldFail(count) &&
            html`<div class="buttons"><button class="primary">Send ${countText(count)} now</button></div>`
          }
        </form>`;
}

async function recoverPage(
  visit: Visit,
  id: string,
  chosen: Chosen,
  failed?: SignetError,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const body = bodyOf(id, chosen);
  const [endpoint, counted] = await Promise.all([
    visit.api.endpoints.get(id),
    refused(visit.api.replays.count(body)),
  ]);
  const error = failed ?? ("error" in counted ? counted.error : undefined);
  return {
    status: error?.status ?? 200,
    content: {
      title: "Send again",
      place: ENDPOINTS,
      notice: error && { kind: "problem", text: error.message },
      body: html`${
        "answer" in counted &&
        html`<section aria-labelledby="count">
          <h2 id="count">
            ${hasNone(counted.answer) ? "Nothing to send" : `To send: ${countText(counted.answer)}`}
          </h2>
          ${facts([endpointFact(endpoint), ["Selected", CHOICES[chosen.what ?? "failed"].text]])}
          ${confirmation(visit, id, chosen, counted.answer)}
        </section>`
      }
      ${choiceForm(id, chosen, error)}`,
    },
  };
}

export function registerRecoverPages(scope: SignetServer, { send }: PortalServices): void {
  const params = IdParams("endpoint");
  scope.get(
    "/endpoints/:id/recover",
    { config: REPLAYING, schema: { hide: true, params, querystring: ChosenQuery } },
    async ({ visit, params: { id }, query }, reply) => {
      const { status, content } = await recoverPage(visit, id, query);
      return send(reply.code(status), visit, content);
    },
  );
  scope.post(
    "/endpoints/:id/recover",
    { config: REPLAYING, schema: { hide: true, params, body: Form(Chosen) } },
    async ({ visit, params: { id }, body: { once, csrf: _csrf, ...chosen } }, reply) => {
      await visit.api.endpoints.get(id);
      const made = await refused(visit.apiFor({ once }).replays.create(bodyOf(id, chosen)));
      if ("error" in made) {
        const { content } = await recoverPage(visit, id, chosen, made.error);
        return send(reply.code(made.error.status), visit, content);
      }
      return await reply.redirect(`${REPLAYS}/${made.answer.id}`, SEE_OTHER);
    },
  );
}
