/** The command line of `npm run test:chaos`. */
import { parseArgs } from "node:util";

export const USAGE = `npm run test:chaos -- [options]

  --only NAMES        cases by name or beginning of a name, comma-separated (--list shows them)
  --quick             a fifth of the events, and stops of 6 s instead of 15 s
  --list              names the cases and ends
  --out FILE          where the JSON goes (default bench-results/chaos-<time>.json)
  --postgres KIND     system (Debian's packages, where installed; default) or embedded
  --no-build          takes dist/ as it is
`;

export interface ChaosOptions {
  readonly only: readonly string[];
  readonly quick: boolean;
  readonly list: boolean;
  readonly out: string | undefined;
  readonly postgres: "system" | "embedded";
  readonly build: boolean;
}

/** @throws Error that says what is wrong with the arguments */
export function parseOptions(args: readonly string[]): ChaosOptions {
  const { values } = parseArgs({
    args: [...args],
    options: {
      only: { type: "string", default: "" },
      quick: { type: "boolean", default: false },
      list: { type: "boolean", default: false },
      out: { type: "string" },
      postgres: { type: "string", default: "system" },
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
    postgres,
    build: !values["no-build"],
  };
}
