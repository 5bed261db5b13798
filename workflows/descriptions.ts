/**
 * Texts for readers of a workflow in Temporal's UI or CLI. Current details are Markdown in the workflow's memory and
 * cost no history. Summaries of activities and timers are stored in the history, so the many first attempts have
 * none. Ids, numbers and times only (docs/decisions/0002).
 */
import { ATTEMPT_MAX } from "#domain/retry-schedule.ts";
import type { DeliverResult, MemberAnswer, MemberStatus } from "./messages.ts";

/** Maximum number of members shown individually. The query `status` returns all of them. */
const SHOWN_MAX = 10;

/** Descriptions of the signals and queries of `deliver` for `temporal workflow metadata` and the UI. */
export const DELIVER_HANDLERS = {
  replay: {
    description: `Dead letters start again with ${ATTEMPT_MAX} attempts. Optional: delivery_ids, by, reason.`,
  },
  attemptNow: {
    description: "The next attempt is made now and uses its slot. Optional: delivery_ids, by, reason.",
  },
  cancel: { description: "No further attempts. Optional: delivery_ids, by, reason." },
  release: { description: "Internal: these deliveries are carried elsewhere." },
  status: { description: "Every delivery: state, attempts made, time of the next." },
} as const;

export const VERIFY_HANDLERS = {
  attemptNow: { description: "A ping is sent now; the schedule stays." },
  status: { description: "Pings sent and time of the next." },
} as const;

export const REPLAY_HANDLERS = {
  pause: { description: "No further pages until resume. Optional: by." },
  resume: { description: "Goes on. Optional: by." },
  cancel: { description: "Ends the job; what was replayed stays so. Optional: by." },
  rowChanged: { description: "Internal: the job's row has changed." },
  status: { description: "State and counts." },
} as const;

/** Identifies a workflow for the CLI. */
export interface Addressed {
  readonly namespace: string;
  readonly workflowId: string;
}

/** Summary of an attempt, with the number of members if there are several. */
export function attemptSummary(attempt: number, members: number): string {
  const which = `attempt ${attempt} of ${ATTEMPT_MAX}`;
  return members === 1 ? which : `${which}, ${members} deliveries`;
}

/** Summary of what a request asks for. Whether it happens is in the activity's result. */
export function requestSummary(
  kind: "replay" | "attemptNow" | "cancel" | "handBack",
  members: number,
): string {
  const words = { replay: "replay", attemptNow: "attempt now", cancel: "cancellation", handBack: "return" };
  const what = words[kind];
  return `${what} of ${deliveries(members)}`;
}

/** Characters of a signal's name that are shown. */
const NAME_MAX = 64;
/** Maximum number of refusals in a note. */
const REFUSALS_MAX = 3;
/** What Markdown could take for more than text. */
const MARKDOWN = /[\p{C}\\`*{}[\]()<>#|!~&]/gu;

function plain(text: string): string {
  return text.replaceAll(MARKDOWN, " ").trim();
}

/** Returns what became of a request. Its names are typed by people. */
export function requestNote(
  {
    kind,
    input,
  }: { readonly kind: string; readonly input: { readonly by?: string; readonly reason?: string } },
  { changed, refused }: MemberAnswer,
  problem: string | undefined,
): string {
  const by = input.by === undefined ? "" : ` by ${plain(input.by)}`;
  const why = input.reason === undefined ? "" : ` (${plain(input.reason)})`;
  if (problem !== undefined) {
    return `${kind}${by}${why} was refused: ${plain(problem)}.`;
  }
  const shown = refused.slice(0, REFUSALS_MAX).map(({ id, reason }) => `${plain(id)} \`${reason}\``);
  const rest = refused.length > REFUSALS_MAX ? ["…"] : [];
  const against = refused.length === 0 ? "" : `; refused: ${[...shown, ...rest].join(", ")}`;
  return `${kind}${by}${why}: ${changed.length} of ${deliveries(changed.length + refused.length)} changed${against}.`;
}

