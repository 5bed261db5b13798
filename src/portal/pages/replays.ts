/** Replays: running and finished jobs, with their progress. */
import { type Static, Type } from "typebox";
import { Closed, IdParams, OneOf } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import type { ReplayItem, ReplayJob, ReplayOutcomes } from "../../lib/client/api-types.ts";
import { REPLAY_OUTCOMES } from "../../database/repositories/webhooks/replay-items.ts";
import type { SignetError } from "../../domain/errors.ts";
import { type ListAnswer, SEE_OTHER } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalParts } from "../page-parts.ts";
import { badge, buttonForm, facts, moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DEAD_LETTERS, DELIVERIES } from "./delivery-parts.ts";
import { endpointFact, getEndpoint } from "./endpoint/endpoint-parts.ts";

export const REPLAYS = "/portal/replays";

const STATES = {
  RUNNING: badge("wait", "running"),
  PAUSED: badge("idle", "paused"),
  COMPLETED: badge("good", "completed"),
  CANCELLED: badge("idle", "cancelled"),
} as const;

const CHANGES = ["pause", "resume", "cancel"] as const;

const handled = ({ done, failed, skipped }: ReplayJob): number => done + failed + skipped;

function changes(visit: Visit, { id, state }: ReplayJob): Part {
  const button = (name: string, label: string): Html =>
    buttonForm(visit, { action: `${REPLAYS}/${id}/${name}`, label, id: name });
  return (
    visit.can("webhooks:replay") &&
    (state === "RUNNING" || state === "PAUSED") &&
    html`<div class="buttons">
      ${state === "RUNNING" ? button("pause", "Pause") : button("resume", "Resume")}
      ${button("cancel", "Cancel replay")}
    </div>`
  );
}

/** Labels of a job's numbers. */
const WORDS = {
  dead_letters: {
    name: "dead letters",
    done: "Replayed",
    skipped: "Skipped: already replayed or cancelled",
    failed: "Expired or deleted",
    cancelled: "The replay was cancelled. Deliveries that were not replayed stay in the queue.",
  },
  deliveries: {
    name: "deliveries",
    done: "Sent again",
    skipped: "Skipped: changed since, or erased",
    failed: "Failed: the endpoint is deleted, or expired",
    cancelled: "The replay was cancelled. Deliveries that were not sent again stay as they are.",
  },
  missing: {
    name: "missing events",
    done: "Sent",
    skipped: "Skipped: erased, or a delivery exists",
    failed: "Failed: the endpoint was not active",
    cancelled: "The replay was cancelled. Events that were not sent are still missing.",
  },
} as const;

async function endpointOf(visit: Visit, id: string): Promise<readonly [string, Part]> {
  const asked = await refused(getEndpoint(visit, id));
  return "answer" in asked ? endpointFact(asked.answer) : ["Endpoint", "deleted"];
}

const DONE = {
  pause: "The replay was paused.",
  resume: "The replay was resumed.",
} as const;

interface Happened {
  readonly done?: (typeof CHANGES)[number] | undefined;
  readonly error?: SignetError;
}

function noticeOf({ done, error }: Happened, { kind }: ReplayJob): PageContent["notice"] {
  if (error !== undefined) {
    return { kind: "problem", text: error.message };
  }
  return done && { kind: "done", text: done === "cancel" ? WORDS[kind].cancelled : DONE[done] };
}

const OUTCOMES = {
  delivered: "Delivered since",
  retrying: "Failed since, will be retried",
  failed: "Failed since, dead letters",
  cancelled: "Cancelled since",
  waiting: "Not attempted yet",
} as const;

/** Returns what the replays have come to, as links to their deliveries. */
function outcomeFacts(path: string, outcomes: ReplayOutcomes): (readonly [string, Part])[] {
  return Object.entries(OUTCOMES).flatMap(([name, label]) => {
    const count = outcomes[name as keyof typeof OUTCOMES];
    const link = `${path}/items?outcome=${name.toUpperCase()}`;
    return count === 0 && name !== "delivered"
      ? []
      : [[label, count === 0 ? "0" : html`<a href="${link}">${count.toLocaleString("en")}</a>`] as const];
  });
}

