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
  --rig DIR           source of the load generator for the scenario \`peers\`
  --peers DIR         the peers that \`peers\` measures; docs/benchmarks.md describes both directories
  --against REF       builds another commit and measures both in turns; fails if this one is clearly worse
  --rounds N          turns of each system in \`peers\` and --against (1 to 20; default 3; 1 with --quick)
  --axes NAMES        axes of \`growth\`, comma-separated (default: all)
  --followers N       followers in \`borders\` (4 to 1,000; default 32 per core)
  --seconds N         length of each phase of \`borders\` (10 to 1,200; default 600; 20 with --quick)
  --busy N            N processes that compute meanwhile (0 to 64; default 0), as on a machine that others use
  --profile           write CPU profiles of api and worker, and a summary, beside the JSON
  --together          run api and worker as one process, \`signet all\`
  --no-build          use dist/ as it is
`;

export interface BenchOptions extends CommonOptions {
  readonly set: Settings;
  readonly pruneIndexes: boolean;
  readonly profile: boolean;
  /** Whether api and worker are one process. */
  readonly together: boolean;
  /** Commit to compare with, in place of the scenarios. */
  readonly against: string | undefined;
  /** Turns of each system in `peers` and `against`. */
  readonly rounds: number;
  readonly peers: PeersOptions;
  readonly borders: BordersOptions;
  /** Axes of the scenario `growth`; empty for all. */
  readonly axes: readonly string[];
  /** Number of processes that compute meanwhile. */
  readonly busy: number;
}

/** Options of the scenario `peers`, which is left out without both directories. */
export interface PeersOptions {
  readonly rig: string | undefined;
  readonly peers: string | undefined;
}

/** Options of the scenario `borders`. Undefined for its default. */
export interface BordersOptions {
  readonly followers: number | undefined;
  readonly seconds: number | undefined;
}

function parseCount(name: string, text: string, [least, most]: readonly [number, number]): number {
  const value = Number(text);
  if (!/^\d+$/.test(text) || value < least || value > most) {
    throw new Error(`--${name} ${text}: must be a whole number from ${least} to ${most}`);
  }
  return value;
}

function parseOptionalCount(
  name: string,
  text: string | undefined,
  limits: readonly [number, number],
): number | undefined {
  return text === undefined ? undefined : parseCount(name, text, limits);
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
    together: { type: "boolean", default: false },
    rig: { type: "string" },
    peers: { type: "string" },
    against: { type: "string" },
    rounds: { type: "string" },
    axes: { type: "string", default: "" },
    followers: { type: "string" },
    seconds: { type: "string" },
    busy: { type: "string", default: "0" },
  });
  return {
    ...common,
    set: Object.fromEntries(values.set.map(parseSetting)),
    pruneIndexes: !values["all-indexes"],
    profile: values.profile,
    together: values.together,
    against: values.against,
    rounds: parseCount("rounds", values.rounds ?? (common.quick ? "1" : "3"), [1, 20]),
    peers: { rig: values.rig, peers: values.peers },
    borders: {
      followers: parseOptionalCount("followers", values.followers, [4, 1_000]),
      seconds: parseOptionalCount("seconds", values.seconds, [10, 1_200]),
    },
    axes: values.axes.split(",").filter((name) => name !== ""),
    busy: parseCount("busy", values.busy, [0, 64]),
  };
}