/** Returns the note about a signal that nothing handles. */
export function unknownSignalNote(name: string): string {
  return `the signal "${plain(name).slice(0, NAME_MAX)}" is unknown: replay, attemptNow and cancel are.`;
}

/** Summary of the end of the dead-letter week. */
export function changeSummary(what: string, members: number): string {
  return `${what}: ${deliveries(members)}`;
}

function deliveries(count: number): string {
  return count === 1 ? "1 delivery" : `${count} deliveries`;
}

/**
 * Returns commands that an operator can paste into a terminal. Each fits the UI's column.
 *
 * @param of the delivery that they mean; undefined for all
 */
export function signalCommands(
  { namespace, workflowId }: Addressed,
  signals: readonly string[],
  of?: string,
): readonly string[] {
  const commands = signals.map((name) =>
    [
      `temporal workflow signal --namespace ${namespace}`,
      `  --workflow-id ${workflowId}`,
      `  --name ${name}`,
      ...(of === undefined ? [] : ["  --input", `    '{"delivery_ids":["${of}"]}'`]),
    ].join(" \\\n"),
  );
  // The UI cuts off the last line of its frame, so no command is last.
  return ["```sh", ...commands, "```", "", "Times are UTC."];
}

/** Formats a time to the second. */
export function readable(iso: string): string {
  return `${iso.slice(0, 10)} ${iso.slice(11, 19)}Z`;
}

/** Returns the non-zero outcomes of a carrier in words. */
export function outcomeWords(result: DeliverResult): string {
  return Object.entries(result)
    .filter(([, count]: readonly [string, number]) => count > 0)
    .map(([outcome, count]) => `${count} ${outcome}`)
    .join(", ");
}

function memberRow({
  delivery_id: id,
  attempts,
  last_answer: last,
  next_attempt_at: next,
  expires_at: expires,
}: MemberStatus): string {
  const then =
    expires === null ? (next === null ? "under way" : readable(next)) : `expires ${readable(expires)}`;
  return `| \`${id}\` | ${attempts} of ${ATTEMPT_MAX} | ${last === null ? "" : `\`${last}\``} | ${then} |`;
}

/** Returns the current details of an open `deliver`. */
export function deliverDetails(
  carrier: Addressed & {
    readonly endpoints: readonly string[];
    readonly mixed: boolean;
    readonly last: string | undefined;
  },
  members: readonly MemberStatus[],
): string {
  const open = members.filter(({ state }) => state !== "DONE");
  const among = (wanted: MemberStatus["state"]): number =>
    open.filter(({ state }) => state === wanted).length;
  const dead = among("DEAD_LETTERED");
  const states = [
    [among("QUEUED"), "not attempted yet"] as const,
    [among("RETRYING"), "retrying"] as const,
    [dead, "dead-lettered"] as const,
  ].flatMap(([count, word]) => (count > 0 ? [`${count} ${word}`] : []));
  const [endpoint, ...others] = carrier.endpoints;
  const one = endpoint === undefined || others.length > 0 ? "" : ` for ${endpoint}`;
  const where = carrier.mixed ? " for several endpoints" : one;
  return [
    `**${deliveries(open.length)}**${where}: ${states.join(", ")}.`,
    "",
    // The UI leaves no room between columns: code has its own, and a word gets a space that Markdown keeps.
    "| Delivery | Attempts | \u00a0Last | Next |",
    "| --- | --- | --- | --- |",
    ...open.slice(0, SHOWN_MAX).map(memberRow),
    ...(open.length > SHOWN_MAX ? [`| ${open.length - SHOWN_MAX} more: query \`status\` | | | |`] : []),
    "",
    ...(carrier.last === undefined ? [] : [`Last request: ${carrier.last}`, ""]),
    ...(carrier.mixed ? ["The endpoints differ, so a request must name its `delivery_ids`.", ""] : []),
    ...signalCommands(
      carrier,
      [...(dead > 0 ? ["replay"] : []), ...(open.length > dead ? ["attemptNow"] : []), "cancel"],
      carrier.mixed ? open[0]?.delivery_id : undefined,
    ),
  ].join("\n");
}
