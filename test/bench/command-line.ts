/** What the commands that measure and that break have in common: `npm run bench` and `npm run test:chaos`. */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { parseArgs, type ParseArgsConfig } from "node:util";
import { messageOf } from "../../src/runtime/thrown.ts";
import { DIST } from "./environment/signet.ts";

const ROOT = join(import.meta.dirname, "..", "..");

/** Something that such a command runs, and that `--only` names. */
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
 * Reads the arguments, those of both commands and `own` ones of the caller's.
 *
 * @throws Error that says what is wrong with the arguments
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

/** Where the JSON of a run goes. */
export function outputPath({ out }: CommonOptions, startedAt: Date, prefix = ""): string {
  return out ?? join(ROOT, "bench-results", `${prefix}${startedAt.toISOString().replaceAll(":", "-")}.json`);
}

export async function writeJson(path: string, value: unknown): Promise<void> {
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, `${JSON.stringify(value, undefined, 2)}\n`);
}

/** The commit that is measured, and whether it was changed. */
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

/** Those with one of the names, else those that begin with it; all when none is wanted. */
export function chooseNamed<T extends Named>(all: readonly T[], wanted: readonly string[]): readonly T[] {
  const chosen = new Set(
    wanted.flatMap((name) => {
      const exact = all.filter((each) => each.name === name);
      const found = exact.length > 0 ? exact : all.filter((each) => each.name.startsWith(name));
      if (found.length === 0) {
        throw new Error(`nothing begins with ${name}; --list shows what there is`);
      }
      return found;
    }),
  );
  return wanted.length === 0 ? all : all.filter((each) => chosen.has(each));
}

/** Rejects when the work takes longer than it may: something hangs. */
export async function withTimeout<T>(work: Promise<T>, name: string, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const timeout = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${name} took longer than it may`)), timeoutMs);
  });
  return await Promise.race([work, timeout]).finally(() => clearTimeout(timer));
}

/**
 * Runs one after the other; one that fails does not keep the others from running.
 *
 * @returns those that failed, by name, and why
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

/** Calls `stop`, then ends, when the command is told to end. */
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
  readonly all: readonly T[];
  readonly parse: (args: readonly string[]) => O;
  /** @returns the exit code */
  readonly run: (chosen: readonly T[], options: O) => Promise<number>;
}

async function exitCode<T extends Named, O extends CommonOptions>(command: Command<T, O>): Promise<number> {
  let options: O;
  let chosen: readonly T[];
  try {
    options = command.parse(process.argv.slice(2));
    chosen = chooseNamed(command.all, options.only);
  } catch (error) {
    log(`${messageOf(error)}\n\n${command.usage}`);
    return 2;
  }
  if (options.list) {
    command.all.forEach(({ name, about }) => log(`${name.padEnd(26)}${about}`));
    return 0;
  }
  requireBuild(options);
  return await command.run(chosen, options);
}

/** Runs the command of this process, and ends it. */
export async function runCommand<T extends Named, O extends CommonOptions>(
  command: Command<T, O>,
): Promise<never> {
  // Pipes of children that have ended would keep the process alive.
  process.exit(await exitCode(command));
}
