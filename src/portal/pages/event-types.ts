/** The tenant's event types: their meaning and their data. */
import { Type } from "typebox";
import { Closed } from "#http/common.ts";
import { EventTypeParams } from "#api/schemas/event-types.ts";
import type { SignetServer } from "#http/types.ts";
import type { EventType } from "#lib/client/api-types.ts";
import type { PortalServices } from "../page-parts.ts";
import { Line } from "../forms.ts";
import { html, type Part } from "../html.ts";
import { badge, facts, jsonBlock, moment, nextPage } from "../parts.ts";

const PLACE = "/portal/event-types";

function marks({ deprecated_at: deprecated, archived_at: archived }: EventType): Part {
  if (archived !== null) {
    return badge("idle", "archived");
  }
  return deprecated !== null && badge("wait", "deprecated");
}

function registerList(scope: SignetServer, { send }: PortalServices): void {
  scope.get(
    "/event-types",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      const { data, next_cursor: next } = await visit.api.eventTypes.list({ limit: 50, cursor }).page();
      return send(reply, visit, {
        title: "Event types",
        place: PLACE,
        body:
          data.length === 0
            ? html`<p class="empty">
                The catalogue has no event types. You can still publish events; the catalogue describes to
                receivers what events contain.
              </p>`
            : html`<ul class="cards">
                  ${data.map(
                    (type) =>
                      html`<li class="card row">
                        <div>
                          <a class="strong break" href="${PLACE}/${type.name}">${type.name}</a>
                          ${type.description !== null && html`<p class="muted">${type.description}</p>`}
                        </div>
                        ${marks(type)}
                      </li>`,
                  )}
                </ul>
                ${nextPage(PLACE, next)}`,
      });
    },
  );
}

export function registerEventTypePages(scope: SignetServer, parts: PortalServices): void {
  registerList(scope, parts);
  scope.get(
    "/event-types/:name",
    { config: { portal: ["webhooks:read"] }, schema: { hide: true, params: EventTypeParams } },
    async ({ visit, params: { name } }, reply) => {
      const type = await visit.api.eventTypes.get(name);
      return parts.send(reply, visit, {
        title: type.name,
        place: PLACE,
        body: html`<section aria-labelledby="about">
            <h2 id="about">About ${marks(type)}</h2>
            ${type.description !== null && html`<p>${type.description}</p>`}
            ${facts([
              ["Schema", type.schema_version === null ? "not checked" : `version ${type.schema_version}`],
              ["Replaced by", type.replaced_by ?? "–"],
              ["Added", moment(type.created_at)],
              ["Changed", moment(type.updated_at)],
            ])}
          </section>
          ${
            type.schema !== null &&
            html`<section aria-labelledby="schema">
              <h2 id="schema">Schema of the data</h2>
              ${jsonBlock("Schema", type.schema)}
            </section>`
          }
          ${
            type.examples.length > 0 &&
            html`<section aria-labelledby="examples">
              <h2 id="examples">${type.examples.length === 1 ? "Example" : "Examples"}</h2>
              ${type.examples.map((example, index) => jsonBlock(`Example ${index + 1}`, example))}
            </section>`
          }`,
      });
    },
  );
}