async function replayPage(visit: Visit, id: string, happened: Happened): Promise<PageContent> {
  const job = await visit.api.get<ReplayJob>(`/v1/webhooks/replays/${id}`);
  const words = WORDS[job.kind];
  const path = `${REPLAYS}/${id}`;
  const running = job.state === "RUNNING";
  // Counting reads every delivery of the job, so the page of a running job does not.
  const outcomes = running
    ? undefined
    : await visit.api.get<ReplayOutcomes>(`/v1/webhooks/replays/${id}/outcomes`);
  const changing = running || (outcomes?.waiting ?? 0) > 0;
  const polling =
    changing &&
    html`hx-get="${path}" hx-select="#job" hx-trigger="every ${running ? 2 : 5}s" hx-swap="outerHTML"`;
  const count = `${handled(job).toLocaleString("en")} of ${job.total.toLocaleString("en")}`;
  return {
    title: "Replay",
    place: DEAD_LETTERS,
    notice: noticeOf(happened, job),
    body: html`<section id="job" aria-labelledby="progress" ${polling}>
        <h2 id="progress">Progress ${STATES[job.state]}</h2>
        <p class="progress">
          <label for="bar">${count}</label>
          <progress id="bar" max="${Math.max(1, job.total)}" value="${handled(job)}">${count}</progress>
        </p>
        ${facts([
          ["Kind", words.name],
          ...(job.endpoint_id === null ? [] : [await endpointOf(visit, job.endpoint_id)]),
          [words.done, job.done.toLocaleString("en")],
          [words.skipped, job.skipped.toLocaleString("en")],
          [words.failed, job.failed.toLocaleString("en")],
          ...(outcomes?.counted === undefined
            ? []
            : [["Counted since", `the first ${outcomes.counted.toLocaleString("en")}`] as const]),
          ...(outcomes === undefined ? [] : outcomeFacts(path, outcomes)),
          ...(job.state === "CANCELLED"
            ? [["Cancelled", (job.total - handled(job)).toLocaleString("en")] as const]
            : []),
          ["Pace", `at most ${job.rate_per_second.toLocaleString("en")} per second`],
          ["Started", moment(job.created_at)],
          ...(job.finished_at === null ? [] : [["Ended", moment(job.finished_at)] as const]),
          ["Replay", html`<code>${job.id}</code>`],
        ])}
        ${changes(visit, job)}
        ${
          changing &&
          html`<noscript
            ><p class="again"><a href="${path}">Refresh</a></p></noscript
          >`
        }
      </section>
      <p><a href="${path}/items">Deliveries of this replay</a> · <a href="${REPLAYS}">All replays</a></p>`,
  };
}

const ITEM_STATES = {
  WAITING: badge("wait", "waiting"),
  DONE: badge("good", "sent"),
  SKIPPED: badge("idle", "skipped"),
  FAILED: badge("bad", "failed"),
  CANCELLED: badge("idle", "cancelled"),
} as const;

const ItemsQuery = Closed({
  outcome: Type.Optional(OneOf(REPLAY_OUTCOMES)),
  cursor: Type.Optional(Line(256)),
});

