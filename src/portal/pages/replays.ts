/** Replays: running and finished jobs, with their progress. */
import { type Static, Type } from "typebox";
import { Closed, IdParams, OneOf } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import type { ReplayCount, ReplayJob, ReplayOutcomes } from "#lib/client/api-types.ts";
import { ITEM_STATES } from "#api/schemas/replays.ts";
import { REPLAY_OUTCOMES } from "#database/repositories/webhooks/replay-items.ts";
import type { SignetError } from "#domain/errors.ts";
import type { Page } from "#lib/client/paging.ts";
import { SEE_OTHER } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { badge, buttonForm, facts, moment, nextPage, stateBadge, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DEAD_LETTERS, DELIVERIES } from "./delivery-parts.ts";
import { endpointFact } from "./endpoint/endpoint-parts.ts";

export const REPLAYS = "/portal/replays";

/** Renders what a job has come to. Only green says success: something was delivered, and nothing failed or waits. */
export function resultBadge(
  { state, total, done, failed }: ReplayJob,
  outcomes: ReplayOutcomes | undefined,
): Html {
  if (state !== "COMPLETED" || outcomes === undefined) {
    return stateBadge(state);
  }
  const { delivered, retrying, waiting } = outcomes;
  if (done === 0 && failed === 0) {
    return badge("idle", total === 0 ? "completed: nothing matched" : "completed: all skipped");
  }
  if (delivered === 0) {
    return retrying + waiting > 0
      ? badge("wait", "completed: nothing delivered so far")
      : badge("bad", "completed: nothing delivered");
  }
  if (failed + outcomes.failed > 0) {
    return badge("bad", "completed: partly delivered");
  }
  return retrying + waiting > 0
    ? badge("wait", "completed: partly delivered so far")
    : badge("good", "completed: delivered");
}

const BAR_WIDTH = 100;

/** Renders a bar of an ended job: the shares of what was delivered, what is open, and what failed. */
function resultBar({ total, failed, skipped }: ReplayJob, outcomes: ReplayOutcomes): Html {
  const parts = [
    ["good", outcomes.delivered],
    ["wait", outcomes.retrying + outcomes.waiting],
    ["bad", outcomes.failed + failed],
    ["idle", outcomes.cancelled + skipped],
  ] as const;
  const width = (count: number): number => (BAR_WIDTH * count) / Math.max(1, total);
  let x = 0;
  const rects = parts.map(([kind, count]) => {
    const rect = count > 0 && html`<rect class="${kind}" x="${x}" width="${width(count)}" height="1" />`;
    x += width(count);
    return rect;
  });
  return html`<svg class="shares" viewBox="0 0 ${BAR_WIDTH} 1" preserveAspectRatio="none" aria-hidden="true">
    ${rects}
  </svg>`;
}

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

/** Whether a replay would send nothing, because each of its deliveries would fail. */
export function allWouldFail({ total, would_fail: wouldFail = 0, at_least: atLeast }: ReplayCount): boolean {
  return wouldFail > 0 && wouldFail === total && atLeast !== true;
}

/**
 * Renders, before a replay starts, what of it would fail.
 *
 * @param endpointId the endpoint of the selection, if it has one
 */
export function wouldFailText(count: ReplayCount, endpointId = ""): Part {
  const { would_fail: wouldFail = 0 } = count;
  return (
    wouldFail > 0 &&
    html`<p class="notice problem">
      ${allWouldFail(count) ? "All" : wouldFail.toLocaleString("en")} of them would fail: their endpoint is
      disabled, unverified or deleted.
      <a href="/portal/endpoints${endpointId === "" ? "" : `/${endpointId}`}">Enable the endpoint</a> first.
    </p>`
  );
}

/** Labels of a job's numbers. */
const WORDS = {
  dead_letters: {
    name: "dead letters",
    done: "Replayed",
    skipped: "Skipped: already replayed or cancelled",
    failed: "Failed: not sent",
    cancelled: "The replay was cancelled. Deliveries that were not replayed stay in the queue.",
  },
  deliveries: {
    name: "deliveries",
    done: "Sent again",
    skipped: "Skipped: changed since, or erased",
    failed: "Failed: not sent",
    cancelled: "The replay was cancelled. Deliveries that were not sent again stay as they are.",
  },
  missing: {
    name: "missing events",
    done: "Sent",
    skipped: "Skipped: erased, or a delivery exists",
    failed: "Failed: not sent",
    cancelled: "The replay was cancelled. Events that were not sent are still missing.",
  },
} as const;

