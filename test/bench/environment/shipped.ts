/** Settings of PostgreSQL and Temporal as the compose file has them: what is shipped is measured. */
import { readFileSync } from "node:fs";
import { parse } from "yaml";
import type { ComposeFile } from "#test/support/compose-file.ts";

const file = parse(readFileSync(new URL("../../../docker-compose.yml", import.meta.url), "utf8"), {
  merge: true,
  maxAliasCount: -1,
}) as ComposeFile;

/** Settings that belong to the container: certificates and files. */
const OF_CONTAINER = /^(?:ssl|hba_file)/;

/** PostgreSQL's settings by name. */
export const POSTGRES_SETTINGS: Readonly<Record<string, string>> = Object.fromEntries(
  (file.services["postgres"]?.command ?? [])
    .map((argument) => /^--(\w+)=(.*)$/.exec(argument)?.slice(1) ?? [])
    .filter(([name]) => name !== undefined && !OF_CONTAINER.test(name)) as [string, string][],
);

/** Node's options of the process that has all parts. */
export const TOGETHER_NODE_OPTIONS = file.services["signet"]?.environment?.["NODE_OPTIONS"] ?? "";

/** The number of Temporal's history shards. */
export const HISTORY_SHARDS = Number(file.services["temporal"]?.environment?.["NUM_HISTORY_SHARDS"]);

const DEFAULT_CPU_SHARES = 1_024;
/** Each step of the nice value changes the weight by this factor (sched(7)). */
const NICE_FACTOR = 1.25;
/** The nice value with about the weight that Temporal's server has beside the other services. */
export const TEMPORAL_NICE = Math.round(
  Math.log(DEFAULT_CPU_SHARES / (file.services["temporal"]?.cpu_shares ?? DEFAULT_CPU_SHARES)) /
    Math.log(NICE_FACTOR),
);

/** Temporal's dynamic configuration, as YAML. */
export const DYNAMIC_CONFIG = readFileSync(
  new URL("../../../compose/temporal-dynamic-config.yaml", import.meta.url),
  "utf8",
);
