/** Grades of an endpoint's receiver: start, progress and report. */
import { Type } from "typebox";
import { Closed, IdParams } from "#http/common.ts";
import { GradeParams } from "#api/schemas/grades.ts";
import type { SignetServer } from "#http/types.ts";
import type { Endpoint, Grade, GradeSummary } from "#lib/client/api-types.ts";
import type { SignetError } from "#domain/errors.ts";
import { SEE_OTHER } from "../context.ts";
import { Form, Line } from "../forms.ts";
import { html, type Html, type Part } from "../html.ts";
import type { PageContent } from "../layout.ts";
import type { PortalServices } from "../page-parts.ts";
import { buttonForm, facts, moment, nextPage, table } from "../parts.ts";
import { refused } from "../problems.ts";
import type { Visit } from "../visit.ts";
import { endpointFact, ENDPOINTS } from "./endpoint/endpoint-parts.ts";
import {
  FAILURES,
  gradeBadge,
  gradeStanding,
  isOpen,
  reportSections,
  scoreMark,
  scoreText,
} from "./grade-parts.ts";

/** Same scopes as the API's routes: a grade sends requests, and its report shows weaknesses of a receiver. */
const GRADING = { portal: ["webhooks:read", "webhooks:write"] };

const gradesPath = (id: string): string => `${ENDPOINTS}/${id}/grades`;

/** Renders the button, or the reason why there is none. */
function gradeButton(visit: Visit, { id, state }: Endpoint, again = false): Html {
  return state === "ACTIVE"
    ? buttonForm(visit, {
        action: gradesPath(id),
        label: again ? "Grade again" : "Grade the receiver",
        kind: "primary",
      })
    : html`<p class="empty">
        Only an active endpoint can be graded: its receiver agreed to tests when it answered the ping.
      </p>`;
}

const EXPLANATION = html`<p>
    The receiver gets 19 deliveries, one after the other: normal, repeated, late, large and slow ones, and bad
    ones that it must reject. The report lists its faults and how to fix them.
  </p>
  <p class="muted">
    They are signed with the endpoint's own secrets and have the type <code>signet.grade</code>. Acknowledge
    them like any event, but do not process them. A grade takes at most two minutes. You can start 12 per
    hour.
  </p>`;

function gradesTable({ id }: Endpoint, grades: readonly GradeSummary[]): Html {
  return table(
    "Grades",
    ["Started", "State", "Score"],
    grades.map((grade) => [
      html`<a href="${gradesPath(id)}/${grade.id}">${moment(grade.created_at)}</a>`,
      gradeBadge(grade),
      scoreText(grade.score),
    ]),
  );
}

async function listPage(
  visit: Visit,
  id: string,
  { cursor, error }: { readonly cursor?: string | undefined; readonly error?: SignetError },
): Promise<PageContent> {
  const [endpoint, { data, next_cursor: next }] = await Promise.all([
    visit.api.endpoints.get(id),
    visit.api.endpoints.listGrades(id, { cursor }).page(),
  ]);
  return {
    title: "Receiver grades",
    place: ENDPOINTS,
    notice: error && { kind: "problem", text: error.message },
    body: html`<section aria-labelledby="grade">
        <h2 id="grade">Grade the receiver</h2>
        ${facts([endpointFact(endpoint)])} ${EXPLANATION} ${gradeButton(visit, endpoint)}
      </section>
      <section aria-labelledby="grades">
        <h2 id="grades">Previous grades</h2>
        ${
          data.length === 0
            ? html`<p class="empty">No grades yet. The newest 20 are kept here.</p>`
            : gradesTable(endpoint, data)
        }
      </section>
      ${nextPage(gradesPath(id), next, cursor === undefined)}`,
  };
}

function progressPart(grade: Grade, path: string): Part {
  const { checks_made: made, checks_total: total } = grade;
  return (
    isOpen(grade) &&
    html`<p class="progress">
        <label for="bar"
          >${grade.state === "QUEUED" ? "Waiting for a worker." : `${made} of ${total} deliveries sent.`}</label
        >
        <progress id="bar" value="${made}" max="${total}"></progress>
      </p>
      <p class="muted">This takes at most two minutes and continues if you close this page.</p>
      <noscript
        ><p class="again"><a href="${path}">Refresh</a></p></noscript
      >`
  );
}

