/** The command line of `npm run bench`. */
import { parseArgs } from "node:util";
import type { Settings } from "./environment/signet.ts";

export const USAGE = `npm run bench -- [options]

  --only NAMES        scenarios by name or beginning of a name, comma-separated (--list shows them)
  --quick             a tenth of the events: whether it works, not how fast it is
  --list              names the scenarios and ends
  --out FILE          where the JSON goes (default bench-results/<time>.json)
  --set NAME=VALUE    a setting of Signet for every scenario; listed in the JSON; may be repeated
  --postgres KIND     system (Debian's packages, where installed; default) or embedded
  --all-indexes       leaves Temporal's visibility indexes as its schema makes them
  --profile           CPU profiles of api and worker beside the JSON, and their summary
  --no-build          takes dist/ as it is
`;

export interface BenchOptions {
  readonly only: readonly string[];
  readonly quick: boolean;
  readonly list: boolean;
  readonly out: string | undefined;
  readonly set: Settings;
  readonly postgres: "system" | "embedded";
  readonly pruneIndexes: boolean;
  readonly profile: boolean;
  readonly build: boolean;
}

function parseSetting(text: string): [string, string] {
  const [, name, value] = /^([A-Z][A-Z0-9_]*)=(.*)$/s.exec(text) ?? [];
  if (name === undefined || value === undefined) {
    throw new Error(`--set ${text}: must be NAME=VALUE`);
  }
  return [name, value];
}

/** @throws Error that says what is wrong with the arguments */
export function parseOptions(args: readonly string[]): BenchOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string", default: "" },
      quick: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      out: { type: "string" },
      set: { type: "string", multiple: true, default: [] },
      postgres: { type: "string", default: "system" },
      "all-indexes": { type: "boolean", default: false },
      profile: { type: "boolean", default: false },
      "no-build": { type: "boolean", default: false },
    },
  });
  const { postgres } = values;
  if (postgres !== "system" && postgres !== "embedded") {
    throw new Error("--postgres must be system or embedded");
  }
  return {
    only: values.only.split(",").filter((name) => name !== ""),
    quick: values.quick,
    list: values.list,
    out: values.out,
    set: Object.fromEntries(values.set.map(parseSetting)),
    postgres,
    pruneIndexes: !values["all-indexes"],
    profile: values.profile,
    build: !values["no-build"],
  };
}
