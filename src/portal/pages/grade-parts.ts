/** What a grade's report looks like (docs/grader.md). */
import type {
  Grade,
  GradeCheck,
  GradeFinding,
  GradeReport,
  GradeSummary,
} from "../../lib/client/resources/grades.ts";
import type { AttemptError } from "../../lib/client/resources/deliveries.ts";
import type { CheckName } from "../../webhooks/grader/checks.ts";
import { html, type Html, type Part } from "../html.ts";
import { badge, table } from "../parts.ts";
import { failureText } from "./delivery-parts.ts";

/** What each check sends, and what a receiver that is right answers. */
const CHECKS: Readonly<Record<CheckName, readonly [sent: string, right: string]>> = {
  valid: ["A delivery", "2xx, in 5 seconds"],
  duplicate: ["The same bytes again", "2xx, not processed"],
  retry: ["The same event, attempt 2, signed anew", "2xx, not processed"],
  out_of_order: ["An event that occurred an hour ago, signed now", "2xx"],
  late: ["Signed two minutes ago", "2xx"],
  unusual_json: ["Numbers and escapes in unusual spellings", "2xx"],
  header_case: ["Header names in upper case", "2xx"],
  second_signature: ["A foreign signature first, the right one second", "2xx"],
  large_body: ["256 KiB of data", "2xx"],
  slow_body: ["The body in 12 pieces", "2xx"],
  wrong_signature: ["Signatures by another secret", "401"],
  unsigned: ["No signature", "400 or 401"],
  truncated_signature: ["The beginning of the right signatures", "400 or 401"],
  rewritten_body: ["The body written anew, under the old signature", "401"],
  stale: ["Signed 15 minutes ago", "401"],
  future: ["Signed 15 minutes ahead", "401"],
  fresh_timestamp_header: ["An old body under a fresh timestamp header", "400 or 401"],
  fresh_id_header: ["The first delivery under another event id header", "4xx, or 2xx and not processed"],
  valid_again: ["A delivery, after all the bad ones", "2xx"],
};

const STATES = {
  QUEUED: badge("wait", "waiting"),
  RUNNING: badge("wait", "running"),
  COMPLETED: badge("good", "completed"),
  FAILED: badge("bad", "failed"),
} as const;

export function gradeBadge({ state }: Pick<Grade, "state">): Html {
  return STATES[state];
}

/** Why there is no report. */
export const FAILURES = {
  endpoint_not_active: "The endpoint was disabled, deleted or got another URL before the grade had ended.",
  interrupted: "It was interrupted twice: ask for another.",
} as const;

/** Whether it comes to its end by itself. */
export function isOpen({ state }: Pick<Grade, "state">): boolean {
  return state === "QUEUED" || state === "RUNNING";
}

/** The score in words. */
export function scoreText(score: number | null): string {
  return score === null ? "–" : `${score} of 100`;
}

/** From when on a receiver is all right, and from when on it is not bad. */
const [GOOD, FAIR] = [100, 60];

/** The score as a mark that can be seen from afar. */
export function scoreMark(score: number): Html {
  const kind = score >= GOOD ? "good" : score >= FAIR ? "wait" : "bad";
  return html`<p class="score ${kind}"><strong>${score}</strong> of 100</p>`;
}

const SEVERITIES = { critical: "bad", major: "wait", minor: "idle" } as const;

/** What checks send, in words; a check that this page does not know by its name. */
function checkText(name: string): string {
  return name in CHECKS ? CHECKS[name as CheckName][0] : name;
}

/** Names between back quotes as code. */
function proseOf(text: string): Part {
  return text.split("`").map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
}

function findingItem({ severity, problem, advice, checks, code }: GradeFinding): Html {
  return html`<li class="card">
    <h3>${proseOf(problem)} ${badge(SEVERITIES[severity], severity)}</h3>
    <p>${proseOf(advice)}</p>
    <p class="muted">
      Seen in: ${checks.map(checkText).join("; ")}. <span class="hidden">Its code is</span>
      <code>${code}</code>
    </p>
  </li>`;
}

function findingsSection({ findings, checks }: GradeReport): Html {
  const missed = checks.filter(({ verdict }) => verdict === "not_performed").length;
  return html`<section aria-labelledby="findings">
    <h2 id="findings">What is wrong, and how to mend it</h2>
    ${
      findings.length === 0
        ? html`<p class="empty">Nothing was found.</p>`
        : html`<ol class="cards">
            ${findings.map(findingItem)}
          </ol>`
    }
    ${
      missed > 0 &&
      html`<p class="muted">
        ${missed} of ${checks.length} checks could not be made. Mend what is above, then grade it again.
      </p>`
    }
  </section>`;
}

function unseenSection({ not_observed: unseen }: GradeReport): Part {
  const advice = [...new Set(unseen.map((one) => one.advice))];
  return (
    unseen.length > 0 &&
    html`<section aria-labelledby="unseen">
      <h2 id="unseen">What cannot be seen from outside</h2>
      <p>
        Whether an event was processed twice
        (${unseen.map(({ code }, index) => html`${index > 0 && ", "}<code>${code}</code>`)}). It costs
        nothing.
      </p>
      ${advice.map((text) => html`<p>${text}</p>`)}
    </section>`
  );
}

const VERDICTS = {
  passed: badge("good", "passed"),
  failed: badge("bad", "failed"),
  not_performed: badge("idle", "not made"),
} as const;

function gotText({ status, error, verdict }: GradeCheck): string {
  if (status !== null) {
    return `HTTP ${status}`;
  }
  return verdict === "not_performed" || error === null ? "–" : failureText(error as AttemptError);
}

function checksSection({ checks }: GradeReport): Html {
  return html`<section aria-labelledby="checks">
    <h2 id="checks">Checks</h2>
    ${table(
      "Verdict of every check",
      ["What was sent", "Right answer", "Answer", "Took", "Verdict"],
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

/** All that a report says. */
export function reportSections(report: GradeReport): Part {
  return html`${findingsSection(report)} ${unseenSection(report)} ${checksSection(report)}`;
}

/** What a list or an endpoint's page says of a grade: its score, or how it stands. */
export function gradeStanding(grade: GradeSummary): Part {
  return grade.score === null ? gradeBadge(grade) : scoreText(grade.score);
}
