/** Endpoints: the list, and the pages to add one. */
import { Type } from "typebox";
import { Closed, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { Endpoint, RegisteredEndpoint } from "#lib/client/api-types.ts";
import type { Page } from "#lib/client/paging.ts";
import type { PortalServices } from "../page-parts.ts";
import { Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import { nextPage } from "../parts.ts";
import type { Visit } from "../visit.ts";
import {
  endpointBadge,
  ENDPOINTS,
  eventsText,
  healthText,
  illness,
  lastHourText,
} from "./endpoint/endpoint-parts.ts";
import { registerEndpointChanges } from "./endpoint/endpoint-changes.ts";
import { EndpointForm, endpointFormPage, sendEndpoint } from "./endpoint/endpoint-form.ts";
import { receiverSection } from "./endpoint/receiver-code.ts";
import { registerEndpointPage, stateSection } from "./endpoint/endpoint.ts";
import { registerEndpointHours } from "./endpoint/endpoint-deliveries.ts";
import { registerGradePages } from "./grades.ts";
import { registerMissingPages } from "./missing.ts";
import { registerRecoverPages } from "./recover.ts";
import { registerTestEventPages } from "./test-event.ts";

function attemptsPart(endpoint: Endpoint): Part {
  const text = lastHourText(endpoint);
  return text !== undefined && html` · ${text}`;
}

function listPage(visit: Visit, { data, next_cursor: cursor }: Page<Endpoint>): PageContent {
  return {
    title: "Endpoints",
    place: ENDPOINTS,
    actions:
      visit.can("webhooks:write") && html`<a class="button primary" href="${ENDPOINTS}/new">Add endpoint</a>`,
    body:
      data.length === 0
        ? html`<p class="empty">No endpoints yet. An endpoint is a URL of yours that events are sent to.</p>`
        : html`<ul class="cards">
              ${data.map(
                (endpoint) =>
                  html`<li class="card row">
                    <div>
                      <a class="strong break" href="${ENDPOINTS}/${endpoint.id}">${endpoint.url}</a>
                      <p class="muted">
                        ${endpoint.description !== null && html`${endpoint.description} · `}${eventsText(endpoint)}
                        ${attemptsPart(endpoint)}
                      </p>
                      ${illness(endpoint) !== undefined && html`<p>${healthText(endpoint)}</p>`}
                    </div>
                    ${endpointBadge(endpoint)}
                  </li>`,
              )}
            </ul>
            ${nextPage(ENDPOINTS, cursor)}`,
  };
}

function createdPage(visit: Visit, endpoint: RegisteredEndpoint): PageContent {
  const { id, url, secret } = endpoint;
  return {
    title: "Endpoint added",
    place: ENDPOINTS,
    body: html`<p>
        This is its signing secret. It is shown only once: store it where your receiver can read it.
      </p>
      <p class="secret"><code data-copy="">${secret}</code></p>
      ${stateSection(visit, endpoint)} ${receiverSection({ secret, url })}
      <p><a class="button primary" href="${ENDPOINTS}/${id}">Go to the endpoint</a></p>`,
  };
}

export function registerEndpointPages(scope: SignetServer, parts: PortalServices): void {
  const { send, urlProblem } = parts;
  scope.get(
    "/endpoints",
    {
      config: { portal: ["webhooks:read"] },
      schema: {
        hide: true,
        querystring: Closed({ cursor: Type.Optional(Line(256)), done: Type.Optional(OneOf(["deleted"])) }),
      },
    },
    async ({ visit, query: { cursor, done } }, reply) => {
      const list = await visit.api.endpoints.list({ limit: 50, cursor }).page();
      const notice = done && ({ kind: "done", text: "The endpoint was deleted." } as const);
      return send(reply, visit, { ...listPage(visit, list), notice });
    },
  );
  scope.get(
    "/endpoints/new",
    { config: { portal: ["webhooks:read", "webhooks:write"] }, schema: { hide: true } },
    async ({ visit }, reply) => {
      const values = { url: "", events: "", description: "" };
      return send(reply, visit, await endpointFormPage(visit, { values }));
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
      const made = await sendEndpoint(
        values,
        { isNew: true, urlProblem },
        async (sent) => await visit.apiFor({ once }).endpoints.create(sent),
      );
      if ("error" in made) {
        const page = await endpointFormPage(visit, { values, error: made.error });
        return send(reply.code(made.error.status), visit, page);
      }
      return send(reply, visit, createdPage(visit, made.answer));
    },
  );
  registerEndpointPage(scope, parts);
  registerEndpointHours(scope, parts);
  registerEndpointChanges(scope, parts);
  registerTestEventPages(scope, parts);
  registerGradePages(scope, parts);
  registerMissingPages(scope, parts);
  registerRecoverPages(scope, parts);
}
