/** Renders a grade's report (docs/grader.md). */
import type { Grade, GradeCheck, GradeFinding, GradeReport, GradeSummary } from "#lib/client/api-types.ts";
import type { CheckName } from "#webhooks/grader/checks.ts";
import { html, type Html, type Part } from "../html.ts";
import { badge, stateBadge, table } from "../parts.ts";
import { failureText } from "./delivery-parts.ts";

/** What each check sends, and the expected answer. */
const CHECKS: Readonly<Record<CheckName, readonly [sent: string, right: string]>> = {
  valid: ["A delivery", "2xx within 5 seconds"],
  duplicate: ["The same bytes again", "2xx, not processed"],
  retry: ["The same event as attempt 2, signed again", "2xx, not processed"],
  out_of_order: ["An event that occurred an hour ago, signed now", "2xx"],
  late: ["Signed two minutes ago", "2xx"],
  unusual_json: ["Numbers and escapes in unusual spellings", "2xx"],
  header_case: ["Header names in upper case", "2xx"],
  second_signature: ["An unknown signature first, the valid one second", "2xx"],
  large_body: ["256 KiB of data", "2xx"],
  slow_body: ["The body in 12 pieces", "2xx"],
  wrong_signature: ["Signatures with another secret", "401"],
  unsigned: ["No signature", "400 or 401"],
  truncated_signature: ["Truncated valid signatures", "400 or 401"],
  rewritten_body: ["The body rewritten, with the old signature", "401"],
  stale: ["Signed 15 minutes ago", "401"],
  future: ["Signed 15 minutes ahead", "401"],
  fresh_timestamp_header: ["An old body with a new timestamp header", "400 or 401"],
  fresh_id_header: ["The first delivery with another event id header", "4xx, or 2xx and not processed"],
  valid_again: ["A delivery after all the bad ones", "2xx"],
};

export function gradeBadge({ state }: Pick<Grade, "state">): Html {
  return stateBadge(state === "QUEUED" ? "WAITING" : state);
}

/** Texts for grades without a report. */
export const FAILURES = {
  endpoint_not_active: "The endpoint was disabled, was deleted or got another URL before the grade ended.",
  interrupted: "The grade was interrupted twice. Start another one.",
} as const;

/** Checks whether the grade is still waiting or running. */
export function isOpen({ state }: Pick<Grade, "state">): boolean {
  return state === "QUEUED" || state === "RUNNING";
}

/** Returns the text for a score. */
export function scoreText(score: number | null): string {
  return score === null ? "–" : `${score} of 100`;
}

/** Least scores for the colours good and fair. */
const [GOOD, FAIR] = [100, 60];

/** Renders the score as a large coloured number. */
export function scoreMark(score: number): Html {
  const kind = score >= GOOD ? "good" : score >= FAIR ? "wait" : "bad";
  return html`<p class="score ${kind}"><strong>${score}</strong> of 100</p>`;
}

const SEVERITIES = { critical: "bad", major: "wait", minor: "idle" } as const;

/** Returns the text for what a check sends; for an unknown check, its name. */
function checkText(name: string): string {
  return name in CHECKS ? CHECKS[name as CheckName][0] : name;
}

/** Renders text between back quotes as code. */
function proseOf(text: string): Part {
  return text.split("`").map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
}

function findingItem({ severity, problem, advice, checks, code }: GradeFinding): Html {
  return html`<li class="card">
    <h3>${proseOf(problem)} ${badge(SEVERITIES[severity], severity)}</h3>
    <p>${proseOf(advice)}</p>
    <p class="muted">
      Seen in: ${checks.map(checkText).join("; ")}. <span class="hidden">Code:</span>
      <code>${code}</code>
    </p>
  </li>`;
}

function findingsSection({ findings, checks }: GradeReport): Html {
  const missed = checks.filter(({ verdict }) => verdict === "not_performed").length;
  return html`<section aria-labelledby="findings">
    <h2 id="findings">Findings and how to fix them</h2>
    ${
      findings.length === 0
        ? html`<p class="empty">No findings.</p>`
        : html`<ol class="cards">
            ${findings.map(findingItem)}
          </ol>`
    }
    ${
      missed > 0 &&
      html`<p class="muted">
        ${missed} of ${checks.length} checks could not be performed. Fix the findings above, then grade again.
      </p>`
    }
  </section>`;
}

function unseenSection({ not_observed: unseen }: GradeReport): Part {
  const advice = [...new Set(unseen.map((one) => one.advice))];
  return (
    unseen.length > 0 &&
    html`<section aria-labelledby="unseen">
      <h2 id="unseen">What the grade cannot observe</h2>
      <p>
        Whether an event was processed twice
        (${unseen.map(({ code }, index) => html`${index > 0 && ", "}<code>${code}</code>`)}). This does not
        lower the score.
      </p>
      ${advice.map((text) => html`<p>${text}</p>`)}
    </section>`
  );
}

const VERDICTS = {
  passed: badge("good", "passed"),
  failed: badge("bad", "failed"),
  not_performed: badge("idle", "not performed"),
} as const;

function gotText({ status, error, verdict }: GradeCheck): string {
  if (status !== null) {
    return `HTTP ${status}`;
  }
  return verdict === "not_performed" || error === null ? "–" : failureText(error);
}

function checksSection({ checks }: GradeReport): Html {
  return html`<section aria-labelledby="checks">
    <h2 id="checks">Checks</h2>
    ${table(
      "Verdict of every check",
      ["Sent", "Expected answer", "Answer", "Duration", "Verdict"],
      checks.map((check) => [
        checkText(check.name),
        check.name in CHECKS ? CHECKS[check.name as CheckName][1] : check.expected,
        gotText(check),
        check.duration_ms === null ? "–" : `${check.duration_ms} ms`,
        VERDICTS[check.verdict],
      ]),
    )}
  </section>`;
}

/** Renders all sections of a report. */
export function reportSections(report: GradeReport): Part {
  return html`${findingsSection(report)} ${unseenSection(report)} ${checksSection(report)}`;
}

/** Renders a grade's score, or its state if it has no score. */
export function gradeStanding(grade: GradeSummary): Part {
  return grade.score === null ? gradeBadge(grade) : scoreText(grade.score);
}
