/** Replays: running and finished jobs, with their progress. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";
import type { ReplayJob } from "../../lib/client/api-types.ts";
import type { SignetError } from "../../domain/errors.ts";
import { type ListAnswer, SEE_OTHER } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalParts } from "../page-parts.ts";
import { badge, buttonForm, facts, moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DEAD_LETTERS } from "./delivery-parts.ts";
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

async function replayPage(visit: Visit, id: string, happened: Happened): Promise<PageContent> {
  const job = await visit.api.get<ReplayJob>(`/v1/webhooks/replays/${id}`);
  const words = WORDS[job.kind];
  const path = `${REPLAYS}/${id}`;
  const running = job.state === "RUNNING";
  const polling =
    running && html`hx-get="${path}" hx-select="#job" hx-trigger="every 2s" hx-swap="outerHTML"`;
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
          running &&
          html`<noscript
            ><p class="again"><a href="${path}">Refresh</a></p></noscript
          >`
        }
      </section>
      <p><a href="${REPLAYS}">All replays</a></p>`,
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
              When you replay dead letters together, the progress of the job is shown here.
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
  registerChanges(scope, parts);
}