async function gradePage(visit: Visit, id: string, gradeId: string): Promise<PageContent> {
  const [endpoint, grade] = await Promise.all([
    visit.api.endpoints.get(id),
    visit.api.endpoints.getGrade(id, gradeId),
  ]);
  const { report, failure } = grade;
  const path = `${gradesPath(id)}/${gradeId}`;
  const polling =
    isOpen(grade) && html`hx-get="${path}" hx-select="#grade" hx-trigger="every 2s" hx-swap="outerHTML"`;
  return {
    title: "Receiver grade",
    place: ENDPOINTS,
    body: html`<div id="grade" ${polling}>
        <section aria-labelledby="standing">
          <h2 id="standing">Grade ${gradeBadge(grade)}</h2>
          ${report !== null && scoreMark(report.score)} ${progressPart(grade, path)}
          ${failure !== null && html`<p>${FAILURES[failure]}</p>`}
          ${facts([
            endpointFact(endpoint),
            ["Started", moment(grade.created_at)],
            ...(grade.finished_at === null ? [] : [["Ended", moment(grade.finished_at)] as const]),
            ["Grade", html`<code>${grade.id}</code>`],
          ])}
          ${!isOpen(grade) && gradeButton(visit, endpoint, true)}
        </section>
        ${report !== null && reportSections(report)}
      </div>
      <p><a href="${gradesPath(id)}">All grades of this endpoint</a></p>`,
  };
}

/** Returns the newest grade if the session may read it. */
export async function newestGrade(visit: Visit, id: string): Promise<GradeSummary | undefined> {
  if (!visit.can("webhooks:write")) {
    return undefined;
  }
  const { data } = await visit.api.endpoints.listGrades(id, { limit: 1 }).page();
  return data[0];
}

/** Renders the section of the endpoint's page for sessions that may grade. */
export function gradeSection({ id }: Endpoint, newest: GradeSummary | undefined): Html {
  const path = gradesPath(id);
  return html`<section aria-labelledby="grade-heading">
    <h2 id="grade-heading">Receiver grade</h2>
    ${
      newest === undefined
        ? html`<p>
            Does the receiver reject what it must reject? A grade tests it with good and bad deliveries, and
            reports what to fix.
          </p>`
        : html`<p>
            <a href="${path}/${newest.id}">${gradeStanding(newest)}</a>, ${moment(newest.created_at)}.
          </p>`
    }
    <div class="buttons"><a class="button" href="${path}">Grade the receiver</a></div>
  </section>`;
}

export function registerGradePages(scope: SignetServer, { send }: PortalServices): void {
  const params = IdParams("endpoint");
  scope.get(
    "/endpoints/:id/grades",
    {
      config: GRADING,
      schema: { hide: true, params, querystring: Closed({ cursor: Type.Optional(Line(256)) }) },
    },
    async ({ visit, params: { id }, query: { cursor } }, reply) =>
      send(reply, visit, await listPage(visit, id, { cursor })),
  );
  scope.post(
    "/endpoints/:id/grades",
    { config: GRADING, schema: { hide: true, params, body: Form({}) } },
    async ({ visit, params: { id }, body: { once } }, reply) => {
      const started = await refused(visit.apiFor({ once }).endpoints.grade(id));
      if ("error" in started) {
        const page = await listPage(visit, id, { error: started.error });
        return send(reply.code(started.error.status), visit, page);
      }
      return await reply.redirect(`${gradesPath(id)}/${started.answer.id}`, SEE_OTHER);
    },
  );
  scope.get(
    "/endpoints/:id/grades/:grade_id",
    { config: GRADING, schema: { hide: true, params: GradeParams } },
    async ({ visit, params: { id, grade_id: gradeId } }, reply) =>
      send(reply, visit, await gradePage(visit, id, gradeId)),
  );
}
