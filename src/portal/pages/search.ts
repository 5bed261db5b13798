/** Finds the page of any id: of the service, of a credential's client, or the publisher's own id of an event. */
import { Type } from "typebox";
import { Closed } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { EVENT_TYPE } from "#api/schemas/endpoints.ts";
import { ID_PATTERN } from "#domain/ids.ts";
import { SEE_OTHER } from "../context.ts";
import { Line } from "../forms.ts";
import { html } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { refused } from "../problems.ts";
import { textAgain } from "../typed-again.ts";
import type { Visit } from "../visit.ts";

/** The API's resources, whose pages have the same names, and their scopes, by the prefix of their ids. */
const PLACES: Readonly<
  Record<
    string,
    {
      readonly name: "credentials" | "deliveries" | "endpoints" | "events" | "replays";
      readonly scope: string;
    }
  >
> = {
  ep: { name: "endpoints", scope: "webhooks:read" },
  dlv: { name: "deliveries", scope: "webhooks:read" },
  rpl: { name: "replays", scope: "webhooks:read" },
  evt: { name: "events", scope: "events:read" },
  crd: { name: "credentials", scope: "credentials:read" },
};

/** Searches for text of one form. Returns the path of the page; undefined if there is none. */
type Search = (visit: Visit, text: string) => Promise<string | undefined>;

async function exists(reading: Promise<unknown>): Promise<boolean> {
  return "answer" in (await refused(reading));
}

const byId: Search = async (visit, text) => {
  const place = new RegExp(ID_PATTERN).test(text) ? PLACES[text.slice(0, text.indexOf("_"))] : undefined;
  return place !== undefined && visit.can(place.scope) && (await exists(visit.api[place.name].get(text)))
    ? `/portal/${place.name}/${text}`
    : undefined;
};

const byClientId: Search = async (visit, text) => {
  if (!text.startsWith("cl_") || !visit.can("credentials:read")) {
    return undefined;
  }
  const { data } = await visit.api.credentials.list({ limit: 100 }).page();
  const found = data.find(({ client_id: client }) => client === text);
  return found && `/portal/credentials/${found.id}`;
};

const byType: Search = async (visit, text) =>
  visit.can("webhooks:read") &&
  new RegExp(EVENT_TYPE).test(text) &&
  (await exists(visit.api.eventTypes.get(text)))
    ? `/portal/event-types/${text}`
    : undefined;

const byOwnId: Search = async (visit, text) => {
  if (!visit.can("events:read")) {
    return undefined;
  }
  const asked = await refused(visit.api.events.list({ limit: 1, id: text }).page());
  const [event] = "answer" in asked ? asked.answer.data : [];
  return event && `/portal/events?id=${encodeURIComponent(text)}`;
};

const SEARCHES: readonly Search[] = [byId, byClientId, byType, byOwnId];

function nothingFound(text: string): PageContent {
  const shown = textAgain(text);
  return {
    title: text === "" ? "Find by id" : "Nothing found",
    body: html`${
        shown !== "" &&
        html`<p>There is nothing with the id <code>${shown}</code> that this session may read.</p>`
      }
      <p class="muted">
        You can search for the id of an endpoint (<code>ep_…</code>), a delivery (<code>dlv_…</code>), an
        event (<code>evt_…</code>), a replay (<code>rpl_…</code>), a credential (<code>crd_…</code> or
        <code>cl_…</code>), for your own id of an event, and for the name of an event type.
      </p>`,
  };
}

export function registerSearch(scope: SignetServer, { send }: PortalServices): void {
  scope.get(
    "/search",
    { config: { portal: [] }, schema: { hide: true, querystring: Closed({ q: Type.Optional(Line(256)) }) } },
    async ({ visit, query: { q = "" } }, reply) => {
      const text = q.trim();
      for (const search of text === "" ? [] : SEARCHES) {
        // The next search is needed only if this one finds nothing.
        // oxlint-disable-next-line no-await-in-loop
        const path = await search(visit, text);
        if (path !== undefined) {
          return await reply.redirect(path, SEE_OTHER);
        }
      }
      return send(reply.code(text === "" ? 200 : 404), visit, nothingFound(text));
    },
  );
}
