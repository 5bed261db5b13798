/** `signet reconcile`: proves that no delivery was lost. */
import { Command } from "commander";
import { systemClock } from "#runtime/machine-timers.ts";
import { HOUR_MS, hourStart } from "#domain/ids.ts";
import { createAdminCall, type Resource } from "./admin-client.ts";
import type { CliContext } from "./context.ts";
import { CommandError } from "./exit-codes.ts";
import { withTable } from "./list-options.ts";
import { type OutputOptions, printPage, printResource, printVerified } from "./output.ts";
import { timeOption } from "./times.ts";

/** Hours per request: each is answered within the time limit of a call, also with millions of deliveries an hour. */
const HOURS_AT_ONCE = 6;
const NUMBERS = ["accepted", "delivered", "dead_lettered", "expired", "cancelled", "open"] as const;

interface Options extends OutputOptions {
  readonly since?: string;
  readonly tenant?: string;
}

interface Reconciliation extends Resource {
  readonly adds_up: boolean;
  readonly uncounted_hours: number;
  readonly counted: Readonly<Record<string, number>>;
  readonly stored: Readonly<Record<string, number>>;
  readonly data: readonly Row[];
}

interface Row extends Resource {
  readonly tenant_id: string;
  readonly hour: string;
  readonly counted: Readonly<Record<string, number>>;
  readonly stored: Readonly<Record<string, number>>;
  readonly adds_up: boolean;
  readonly incomplete_events: readonly { readonly event_id: string; readonly missing: number }[];
}

/** Returns the spans of a few hours from `since` to now. */
function spansSince(since: string, nowMs: number): { readonly since: string; readonly until: string }[] {
  const from = hourStart(Date.parse(since));
  const count = Math.max(1, Math.ceil((nowMs + 1 - from) / (HOURS_AT_ONCE * HOUR_MS)));
  return Array.from({ length: count }, (_, index) => {
    const start = from + index * HOURS_AT_ONCE * HOUR_MS;
    const end = Math.min(start + HOURS_AT_ONCE * HOUR_MS, Math.ceil((nowMs + 1) / HOUR_MS) * HOUR_MS);
    return { since: new Date(start).toISOString(), until: new Date(end).toISOString() };
  });
}

function sumOf(parts: readonly Readonly<Record<string, number>>[]): Record<string, number> {
  return Object.fromEntries(
    NUMBERS.map((name) => [name, parts.reduce((sum, part) => sum + (part[name] ?? 0), 0)]),
  );
}

/** `signet reconcile`. */
export function reconcileCommand(context: CliContext): Command {
  const call = createAdminCall(context);
  const command = withTable(new Command("reconcile"))
    .description("prove that no delivery was lost: compare what was accepted with what is stored")
    .addOption(
      timeOption("--since <time>", "deliveries accepted since then").default(undefined, "24 hours ago"),
    )
    .option("--tenant <id>", "one tenant only; shows each of its hours")
    .option("--json", "print the API's objects as JSON");
  return command.action(async ({ since, tenant, ...output }: Options) => {
    const nowMs = systemClock.now();
    const parts: Reconciliation[] = [];
    for (const span of spansSince(since ?? new Date(nowMs - 23 * HOUR_MS).toISOString(), nowMs)) {
      const query = new URLSearchParams({ ...span, ...(tenant === undefined ? {} : { tenant_id: tenant }) });
      parts.push((await call("GET", `/reconciliation?${query.toString()}`)) as Reconciliation);
    }
    const rows = parts.flatMap(({ data }) => data);
    const stored = sumOf(parts.map((part) => part.stored));
    const addsUp = parts.every((part) => part.adds_up);
    const uncounted = parts.reduce((sum, part) => sum + part.uncounted_hours, 0);
    if (output.json === true) {
      const counted = sumOf(parts.map((part) => part.counted));
      printResource(
        context,
        { adds_up: addsUp, uncounted_hours: uncounted, counted, stored, data: rows },
        output,
      );
    } else if (rows.length > 0) {
      const data = rows.map(({ stored: now, counted, ...row }) => ({
        ...row,
        ...now,
        counted: counted["accepted"],
      }));
      printPage(context, { data }, ["tenant_id", "hour", "adds_up", "counted", ...NUMBERS], output);
    }
    if (!addsUp) {
      const events = rows.flatMap(({ incomplete_events: found }) => found.map(({ event_id: id }) => id));
      throw new CommandError(
        `the deliveries do not add up in ${rows.filter((row) => !row.adds_up).length} hours${
          events.length === 0 ? "" : `; events with missing deliveries: ${events.join(" ")}`
        }`,
      );
    }
    if (uncounted > 0) {
      throw new CommandError(
        `${uncounted} hours from before the upgrade are still being counted: repeat this when \`signet doctor\` says that every stored delivery is counted`,
      );
    }
    if (output.json !== true) {
      printVerified(context, "every accepted delivery is accounted for", stored, output);
    }
  });
}
