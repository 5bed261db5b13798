/** Command-line handling shared by `npm run bench` and `npm run test:chaos`. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { messageOf } from "#runtime/thrown.ts";
import { DIST } from "./environment/signet.ts";

const ROOT = join(import.meta.dirname, "..", "..");

/** A scenario or case, which `--only` selects by name. */
export interface Named {
  readonly name: string;
  readonly about: string;
}

export interface CommonOptions {
  readonly only: readonly string[];
  readonly quick: boolean;
  readonly list: boolean;
  readonly out: string | undefined;
  readonly postgres: "system" | "embedded";
  readonly build: boolean;
}

const COMMON = {
  only: { type: "string", default: "" },
  quick: { type: "boolean", default: false },
  list: { type: "boolean", default: false },
  out: { type: "string" },
  postgres: { type: "string", default: "system" },
  "no-build": { type: "boolean", default: false },
} as const;

type Values<T extends ParseArgsConfig["options"]> = ReturnType<typeof parseArgs<{ options: T }>>["values"];

/**
 * Parses the options of both commands and the caller's `own` options.
 *
 * @throws Error if an argument is invalid
 */
export function parseCommandLine<T extends NonNullable<ParseArgsConfig["options"]>>(
  args: readonly string[],
  own: T,
): {
  readonly common: CommonOptions;
  readonly values: Values<T>;
} {
  const { values } = parseArgs({ args: [...args], options: { ...own, ...COMMON } });
  const { only, quick, list, out, postgres, "no-build": noBuild } = values as Values<typeof COMMON>;
  if (postgres !== "system" && postgres !== "embedded") {
    throw new Error("--postgres must be system or embedded");
  }
  return {
    common: {
      only: only.split(",").filter((name) => name !== ""),
      quick,
      list,
      out,
      postgres,
      build: !noBuild,
    },
    values,
  };
}

export function log(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Returns the path of a run's JSON report. */
export function outputPath({ out }: CommonOptions, startedAt: Date, prefix = ""): string {
  return out ?? join(ROOT, "bench-results", `${prefix}${startedAt.toISOString().replaceAll(":", "-")}.json`);
}

export async function writeJson(path: string, value: unknown): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** Returns the measured commit, with a suffix if the work tree is dirty. */
export function describeCommit(): string {
  const { stdout } = spawnSync("git", ["describe", "--always", "--dirty"], { encoding: "utf8" });
  return (stdout ?? "").trim() || "unknown";
}

function requireBuild({ build }: CommonOptions): void {
  if (!build && existsSync(join(DIST, "src", "processes", "main.js"))) {
    return;
  }
  log("building dist/");
  const { status } = spawnSync("npm", ["run", "--silent", "build"], { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) {
    throw new Error("npm run build failed");
  }
}

/** Selects by exact name, else by prefix. Returns everything if `wanted` is empty. */
export function chooseNamed<T extends Named>(all: readonly T[], wanted: readonly string[]): readonly T[] {
  const chosen = new Set(
    wanted.flatMap((name) => {
      const exact = all.filter((each) => each.name === name);
      const found = exact.length > 0 ? exact : all.filter((each) => each.name.startsWith(name));
      if (found.length === 0) {
        throw new Error(`no name begins with ${name}; see --list`);
      }
      return found;
    }),
  );
  return wanted.length === 0 ? all : all.filter((each) => chosen.has(each));
}

/** Rejects if the work does not finish within `timeoutMs`. */
export async function withTimeout<T>(work: Promise<T>, name: string, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} timed out`)), timeoutMs);
  });
  return await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/**
 * Runs one after the other. A failure does not stop the rest.
 *
 * @returns the error message of each failure, by name
 */
export async function runEach<T extends Named>(
  chosen: readonly T[],
  run: (each: T) => Promise<void>,
): Promise<Record<string, string>> {
  const failures: Record<string, string> = {};
  for (const each of chosen) {
    try {
      await run(each);
    } catch (error) {
      failures[each.name] = messageOf(error);
      log(`${each.name} failed: ${error instanceof Error ? (error.stack ?? "") : String(error)}`);
    }
  }
  return failures;
}

/** Calls `stop` and exits on SIGINT, SIGTERM or SIGHUP. */
export function stopOnSignals(stop: () => Promise<void>): void {
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.once(signal, () => {
      log("\nstopping");
      void stop().finally(() => process.exit(130));
    });
  }
}

export interface Command<T extends Named, O extends CommonOptions> {
  readonly usage: string;
  readonly all: (options: O) => readonly T[];
  readonly parse: (args: readonly string[]) => O;
  /** @returns the exit code */
  readonly run: (chosen: readonly T[], options: O) => Promise<number>;
}

async function exitCode<T extends Named, O extends CommonOptions>(command: Command<T, O>): Promise<number> {
  let options: O;
  let all: readonly T[];
  let chosen: readonly T[];
  try {
    options = command.parse(process.argv.slice(2));
    all = command.all(options);
    chosen = chooseNamed(all, options.only);
  } catch (error) {
    log(`${messageOf(error)}\n\n${command.usage}`);
    return 2;
  }
  if (options.list) {
    all.forEach(({ name, about }) => log(`${name.padEnd(26)}${about}`));
    return 0;
  }
  requireBuild(options);
  return await command.run(chosen, options);
}

/** Runs a command and exits the process with its exit code. */
export async function runCommand<T extends Named, O extends CommonOptions>(
  command: Command<T, O>,
): Promise<never> {
  // Open pipes of ended children would keep the process alive.
  process.exit(await exitCode(command));
}
