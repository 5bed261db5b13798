/** Writes the JSON of a run and prints its table. */
import { describeCommit, writeJson } from "../command-line.ts";
import { describeServer } from "../environment/postgres.ts";
import { HISTORY_SHARDS } from "../environment/shipped.ts";
import { PLUGIN } from "../environment/temporal-config.ts";
import { TEMPORAL_SERVER_VERSION } from "../environment/temporal-programs.ts";
import type { BenchOptions } from "../options.ts";
import type { Bench } from "../scenarios/bench.ts";
import { describeMachine } from "./machine.ts";
import { markdownTable } from "./print.ts";
import { checkTargets } from "./targets.ts";

export interface ReportParts {
  readonly bench: Bench;
  readonly options: BenchOptions;
  /** Error message of each failed scenario. */
  readonly failures: Readonly<Record<string, string>>;
  readonly startedAt: Date;
  readonly out: string;
}

function describeTemporal({ stack }: Bench, options: BenchOptions): Readonly<Record<string, unknown>> {
  return stack.temporal.process === undefined
    ? { address: stack.temporal.address }
    : {
        server: TEMPORAL_SERVER_VERSION,
        plugin: PLUGIN,
        history_shards: HISTORY_SHARDS,
        visibility_indexes: options.pruneIndexes ? "pruned (compose/prune-visibility-indexes.sql)" : "all",
      };
}

/** Members of findings that are long, so they are in the file only. */
const IN_FILE: ReadonlySet<string> = new Set(["figures", "runs"]);

/** Prints and writes all measurements. */
export async function writeReport({ bench, options, failures, startedAt, out }: ReportParts): Promise<void> {
  const { stack, measurements, findings } = bench;
  const targets = checkTargets({ measurements, findings });
  const report = {
    format: 1,
    started_at: startedAt.toISOString(),
    ended_at: new Date().toISOString(),
    commit: describeCommit(),
    quick: options.quick,
    machine: describeMachine(stack.directory),
    postgres: await describeServer(stack.postgres.adminUrl),
    temporal: describeTemporal(bench, options),
    raised: options.set,
    busy_processes: options.busy,
    targets,
    measurements,
    findings,
    failures,
  };
  await writeJson(out, report);
  bench.log(`\n${markdownTable(measurements)}\n`);
  for (const [name, finding] of Object.entries(findings)) {
    bench.log(
      `${name}: ${JSON.stringify(finding, (key, value: unknown) => (IN_FILE.has(key) ? undefined : value))}`,
    );
  }
  for (const { target, wanted, got, met } of targets) {
    bench.log(`${met ? "met   " : "MISSED"}  ${target}: ${got} (${wanted})`);
  }
  bench.log(`written to ${out}`);
}
