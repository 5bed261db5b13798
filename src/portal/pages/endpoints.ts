/** Endpoints: the list, and a new one. */
import { Type } from "typebox";
import { Closed } from "../../api/schemas/common.ts";
import type { SignetServer } from "../../api/types.ts";
import type { Endpoint, RegisteredEndpoint } from "../../client/endpoints.ts";
import type { EventType } from "../../client/event-types.ts";
import type { ListAnswer, PortalParts } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import { formFields, nextPage } from "../parts.ts";
import { fieldErrors, type FieldErrors, refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { ENDPOINTS, eventsText, stateBadge } from "./endpoint-parts.ts";
import { registerEndpointPage } from "./endpoint.ts";

function listPage(visit: Visit, { data, next_cursor: cursor }: ListAnswer<Endpoint>): PageContent {
  return {
    title: "Endpoints",
    place: ENDPOINTS,
    actions:
      visit.can("webhooks:write") && html`<a class="button primary" href="${ENDPOINTS}/new">Add endpoint</a>`,
    body:
      data.length === 0
        ? html`<p class="empty">
            No endpoint yet. An endpoint is an address of yours that events are sent to.
          </p>`
        : html`<ul class="cards">
              ${data.map(
                (endpoint) =>
                  html`<li class="card row">
                    <div>
                      <a class="strong break" href="${ENDPOINTS}/${endpoint.id}">${endpoint.url}</a>
                      <p class="muted">
                        ${endpoint.description !== null && html`${endpoint.description} · `}${eventsText(endpoint)}
                      </p>
                    </div>
                    ${stateBadge(endpoint)}
                  </li>`,
              )}
            </ul>
            ${nextPage(ENDPOINTS, cursor)}`,
  };
}

/** Field values as they were typed. */
export interface EndpointFields {
  readonly url: string;
  readonly events: string;
  readonly description: string;
}

export const EndpointForm = Form({ url: Line(2_048), events: Line(8_192), description: Line(1_024) });

/** What the API takes, out of a form. Event types stand on lines or between commas. */
export function endpointBody({ url, events, description }: EndpointFields) {
  const types = events.split(/[\s,]+/).filter((type) => type !== "");
  return {
    url: url.trim(),
    events: types.length === 0 ? ["*"] : types,
    description: description.trim() === "" ? null : description.trim(),
  };
}

/** The fields of an endpoint, with what is wrong with them. */
export function endpointFields(values: EndpointFields, errors: FieldErrors, types: readonly string[]): Part {
  return html`<div class="field">
      <label for="url">Target URL</label>
      <input
        id="url"
        name="url"
        type="url"
        inputmode="url"
        required
        maxlength="2048"
        value="${values.url}"
        autocomplete="off"
        placeholder="https://example.com/hooks"
        ${errors.attributes("url")}
      />
      ${errors.text("url")}
    </div>
    <div class="field">
      <label for="events">Event types</label>
      <textarea
        id="events"
        name="events"
        rows="3"
        maxlength="8192"
        spellcheck="false"
        ${errors.attributes("events", "events-help")}
      >
${values.events}</textarea>
      <p class="muted" id="events-help">
        One on each line; leave it empty for all.
        ${types.length > 0 && html`Known: ${types.map((type, index) => html`${index > 0 && ", "}<code>${type}</code>`)}.`}
      </p>
      ${errors.text("events")}
    </div>
    <div class="field">
      <label for="description">Description <span class="muted">(optional)</span></label>
      <input
        id="description"
        name="description"
        maxlength="1024"
        value="${values.description}"
        ${errors.attributes("description")}
      />
      ${errors.text("description")}
    </div>`;
}

/** Names of the tenant's event types, to choose from. */
export async function knownTypes({ api }: Visit): Promise<string[]> {
  const { data } = await api.get<ListAnswer<EventType>>("/v1/webhooks/event-types?limit=20");
  return data.map(({ name }) => name);
}

function newPage(
  visit: Visit,
  form: { values: EndpointFields; errors: FieldErrors; types: string[] },
): PageContent {
  return {
    title: "Add endpoint",
    place: ENDPOINTS,
    notice: form.errors.notice,
    body: html`<form method="post" action="${ENDPOINTS}/new" class="stack">
      ${formFields(visit)} ${endpointFields(form.values, form.errors, form.types)}
      <p class="muted">
        A signed ping is sent at once. Answer it with 200 within 5 seconds and the endpoint is active.
      </p>
      <div class="buttons">
        <button class="primary">Add endpoint</button>
        <a class="button" href="${ENDPOINTS}">Cancel</a>
      </div>
    </form>`,
  };
}

function createdPage({ id, secret }: RegisteredEndpoint): PageContent {
  return {
    title: "Endpoint added",
    place: ENDPOINTS,
    body: html`<p>
        This is its signing secret. It is shown here and never again: keep it where your receiver finds it.
      </p>
      <p class="secret"><code data-copy="">${secret}</code></p>
      <p>A signed ping is on its way to the endpoint.</p>
      <p><a class="button primary" href="${ENDPOINTS}/${id}">Go to the endpoint</a></p>`,
  };
}

export function registerEndpointPages(scope: SignetServer, parts: PortalParts): void {
  const { send } = parts;
  scope.get(
    "/endpoints",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      const after = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const list = await visit.api.get<ListAnswer<Endpoint>>(`/v1/webhooks/endpoints?limit=50${after}`);
      return send(reply, visit, listPage(visit, list));
    },
  );
  scope.get(
    "/endpoints/new",
    { config: { portal: ["webhooks:read", "webhooks:write"] }, schema: { hide: true } },
    async ({ visit }, reply) => {
      const values = { url: "", events: "", description: "" };
      return send(
        reply,
        visit,
        newPage(visit, { values, errors: fieldErrors(), types: await knownTypes(visit) }),
      );
    },
  );
  scope.post(
    "/endpoints/new",
    {
      config: { portal: ["webhooks:read", "webhooks:write"] },
      schema: { hide: true, body: EndpointForm },
    },
    async ({ visit, body }, reply) => {
      const { once, ...values } = body;
      const made = await refused(
        visit.api.send<RegisteredEndpoint>("POST", "/v1/webhooks/endpoints", endpointBody(values), once),
      );
      if ("error" in made) {
        const form = { values, errors: fieldErrors(made.error), types: await knownTypes(visit) };
        return send(reply.code(made.error.status), visit, newPage(visit, form));
      }
      return send(reply, visit, createdPage(made.answer));
    },
  );
  registerEndpointPage(scope, parts);
}
