/** Receipts of revocations: which edges, hubs and apis apply one, where, how fast, and who cannot admit a token anyway. */
import { Type } from "typebox";
import { OneOf } from "#http/common.ts";
import type { Revocation } from "#lib/client/api-types.ts";
import { RECEIPT_WAITS, type ReceiptWait } from "#revocation/receipt.ts";
import { html, type Part } from "../html.ts";
import { badge, facts, moment, table } from "../parts.ts";
import type { Visit } from "../visit.ts";
import { COMPLIANCE, entryLink } from "./compliance-parts.ts";

type Process = Revocation["edges"]["processes"][number];

const WAITS: Readonly<Record<ReceiptWait, string>> = {
  all: "all processes, at most 250 ms",
  region: "the processes of this region",
  none: "none: show the receipt at once",
};

/** Field of the forms that revoke. */
export const WAIT_FIELDS = { wait: Type.Optional(OneOf(RECEIPT_WAITS)) };

/** Renders the choice of whom the receipt waits for. @param id of the field */
export function waitField(id: string): Part {
  return html`<div class="field">
    <label for="${id}">Wait for the confirmations of</label>
    <select id="${id}" name="wait" aria-describedby="${id}-help">
      ${RECEIPT_WAITS.map((wait) => html`<option value="${wait}">${WAITS[wait]}</option>`)}
    </select>
    <p class="muted" id="${id}-help">It takes effect everywhere within 250 ms in any case.</p>
  </div>`;
}

const OUTCOMES: Readonly<Record<Revocation["edges"]["outcome"], Part>> = {
  applied: badge("good", "applied everywhere"),
  slow_but_safe: badge("good", "applied or admits nothing"),
  pending: badge("wait", "not certain yet"),
  unknown: badge("wait", "not known"),
};

const STATES: Readonly<Record<Process["state"], Part>> = {
  applied: badge("good", "applied"),
  lease_expired: badge("good", "cannot admit: no lease"),
  pending: badge("bad", "not confirmed"),
};

/** Returns the number of processes in a state. */
function count(processes: readonly Process[], state: Process["state"]): number {
  return processes.filter((process) => process.state === state).length;
}

function milliseconds(ms: number | null): string {
  return ms === null ? "–" : `${ms} ms`;
}

function slowest(processes: readonly Process[]): number | null {
  const times = processes.flatMap(({ ms }) => (ms === null ? [] : [ms]));
  return times.length === 0 ? null : Math.max(...times);
}

/** Renders counts by region, if there are several. */
function regionsTable(processes: readonly Process[]): Part {
  const regions = Map.groupBy(processes, ({ region }) => region ?? "–");
  return (
    regions.size > 1 &&
    table(
      "Regions",
      ["Region", "Processes", "Applied", "Cannot admit", "Not confirmed", "Slowest"],
      [...regions]
        .toSorted(([one], [other]) => (one < other ? -1 : 1))
        .map(([region, inside]) => [
          region,
          String(inside.length),
          String(count(inside, "applied")),
          String(count(inside, "lease_expired")),
          String(count(inside, "pending")),
          milliseconds(slowest(inside)),
        ]),
    )
  );
}

/** Renders the processes of a receipt, by region. */
function processTables(processes: readonly Process[]): Part {
  const keyOf = ({ region, kind, id }: Process): string => `${region ?? ""} ${kind} ${id}`;
  return (
    processes.length > 0 &&
    html`${regionsTable(processes)}
    ${table(
      "Edges, hubs and apis",
      ["Process", "Kind", "Region", "State", "After"],
      processes
        .toSorted((one, other) => (keyOf(one) < keyOf(other) ? -1 : 1))
        .map(({ id, kind, region, state, ms }) => [
          html`<code>${id}</code>`,
          kind,
          region ?? "–",
          STATES[state],
          milliseconds(ms),
        ]),
    )}`
  );
}

/** Renders a link to the entries that say how all processes did, also those that the receipt did not wait for. */
function laterReport(visit: Visit, { outcome }: Revocation["edges"]): Part {
  return (
    (outcome === "pending" || outcome === "unknown") &&
    visit.can("compliance:read") &&
    html`<p>
      <a href="${COMPLIANCE}?type=revocation.propagated">The compliance log</a> says within a second how all
      processes did.
    </p>`
  );
}

/** Renders a receipt. */
export function receiptPart(visit: Visit, { committed_at: at, edges, compliance }: Revocation): Part {
  const { processes, outcome, summary, max_ms: maxMs } = edges;
  const applied = count(processes, "applied");
  const expired = count(processes, "lease_expired");
  return html`<section aria-labelledby="receipt">
    <h2 id="receipt">Receipt ${OUTCOMES[outcome]}</h2>
    ${facts([
      ["Committed", moment(at)],
      ["Admit it no longer", `${applied + expired} of ${processes.length} processes`],
      ["Applied", String(applied)],
      ["Had lost their lease", String(expired)],
      ["Slowest", milliseconds(maxMs)],
      ["Compliance log", entryLink(visit, compliance.log_index)],
    ])}
    <p>${summary}</p>
    ${laterReport(visit, edges)} ${processTables(processes)}
  </section>`;
}

function isProcess(value: unknown): value is Process {
  const { id, kind, state } = (value ?? {}) as Partial<Process>;
  return typeof id === "string" && typeof kind === "string" && state !== undefined && state in STATES;
}

/** Renders the processes that an entry of a revocation names; nothing for other entries. */
export function entryProcesses(type: string, details: Readonly<Record<string, unknown>>): Part {
  const { processes } = details;
  return (
    type === "revocation.propagated" && Array.isArray(processes) && processTables(processes.filter(isProcess))
  );
}