/** Renders the deliveries of a job, with links to each. */
async function itemsPage(
  { api }: Visit,
  id: string,
  { outcome, cursor }: Static<typeof ItemsQuery>,
): Promise<PageContent> {
  const query = new URLSearchParams({
    limit: "50",
    ...(outcome === undefined ? {} : { outcome }),
    ...(cursor === undefined ? {} : { cursor }),
  });
  const path = `${REPLAYS}/${id}`;
  const { data, next_cursor: next } = await api.get<ListAnswer<ReplayItem>>(
    `/v1/webhooks/replays/${id}/items?${query.toString()}`,
  );
  const here = `${path}/items${outcome === undefined ? "" : `?outcome=${outcome}`}`;
  const said = (text: string): string => text.toLowerCase().replaceAll("_", " ");
  return {
    title: "Deliveries of a replay",
    place: DEAD_LETTERS,
    body: html`<section>
        ${
          data.length === 0
            ? html`<p class="empty">No deliveries match.</p>`
            : table(
                "Deliveries of this replay",
                ["Position", "Delivery", "Result", "Since"],
                data.map(({ position, delivery_id: delivery, state, reason, outcome: since }) => [
                  position,
                  delivery === null
                    ? "–"
                    : html`<a href="${DELIVERIES}/${delivery}"><code>${delivery}</code></a>`,
                  html`${ITEM_STATES[state]} ${reason !== null && said(reason)}`,
                  since === null ? "–" : said(since),
                ]),
              )
        }
      </section>
      ${nextPage(here, next, cursor === undefined, ["First", "Next"])}
      <p><a href="${path}">Back to the replay</a></p>`,
  };
}

function listPage({ data, next_cursor: next }: ListAnswer<ReplayJob>): PageContent {
  return {
    title: "Replays",
    place: DEAD_LETTERS,
    body:
      data.length === 0
        ? html`<section aria-labelledby="none">
            <h2 id="none">No replays yet</h2>
            <p class="empty">
              When you send deliveries again together, the progress of the job is shown here.
              <a href="${DEAD_LETTERS}">Dead letters</a>
            </p>
          </section>`
        : html`<section>
              ${table(
                "Replays",
                ["Started", "Kind", "State", "Progress", "Replayed", "Failed"],
                data.map((job) => [
                  html`<a href="${REPLAYS}/${job.id}">${moment(job.created_at)}</a>`,
                  WORDS[job.kind].name,
                  STATES[job.state],
                  `${handled(job)} of ${job.total}`,
                  job.done,
                  job.failed,
                ]),
              )}
            </section>
            ${nextPage(REPLAYS, next)}`,
  };
}

function registerChanges(scope: SignetServer, { send }: PortalParts): void {
  for (const change of CHANGES) {
    scope.post(
      `/replays/:id/${change}`,
      {
        config: { portal: ["webhooks:read", "webhooks:replay"] },
        schema: { hide: true, params: IdParams("replay"), body: Form({}) },
      },
      async ({ visit, params: { id } }, reply) => {
        const changed = await refused(visit.api.send("POST", `/v1/webhooks/replays/${id}/${change}`));
        if ("error" in changed) {
          const page = await replayPage(visit, id, { error: changed.error });
          return send(reply.code(changed.error.status), visit, page);
        }
        return await reply.redirect(`${REPLAYS}/${id}?done=${change}`, SEE_OTHER);
      },
    );
  }
}

export function registerReplayPages(scope: SignetServer, parts: PortalParts): void {
  scope.get(
    "/replays",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      const after = cursor === undefined ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const list = await visit.api.get<ListAnswer<ReplayJob>>(`/v1/webhooks/replays?limit=50${after}`);
      return parts.send(reply, visit, listPage(list));
    },
  );
  scope.get(
    "/replays/:id",
    {
      config: { portal: ["webhooks:read"] },
      schema: {
        hide: true,
        params: IdParams("replay"),
        querystring: Closed({ done: Type.Optional(OneOf(CHANGES)) }),
      },
    },
    async ({ visit, params: { id }, query: { done } }, reply) =>
      parts.send(reply, visit, await replayPage(visit, id, { done })),
  );
  scope.get(
    "/replays/:id/items",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, params: IdParams("replay"), querystring: ItemsQuery },
    },
    async ({ visit, params: { id }, query }, reply) =>
      parts.send(reply, visit, await itemsPage(visit, id, query)),
  );
  registerChanges(scope, parts);
}
