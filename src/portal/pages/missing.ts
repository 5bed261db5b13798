/** Events that an endpoint never received: counts them, then sends them as a job. */
import { Type } from "typebox";
import { IdParams } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Endpoint, MissedEvents } from "#lib/client/api-types.ts";
import { type SignetError, validationFailed } from "#domain/errors.ts";
import { SEE_OTHER } from "../context.ts";
import { lineField } from "../fields.ts";
import { instantOf, zoned } from "../filters.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, formFields, moment } from "../parts.ts";
import { FieldErrors, refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { endpointFact, ENDPOINTS, missingPath } from "./endpoint/endpoint-parts.ts";
import { NUMBER_ATTRIBUTES, numberMember } from "./endpoint/endpoint-settings.ts";
import { REPLAYS } from "./replays.ts";

const REPLAYING = { portal: ["webhooks:read", "webhooks:replay"] };
const DAY_MS = 86_400_000;
const MINUTES = 16;

const MissingForm = Form({
  since: Line(40),
  until: Line(40),
  rate_per_second: Type.Optional(Line(16)),
});

/** Field values as typed. */
interface MissingFields {
  readonly since: string;
  /** Empty for now. */
  readonly until: string;
  readonly rate_per_second?: string;
}

/**
 * Converts the form to the API's body.
 *
 * @throws SignetError VALIDATION_FAILED if the start is after the end
 */
function bodyOf({ since, until, rate_per_second: rate = "" }: MissingFields) {
  if (until !== "" && Date.parse(instantOf(since)) > Date.parse(instantOf(until))) {
    throw validationFailed([{ pointer: "/since", code: "order", detail: "must be before the end" }]);
  }
  const pace = numberMember(rate);
  return {
    since: instantOf(since),
    ...(until === "" ? {} : { until: instantOf(until) }),
    ...(pace === null ? {} : { rate_per_second: pace }),
  } satisfies MissedEvents;
}

function timeField(name: "since" | "until", values: MissingFields, errors: FieldErrors): Html {
  const since = name === "since";
  return lineField(
    {
      name,
      label: zoned(since ? "Since" : "Until"),
      optional: !since,
      value: values[name],
      attributes: html`type="datetime-local" ${since && html`required`}`,
      ...(since ? {} : { help: "Leave empty for now." }),
    },
    errors,
  );
}

function searchForm(visit: Visit, endpoint: Endpoint, values: MissingFields, errors: FieldErrors): Html {
  return html`<section aria-labelledby="which">
    <h2 id="which">Select events</h2>
    ${facts([endpointFact(endpoint)])}
    <p>
      These events were published before the endpoint was added or verified, so it has no delivery of them.
      Its current event types and filter apply. Failed deliveries are among its dead letters.
    </p>
    <form method="post" action="${missingPath(endpoint.id)}">
      ${formFields(visit)}
      <div class="between">${timeField("since", values, errors)} ${timeField("until", values, errors)}</div>
      ${lineField(
        {
          name: "rate_per_second",
          label: "Events per second",
          optional: true,
          value: values.rate_per_second ?? "",
          attributes: NUMBER_ATTRIBUTES,
          help: "Maximum, 1 to 5000. Default: 500.",
        },
        errors,
      )}
      <div class="buttons">
        <button class="primary">Count events</button>
        <a class="button" href="${ENDPOINTS}/${endpoint.id}">Cancel</a>
      </div>
    </form>
  </section>`;
}

async function searchPage(
  visit: Visit,
  id: string,
  values: MissingFields,
  error?: SignetError,
): Promise<PageContent> {
  const endpoint = await visit.api.endpoints.get(id);
  const errors = new FieldErrors(error);
  return {
    title: "Replay missing events",
    place: ENDPOINTS,
    notice: errors.notice,
    body: searchForm(visit, endpoint, values, errors),
  };
}

function countText(total: number): string {
  return `${total.toLocaleString("en")} ${total === 1 ? "event" : "events"}`;
}

/**
 * Renders the count, and the button that sends the counted events. The fixed end of the time range keeps both equal.
 *
 * @param counted.values values with instants, including the end
 * @param counted.typed form as it was sent, for another search
 */
async function countPage(
  visit: Visit,
  id: string,
  {
    values,
    typed,
    total,
  }: { readonly values: MissingFields; readonly typed: MissingFields; readonly total: number },
): Promise<PageContent> {
  const endpoint = await visit.api.endpoints.get(id);
  const errors = new FieldErrors();
  const { since, until, rate_per_second: rate = "" } = values;
  const hidden = Object.entries({ since, until, rate_per_second: rate });
  return {
    title: "Replay missing events",
    place: ENDPOINTS,
    body: html`<section aria-labelledby="count">
        <h2 id="count">${total === 0 ? "No missing events" : `Missing: ${countText(total)}`}</h2>
        ${facts([
          ["From", moment(since)],
          ["Until", moment(until)],
          ["Pace", rate === "" ? "at most 500 per second" : `at most ${rate} per second`],
        ])}
        ${
          total === 0
            ? html`<p class="empty">
                The endpoint has a delivery for every matching event in this time range.
              </p>`
            : html`<form method="post" action="${missingPath(id)}/send">
                ${formFields(visit)}
                ${hidden.map(
                  ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
                )}
                <div class="buttons"><button class="primary">Replay ${countText(total)}</button></div>
              </form>`
        }
      </section>
      ${searchForm(visit, endpoint, typed, errors)}`,
  };
}

/** Formats an instant for a datetime-local field. */
function localOf(iso: string): string {
  return iso.slice(0, MINUTES);
}

function registerCount(scope: SignetServer, { send, streaming }: PortalServices): void {
  scope.post(
    "/endpoints/:id/missing",
    { config: REPLAYING, schema: { hide: true, params: IdParams("endpoint"), body: MissingForm } },
    async ({ visit, params: { id }, body }, reply) => {
      // Use now as the end, so that the count does not change; later events are delivered normally.
      const until = body.until === "" ? new Date(streaming.clock.now()).toISOString() : body.until;
      const counted = await refused(
        (async () => {
          const asked = bodyOf({ ...body, until });
          const { total } = await visit.api.endpoints.countMissing(id, asked);
          return { values: { ...body, since: asked.since, until: asked.until ?? until }, total };
        })(),
      );
      if ("error" in counted) {
        return send(
          reply.code(counted.error.status),
          visit,
          await searchPage(visit, id, body, counted.error),
        );
      }
      return send(reply, visit, await countPage(visit, id, { ...counted.answer, typed: body }));
    },
  );
}

export function registerMissingPages(scope: SignetServer, parts: PortalServices): void {
  const params = IdParams("endpoint");
  scope.get(
    "/endpoints/:id/missing",
    { config: REPLAYING, schema: { hide: true, params } },
    async ({ visit, params: { id } }, reply) => {
      const since = localOf(new Date(parts.streaming.clock.now() - DAY_MS).toISOString());
      return parts.send(reply, visit, await searchPage(visit, id, { since, until: "" }));
    },
  );
  registerCount(scope, parts);
  scope.post(
    "/endpoints/:id/missing/send",
    { config: REPLAYING, schema: { hide: true, params, body: MissingForm } },
    async ({ visit, params: { id }, body }, reply) => {
      const made = await refused(
        (async () => await visit.apiFor(body).endpoints.replayMissing(id, bodyOf(body)))(),
      );
      if ("error" in made) {
        const values = { ...body, since: localOf(body.since), until: localOf(body.until) };
        return parts.send(
          reply.code(made.error.status),
          visit,
          await searchPage(visit, id, values, made.error),
        );
      }
      return await reply.redirect(`${REPLAYS}/${made.answer.id}`, SEE_OTHER);
    },
  );
}
