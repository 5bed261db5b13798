/** Dead letters: deliveries that failed permanently, by endpoint and class of failure, and their replay. */
import { ATTEMPT_MAX, DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { Type } from "typebox";
import { Closed, Id, IdParams, OneOf } from "#http/common.ts";
import { deliveryFilter } from "#api/routes/deliveries.ts";
import { DeliveryFilters } from "#api/schemas/deliveries.ts";
import type { SignetServer } from "#http/types.ts";
import type { DeadLetter, DeadLetterGroup, DeadLetterSummary } from "#lib/client/api-types.ts";
import type { Page } from "#lib/client/paging.ts";
import { SEE_OTHER } from "../context.ts";
import { Form } from "../forms.ts";
import { apiQuery, filterNotice, filteredPath, isFiltered } from "../filters.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { facts, formFields, nextPage, table, timeAgo } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import {
  countdown,
  DEAD_LETTERS,
  DELIVERIES,
  endpointText,
  endpointUrls,
  failureText,
  filterForm,
  FilterQuery,
  lastAnswer,
} from "./delivery-parts.ts";
import { allWouldFail, registerReplayPages, REPLAYS, wouldFailText } from "./replays.ts";

/** Rows per page, so that a page with all its files stays below 100 KB. */
const PAGE = 25;
const REASONS = {
  attempts_exhausted: `${ATTEMPT_MAX} attempts failed`,
  endpoint_disabled: "endpoint disabled",
} as const;

function groupsSection(groups: Page<DeadLetterGroup>, endpoints: ReadonlyMap<string, string>): Part {
  return (
    groups.data.length > 0 &&
    html`<section aria-labelledby="groups">
      <h2 id="groups">By endpoint and failure</h2>
      ${table(
        "Dead letters by endpoint and failure",
        ["Endpoint", "Reason", "Last failure", "Dead letters"],
        groups.data.map(({ endpoint_id: id, reason, last_error: error, count }) => [
          html`<a
            class="break"
            href="${filteredPath(DEAD_LETTERS, { endpoint_id: id, reason, last_error: error ?? "" })}"
            >${endpointText(endpoints, id)}</a
          >`,
          REASONS[reason],
          error === null ? "no attempt" : failureText(error),
          count.toLocaleString("en"),
        ]),
      )}
      ${groups.next_cursor !== null && html`<p class="muted">Only the first 100 are shown.</p>`}
    </section>`
  );
}

/** Renders the length and the age of the queue. */
function queueFacts({ total, oldest_at: oldest, first_expires_at: expires }: DeadLetterSummary): Part {
  return (
    total > 0 &&
    html`<section aria-label="Queue">
      ${facts([
        ["Dead letters", total.toLocaleString("en")],
        ["Oldest failed", timeAgo(oldest)],
        ["First can be replayed until", countdown(expires)],
      ])}
    </section>`
  );
}

function lettersTable(
  visit: Visit,
  letters: readonly DeadLetter[],
  endpoints: ReadonlyMap<string, string>,
): Html {
  const may = visit.can("webhooks:replay");
  const rows = letters.map((letter) => [
    ...(may
      ? [
          html`<input
            type="checkbox"
            class="choose"
            name="ids[]"
            value="${letter.id}"
            aria-label="Select ${letter.event_type} of ${letter.created_at}"
          />`,
        ]
      : []),
    html`<a class="name" href="${DELIVERIES}/${letter.id}">${letter.event_type}</a>`,
    html`<span class="break">${endpointText(endpoints, letter.endpoint_id)}</span>`,
    lastAnswer(letter),
    timeAgo(letter.dead_lettered_at),
    countdown(letter.expires_at),
  ]);
  const headings = ["Event type", "Endpoint", "Last answer", "Failed", "Can be replayed until"];
  return table("Dead letters", may ? ["Select", ...headings] : headings, rows, "compact");
}

/** Renders the replay form. It contains the filters, so that "Replay all" replays what the list shows. */
function replayForm(visit: Visit, query: FilterQuery, list: Html): Html {
  if (!visit.can("webhooks:replay")) {
    return list;
  }
  const { cursor: _cursor, ...filter } = query;
  return html`<form method="post" action="${DEAD_LETTERS}/replay">
    ${formFields(visit)} ${filterFields(filter)} ${list}
    <div class="buttons">
      <button class="primary" name="which" value="chosen">Replay selected</button>
      <button name="which" value="all">
        ${isFiltered(query) ? "Replay all that match the filters" : "Replay all"}
      </button>
    </div>
  </form>`;
}

