/** The command line of `npm run bench`. */
import { type CommonOptions, parseCommandLine } from "./command-line.ts";
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

export interface BenchOptions extends CommonOptions {
  readonly set: Settings;
  readonly pruneIndexes: boolean;
  readonly profile: boolean;
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
  const { common, values } = parseCommandLine(args, {
    set: { type: "string", multiple: true, default: [] },
    "all-indexes": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
  });
  return {
    ...common,
    set: Object.fromEntries(values.set.map(parseSetting)),
    pruneIndexes: !values["all-indexes"],
    profile: values.profile,
  };
}