async function endpointOf(visit: Visit, id: string): Promise<readonly [string, Part]> {
  const asked = await refused(visit.api.endpoints.get(id));
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

/** Returns the link to the items that were not sent, with the reason of the first of them. */
async function failedFact({ api }: Visit, path: string, { id, kind, failed }: ReplayJob): Promise<Part> {
  if (failed === 0) {
    return "0";
  }
  const { data } = await api.replays.items(id, { state: "FAILED", limit: 1 }).page();
  const reason = data[0]?.reason ?? null;
  const advice = reason === "endpoint_disabled" && kind !== "missing" && " Enable the endpoint first.";
  return html`<a href="${path}/items?state=FAILED">${failed.toLocaleString("en")}</a>${
      reason !== null && ` (${said(reason)}).`
    }${advice}`;
}

const said = (text: string): string => text.toLowerCase().replaceAll("_", " ");

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

async function jobFacts(visit: Visit, job: ReplayJob, outcomes: ReplayOutcomes | undefined): Promise<Html> {
  const words = WORDS[job.kind];
  const path = `${REPLAYS}/${job.id}`;
  return facts([
    ["Kind", words.name],
    ...(job.endpoint_id === null ? [] : [await endpointOf(visit, job.endpoint_id)]),
    [words.done, job.done.toLocaleString("en")],
    [words.skipped, job.skipped.toLocaleString("en")],
    [words.failed, await failedFact(visit, path, job)],
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
  ]);
}

async function replayPage(visit: Visit, id: string, happened: Happened): Promise<PageContent> {
  const job = await visit.api.replays.get(id);
  const path = `${REPLAYS}/${id}`;
  const running = job.state === "RUNNING";
  // Counting reads every delivery of the job, so the page of a running job does not.
  const outcomes = running ? undefined : await visit.api.replays.outcomes(id);
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
        <h2 id="progress">Progress ${resultBadge(job, outcomes)}</h2>
        <p class="progress">
          <label for="bar">${count}</label>
          <progress id="bar" max="${Math.max(1, job.total)}" value="${handled(job)}">${count}</progress>
          ${outcomes !== undefined && job.state === "COMPLETED" && resultBar(job, outcomes)}
        </p>
        ${await jobFacts(visit, job, outcomes)} ${changes(visit, job)}
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

const ItemsQuery = Closed({
  state: Type.Optional(OneOf(ITEM_STATES)),
  outcome: Type.Optional(OneOf(REPLAY_OUTCOMES)),
  cursor: Type.Optional(Line(256)),
});

/** Renders the deliveries of a job, with links to each. */
async function itemsPage(
  { api }: Visit,
  id: string,
  { cursor, ...filter }: Static<typeof ItemsQuery>,
): Promise<PageContent> {
  const filters = new URLSearchParams(filter);
  const path = `${REPLAYS}/${id}`;
  const { data, next_cursor: next } = await api.replays.items(id, { limit: 50, ...filter, cursor }).page();
  const here = `${path}/items${filters.size === 0 ? "" : `?${filters.toString()}`}`;
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
                  html`${stateBadge(state)} ${reason !== null && said(reason)}`,
                  since === null ? "–" : stateBadge(since),
                ]),
              )
        }
      </section>
      ${nextPage(here, next, cursor === undefined, ["First", "Next"])}
      <p><a href="${path}">Back to the replay</a></p>`,
  };
}

function listPage({ data, next_cursor: next }: Page<ReplayJob>): PageContent {
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
                  stateBadge(job.state),
                  `${handled(job)} of ${job.total}`,
                  job.done,
                  job.failed,
                ]),
              )}
            </section>
            ${nextPage(REPLAYS, next)}`,
  };
}

function registerChanges(scope: SignetServer, { send }: PortalServices): void {
  for (const change of CHANGES) {
    scope.post(
      `/replays/:id/${change}`,
      {
        config: { portal: ["webhooks:read", "webhooks:replay"] },
        schema: { hide: true, params: IdParams("replay"), body: Form({}) },
      },
      async ({ visit, params: { id } }, reply) => {
        const changed = await refused(visit.api.replays[change](id));
        if ("error" in changed) {
          const page = await replayPage(visit, id, { error: changed.error });
          return send(reply.code(changed.error.status), visit, page);
        }
        return await reply.redirect(`${REPLAYS}/${id}?done=${change}`, SEE_OTHER);
      },
    );
  }
}

export function registerReplayPages(scope: SignetServer, parts: PortalServices): void {
  scope.get(
    "/replays",
    {
      config: { portal: ["webhooks:read"] },
      schema: { hide: true, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, query: { cursor } }, reply) => {
      return parts.send(reply, visit, listPage(await visit.api.replays.list({ limit: 50, cursor }).page()));
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