const replaysLink = html`<a class="button" href="${REPLAYS}">Replays</a>`;

const NONE_AT_ALL = html`<section aria-labelledby="none">
  <h2 id="none">No dead letters</h2>
  <p class="empty">
    A delivery becomes a dead letter after 17 failed attempts over three days. The same happens if its
    endpoint is disabled. You can replay it for ${DEAD_LETTER_DAYS} days.
  </p>
</section>`;

async function listPage(
  visit: Visit,
  query: FilterQuery,
  problem?: string,
): Promise<{ readonly status: number; readonly content: PageContent }> {
  const [asked, groups, endpoints, queue] = await Promise.all([
    refused(visit.api.deadLetters.list({ limit: PAGE, ...apiQuery(query) }).page()),
    visit.api.deadLetters.groups({ limit: 100 }).page(),
    endpointUrls(visit),
    visit.api.deadLetters.summary(),
  ]);
  const form = filterForm(DEAD_LETTERS, query, { endpoints, states: false });
  const exportPath = filteredPath(`${DEAD_LETTERS}/export`, apiQuery(query));
  const actions = html`<a class="button" href="${exportPath}" download="dead-letters.ndjson">Export</a>
    ${replaysLink}`;
  const common = { title: "Dead letters", place: DEAD_LETTERS, actions };
  if ("error" in asked) {
    const notice = filterNotice(asked.error);
    return { status: asked.error.status, content: { ...common, notice, body: form } };
  }
  const { data, next_cursor: next } = asked.answer;
  if (data.length === 0 && groups.data.length === 0 && !isFiltered(query)) {
    return { status: 200, content: { ...common, actions: replaysLink, body: NONE_AT_ALL } };
  }
  const body = html`${queueFacts(queue)} ${groupsSection(groups, endpoints)} ${form}
    <section aria-labelledby="letters">
      <h2 id="letters">${isFiltered(query) ? "Matching dead letters" : "All dead letters"}</h2>
      ${
        data.length === 0
          ? html`<p class="empty">No dead letters match these filters.</p>`
          : replayForm(visit, query, lettersTable(visit, data, endpoints))
      }
    </section>
    ${nextPage(filteredPath(DEAD_LETTERS, query), next, query.cursor === undefined)}`;
  const notice = problem === undefined ? undefined : ({ kind: "problem", text: problem } as const);
  return { status: problem === undefined ? 200 : 422, content: { ...common, notice, body } };
}

/** Renders the count of a replay by filter, and the button that starts it. */
async function confirmPage(visit: Visit, filter: FilterQuery): Promise<PageContent> {
  const counted = await visit.api.deadLetters.countReplay({ filter: filterOf(filter) });
  const { total, at_least: atLeast } = counted;
  const count = `${atLeast === true ? "at least " : ""}${total.toLocaleString("en")} ${total === 1 ? "dead letter" : "dead letters"}`;
  const isNone = total === 0 && atLeast !== true;
  return {
    title: "Replay dead letters",
    place: DEAD_LETTERS,
    body: html`<section aria-labelledby="count">
      <h2 id="count">${isNone ? "No dead letters match" : `To replay: ${count}`}</h2>
      ${wouldFailText(counted, filter.endpoint_id)}
      ${
        !allWouldFail(counted) &&
        html`<p>
          Each one gets a new cycle of ${ATTEMPT_MAX} attempts, with the same <code>webhook-id</code>.
        </p>`
      }
      <form method="post" action="${DEAD_LETTERS}/replay">
        ${formFields(visit)} ${filterFields(filter)}
        <div class="buttons">
          ${
            !isNone &&
            !allWouldFail(counted) &&
            html`<button class="primary" name="which" value="confirmed">Replay ${count}</button>`
          }
          <a class="button" href="${filteredPath(DEAD_LETTERS, filter)}">Back</a>
        </div>
      </form>
    </section>`,
  };
}

