/** The command line of `npm run bench`. */
import { type CommonOptions, parseCommandLine } from "./command-line.ts";
import type { Settings } from "./environment/signet.ts";

export const USAGE = `npm run bench -- [options]

  --only NAMES        scenarios by name or beginning of a name, comma-separated (--list shows them)
  --quick             a tenth of the events: checks that it works, not how fast
  --list              list the scenarios and exit
  --out FILE          where the JSON goes (default bench-results/<time>.json)
  --set NAME=VALUE    a setting of Signet for every scenario; listed in the JSON; may be repeated
  --postgres KIND     system (Debian's packages, where installed; default) or embedded
  --all-indexes       keep all visibility indexes of Temporal's schema
  --profile           write CPU profiles of api and worker, and a summary, beside the JSON
  --no-build          use dist/ as it is
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

/** @throws Error if an argument is invalid */
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
