/** The home page: what needs attention. */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import type { SignetServer } from "#http/types.ts";
import type { PortalServices } from "../page-parts.ts";
import { html, type Html } from "../html.ts";
import { hourCharts } from "./charts.ts";
import { healthText } from "./endpoint/endpoint-parts.ts";
import type { Visit } from "../visit.ts";

/** Texts for disabled endpoints; one that the tenant disabled needs no attention. */
const DISABLED = {
  tenant: undefined,
  failing: "was disabled because it failed for too long.",
  gone: "was disabled because it answered 410 Gone.",
} as const;

async function endpointItems({ api }: Visit): Promise<Html[]> {
  const { data } = await api.endpoints.list({ limit: 100 }).page();
  if (data.length === 0) {
    return [
      html`<strong>No endpoints yet.</strong> <a href="/portal/endpoints/new">Add an endpoint</a> to receive
        events.`,
    ];
  }
  const failing = await api.endpoints.list({ state: "ACTIVE", health: "failing", limit: 100 }).page();
  return [
    ...failing.data.map(
      (endpoint) =>
        html`<a href="/portal/endpoints/${endpoint.id}">${endpoint.url}</a> is failing.
          ${healthText(endpoint)}`,
    ),
    ...data.flatMap(({ id, url, state, disabled_reason: reason }) => {
      const attention =
        state === "PENDING" ? "is not verified, so it receives no events." : DISABLED[reason ?? "tenant"];
      return attention === undefined ? [] : [html`<a href="/portal/endpoints/${id}">${url}</a> ${attention}`];
    }),
  ];
}

/** Uses the stored counts, so that the cost does not depend on the queue's length. */
async function deadLetterItems({ api }: Visit): Promise<Html[]> {
  const groups = await api.deadLetters.groups({ limit: 100 }).page();
  const count = groups.data.reduce((sum, group) => sum + group.count, 0);
  if (count === 0) {
    return [];
  }
  const least = groups.next_cursor === null ? "" : "More than ";
  return [
    html`<a href="/portal/dead-letters"
        >${least}${count.toLocaleString("en")} ${count === 1 ? "dead letter" : "dead letters"}</a
      >
      can be replayed, for ${DEAD_LETTER_DAYS} days after the last attempt.`,
  ];
}

async function credentialItems({ api }: Visit): Promise<Html[]> {
  const { data } = await api.credentials.list({ limit: 100 }).page();
  return data
    .filter(({ overdue, state }) => overdue && state === "ACTIVE")
    .map(
      ({ id, client_id: client }) =>
        html`<a href="/portal/credentials/${id}">${client}</a>: rotation is overdue, and the new secret is not
          in use.`,
    );
}

export function registerHomePage(scope: SignetServer, { send }: PortalServices): void {
  scope.get("", { config: { portal: [] }, schema: { hide: true } }, async ({ visit }, reply) => {
    const [charts, ...asked] = await Promise.all([
      visit.can("webhooks:read") && hourCharts(visit),
      visit.can("webhooks:read") ? endpointItems(visit) : [],
      visit.can("webhooks:read") ? deadLetterItems(visit) : [],
      visit.can("credentials:read") ? credentialItems(visit) : [],
    ]);
    const items = asked.flat();
    return send(reply, visit, {
      title: "Home",
      place: "/portal",
      body: html`<section aria-labelledby="attention">
          <h2 id="attention">Needs attention</h2>
          ${
            items.length === 0
              ? html`<p class="empty">
                  Nothing. All endpoints are verified, none is failing, and there are no dead letters.
                </p>`
              : html`<ul class="cards">
                  ${items.map((item) => html`<li class="card">${item}</li>`)}
                </ul>`
          }
        </section>
        ${charts}`,
    });
  });
}
