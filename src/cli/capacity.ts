/** `signet capacity`: what a load needs, by measured figures. Asks no service. */
import { Command, InvalidArgumentError } from "commander";
import { withExamples } from "./client/command.ts";
import type { CliContext } from "./context.ts";
import { type OutputOptions, printResource } from "./output.ts";

interface CapacityOptions extends OutputOptions {
  readonly rate: number;
  readonly tenants: number;
  readonly retention: number;
  readonly payload: number;
  readonly fanOut: number;
  readonly failures: number;
}

const SIZES: Readonly<Record<string, number>> = { B: 1, kB: 1_000, KiB: 1_024 };
/** As `EVENT_MAX` of the API. */
const DATA_MAX = 262_144;
/** As `SIGNET_RETENTION_DAYS`. */
const RETENTION_DAYS = { least: 8, most: 3_650 } as const;

/** Returns the parser of a number within limits. */
function within(least: number, most: number, kind: "number" | "whole number"): (text: string) => number {
  return (text) => {
    const value = /^\d{1,9}(?:\.\d{1,6})?$/.test(text) ? Number(text) : Number.NaN;
    if (!(value >= least && value <= most) || (kind === "whole number" && !Number.isInteger(value))) {
      throw new InvalidArgumentError(`It takes a ${kind} from ${least} to ${most}.`);
    }
    return value;
  };
}

function retentionDays(text: string): number {
  const { least, most } = RETENTION_DAYS;
  const days = Number(/^(\d{1,4})d$/.exec(text)?.[1] ?? Number.NaN);
  if (!(days >= least && days <= most)) {
    throw new InvalidArgumentError(`It takes whole days from ${least}d to ${most}d.`);
  }
  return days;
}

function dataSize(text: string): number {
  const [, count, unit = "B"] = /^(\d{1,7}(?:\.\d{1,3})?)(B|kB|KiB)?$/.exec(text) ?? [];
  const bytes = Number(count ?? Number.NaN) * (SIZES[unit] ?? Number.NaN);
  if (!(bytes >= 1 && bytes <= DATA_MAX)) {
    throw new InvalidArgumentError("It takes a size from 1B to 256KiB, in B, kB or KiB.");
  }
  return Math.round(bytes);
}

/** `signet capacity`. */
export function capacityCommand(context: CliContext): Command {
  const capacity = new Command("capacity")
    .description("compute what a load needs: cores, memory, disk, connections, settings")
    .requiredOption("--rate <number>", "events per second in a busy hour", within(0.01, 1_000_000, "number"))
    .option("--tenants <number>", "tenants that publish", within(1, 10_000_000, "whole number"), 10)
    .option("--retention <days>", "how long deliveries are kept, such as 30d", retentionDays, 30)
    .option("--payload <size>", "size of an event's data, such as 500B or 1KiB", dataSize, 500)
    .option("--fan-out <number>", "deliveries of an event", within(1, 10_000, "number"), 1)
    .option(
      "--failures <number>",
      "failed attempts of a delivery on average; count for disk only",
      within(0, 100, "number"),
      0,
    )
    .option("--json", "print an object as JSON")
    .action(async ({ rate, tenants, retention, payload, ...options }: CapacityOptions) => {
      // Loaded on demand, because every other command starts without them.
      const [{ planFor, planLines }, { default: figures }] = await Promise.all([
        import("./capacity-plan.ts"),
        import("./capacity-figures.json", { with: { type: "json" } }),
      ]);
      const { fanOut, failures, ...output } = options;
      const wanted = { rate, tenants, retentionDays: retention, dataBytes: payload, fanOut, failures };
      const plan = planFor(figures, wanted);
      if (output.json === true) {
        printResource(context, { ...plan, measured: figures.measured }, output);
        return;
      }
      for (const [name, text] of planLines(plan)) {
        context.stdout(`${name.padEnd(14)}${text}\n`);
      }
      const { at, commit, others_cores: others } = figures.measured;
      context.stdout(
        `${"measured".padEnd(14)}${at.slice(0, 10)}, ${commit}, other programs: ${others} cores\n`,
      );
    });
  return withExamples(
    capacity,
    "signet capacity --rate 200 --tenants 500 --retention 30d",
    "signet capacity --rate 1000 --payload 1KiB --fan-out 3 --json",
  );
}