/** Returns why the selected dead letters cannot be replayed; undefined if nothing stands against them. */
async function chosenProblem({ api }: Visit, ids: readonly string[]): Promise<string | undefined> {
  const counted = await refused(api.deadLetters.countReplay({ ids }));
  // The replay itself reports what is wrong with the request.
  const wouldFail = "answer" in counted ? (counted.answer.would_fail ?? 0) : 0;
  return wouldFail === 0
    ? undefined
    : `${wouldFail} of the selected dead letters would fail: their endpoint is disabled, unverified or deleted. Enable the endpoint first.`;
}

function filterOf({ cursor: _cursor, ...filter }: FilterQuery) {
  return apiQuery(filter);
}

function filterFields(filter: FilterQuery): readonly Part[] {
  return Object.entries(filter).map(
    ([name, value]) => value !== "" && html`<input type="hidden" name="${name}" value="${value}" />`,
  );
}

const ReplayForm = Form({
  which: OneOf(["chosen", "all", "confirmed"]),
  "ids[]": Type.Optional(Type.Array(Id("delivery"), { maxItems: PAGE })),
  ...FilterQuery.properties,
});

function registerReplay(scope: SignetServer, { send }: PortalServices): void {
  scope.post(
    "/dead-letters/replay",
    {
      config: { portal: ["webhooks:read", "webhooks:replay"] },
      schema: { hide: true, body: ReplayForm },
    },
    async ({ visit, body }, reply) => {
      const { which, "ids[]": ids = [], once, csrf: _csrf, ...filter } = body;
      if (which === "chosen" && ids.length === 0) {
        const { status, content } = await listPage(visit, filter, "Select at least one dead letter.");
        return send(reply.code(status), visit, content);
      }
      if (which === "all") {
        const counted = await refused(confirmPage(visit, filter));
        if ("answer" in counted) {
          return send(reply, visit, counted.answer);
        }
        const { content } = await listPage(visit, filter, counted.error.message);
        return send(reply.code(counted.error.status), visit, content);
      }
      const problem = which === "chosen" ? await chosenProblem(visit, ids) : undefined;
      if (problem !== undefined) {
        const { status, content } = await listPage(visit, filter, problem);
        return send(reply.code(status), visit, content);
      }
      const selection = which === "chosen" ? { ids } : { filter: filterOf(filter) };
      const made = await refused(visit.apiFor({ once }).deadLetters.replayAll(selection));
      if ("error" in made) {
        const { content } = await listPage(visit, filter, made.error.message);
        return send(reply.code(made.error.status), visit, content);
      }
      return await reply.redirect(`${REPLAYS}/${made.answer.id}`, SEE_OTHER);
    },
  );
  scope.post(
    "/dead-letters/:id/replay",
    {
      config: { portal: ["webhooks:read", "webhooks:replay"] },
      schema: { hide: true, params: IdParams("delivery"), body: Form({}) },
    },
    async ({ visit, params: { id }, body: { once } }, reply) => {
      const made = await refused(visit.apiFor({ once }).deadLetters.replay(id));
      if ("error" in made) {
        const { content } = await listPage(visit, {}, made.error.message);
        return send(reply.code(made.error.status), visit, content);
      }
      return await reply.redirect(`${DELIVERIES}/${id}?done=replayed`, SEE_OTHER);
    },
  );
}

export function registerDeadLetterPages(scope: SignetServer, parts: PortalServices): void {
  scope.get(
    "/dead-letters",
    { config: { portal: ["webhooks:read"] }, schema: { hide: true, querystring: FilterQuery } },
    async ({ visit, query }, reply) => {
      const { status, content } = await listPage(visit, query);
      return parts.send(reply.code(status), visit, content);
    },
  );
  scope.get(
    "/dead-letters/export",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, querystring: Closed(DeliveryFilters) },
    },
    async ({ visit, query }, reply) => {
      reply.header("content-disposition", 'attachment; filename="dead-letters.ndjson"');
      const { identity } = visit;
      return await parts.exportDeadLetters(reply, {
        tenantId: identity.tenantId,
        filter: deliveryFilter(query),
        isAdmitted: async () => await parts.sessions.isAdmitted(identity),
      });
    },
  );
  registerReplay(scope, parts);
  registerReplayPages(scope, parts);
}
