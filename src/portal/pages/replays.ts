/** Replays: jobs under way and over, with their progress. */
import { Type } from "typebox";
import { Closed, IdParams, OneOf } from "../../api/schemas/common.ts";
import type { SignetServer } from "../../api/types.ts";
import type { ReplayJob } from "../../client/replays.ts";
import { type ListAnswer, SEE_OTHER } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalParts } from "../page-parts.ts";
import { badge, buttonForm, facts, moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { DEAD_LETTERS } from "./delivery-parts.ts";

export const REPLAYS = "/portal/replays";

const STATES = {
  RUNNING: badge("wait", "running"),
  PAUSED: badge("idle", "paused"),
  COMPLETED: badge("good", "completed"),
  CANCELLED: badge("idle", "cancelled"),
} as const;

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

async function replayPage(visit: Visit, id: string, notice?: PageContent["notice"]): Promise<PageContent> {
  const job = await visit.api.get<ReplayJob>(`/v1/webhooks/replays/${id}`);
  const path = `${REPLAYS}/${id}`;
  const running = job.state === "RUNNING";
  const polling =
    running && html`hx-get="${path}" hx-select="#job" hx-trigger="every 2s" hx-swap="outerHTML"`;
  const count = `${handled(job).toLocaleString("en")} of ${job.total.toLocaleString("en")}`;
  return {
    title: "Replay",
    place: DEAD_LETTERS,
    notice,
    body: html`<section id="job" aria-labelledby="progress" ${polling}>
        <h2 id="progress">Progress ${STATES[job.state]}</h2>
        <p class="progress">
          <label for="bar">${count}</label>
          <progress id="bar" max="${Math.max(1, job.total)}" value="${handled(job)}">${count}</progress>
        </p>
        ${facts([
          ["Replayed", job.done.toLocaleString("en")],
          ["Skipped: not in the queue any more", job.skipped.toLocaleString("en")],
          ["Failed: over, or not there", job.failed.toLocaleString("en")],
          ["Pace", `at most ${job.rate_per_second.toLocaleString("en")} a second`],
          ["Asked for", moment(job.created_at)],
          ...(job.finished_at === null ? [] : [["Ended", moment(job.finished_at)] as const]),
          ["Replay", html`<code>${job.id}</code>`],
        ])}
        ${changes(visit, job)}
        ${
          running &&
          html`<noscript
            ><p class="again"><a href="${path}">Look again</a></p></noscript
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
            <h2 id="none">No replay yet</h2>
            <p class="empty">
              Dead letters that are replayed together become a job, whose progress is shown here.
              <a href="${DEAD_LETTERS}">Dead letters</a>
            </p>
          </section>`
        : html`<section>
              ${table(
                "Replays",
                ["Asked for", "State", "Progress", "Replayed", "Failed"],
                data.map((job) => [
                  html`<a href="${REPLAYS}/${job.id}">${moment(job.created_at)}</a>`,
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

const CHANGES = ["pause", "resume", "cancel"] as const;
const DONE = {
  pause: "The replay is paused.",
  resume: "The replay goes on.",
  cancel: "The replay is cancelled: what was not replayed stays in the queue.",
} as const;

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
          const notice = { kind: "problem", text: changed.error.message } as const;
          return send(reply.code(changed.error.status), visit, await replayPage(visit, id, notice));
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
    async ({ visit, params: { id }, query: { done } }, reply) => {
      const notice = done && ({ kind: "done", text: DONE[done] } as const);
      return parts.send(reply, visit, await replayPage(visit, id, notice));
    },
  );
  registerChanges(scope, parts);
}
