/** The independent load generator: publisher and sink of any webhook sender, in one process. See docs/benchmarks.md. */
import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Janitor } from "../environment/janitor.ts";

const run = promisify(execFile);

const BUILD_TIMEOUT_MS = 5 * 60_000;
const OUTPUT_MAX_BYTES = 16 * 1024 * 1024;

/** A target file of the rig, which has more fields than the bench reads. */
export interface RigTarget {
  readonly name: string;
  /** URL that answers below 500 when the server is ready. */
  readonly health: string;
  readonly procs: readonly RigProcess[];
  readonly [field: string]: unknown;
}

/** The root of a process tree whose CPU counts. */
export interface RigProcess {
  readonly name: string;
  readonly pidfile: string;
}

/** What every target of a comparison shares. */
export interface RigLoad {
  /** Address on which the rig receives deliveries. */
  readonly sink: string;
  readonly tenants: number;
  /** Beginning of the tenants' names. */
  readonly tenant_prefix: string;
  /** Size of each event's data, in bytes. */
  readonly size: number;
}

/** A result line of the rig's modes `open` and `sat`. */
export interface RigResult {
  readonly accepted: number;
  readonly rejected: number;
  /** Accepted, but never answered 200. */
  readonly lost: number;
  /** Answered 200 more than once. */
  readonly duplicated: number;
  readonly publish_per_s: number;
  readonly e2e_per_s: number;
  readonly lat_ms: Readonly<Record<"p50" | "p90" | "p99" | "max", number>>;
  readonly ack_ms: Readonly<Record<"p50" | "p99" | "max", number>>;
  readonly cpu_s_per_1000: number;
  readonly cpu_s_per_1000_settled: number;
  readonly pss_mib_total: number;
  /** CPU-seconds until the last arrival, by process tree; `idle_cpu_frac` is the share of a core just before. */
  readonly procs: Readonly<Record<string, { readonly cpu_s: number; readonly idle_cpu_frac: number }>>;
}

const NUMBERS = [
  "accepted",
  "rejected",
  "lost",
  "duplicated",
  "publish_per_s",
  "e2e_per_s",
  "cpu_s_per_1000",
  "cpu_s_per_1000_settled",
  "pss_mib_total",
] as const;

/**
 * Parses the rig's output, whose last line is the result.
 *
 * @throws Error if it has no result, or one in which a figure is absent, as when nothing arrived
 */
export function parseRigResult(output: string): RigResult {
  const line = output.trimEnd().split("\n").at(-1) ?? "";
  let result: Record<string, unknown>;
  try {
    result = JSON.parse(line) as Record<string, unknown>;
  } catch {
    throw new Error(`the rig printed no result: ${line.slice(0, 500)}`);
  }
  const absent = NUMBERS.filter((name) => typeof result[name] !== "number");
  const groups = ["lat_ms", "ack_ms", "procs"].filter((name) => typeof result[name] !== "object");
  if (absent.length + groups.length > 0) {
    throw new Error(`the rig's result has no ${[...absent, ...groups].join(", ")}: ${line.slice(0, 500)}`);
  }
  return result as unknown as RigResult;
}

/** Builds the rig from its directory. Returns the program's path. */
export async function buildRig(source: string, directory: string): Promise<string> {
  const program = join(directory, "rig");
  await run("go", ["build", "-buildvcs=false", "-o", program, "."], {
    cwd: source,
    timeout: BUILD_TIMEOUT_MS,
  });
  return program;
}

/**
 * Writes a target file, and the values of its templates by tenant, which the rig's mode `setup` would write.
 *
 * @returns the file's path
 */
export async function writeTarget(
  directory: string,
  target: RigTarget & RigLoad,
  values?: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Promise<string> {
  const path = join(directory, `${target.name}.rig.json`);
  await writeFile(path, JSON.stringify(target, undefined, 1), { mode: 0o600 });
  if (values !== undefined) {
    await writeFile(`${path}.vars`, JSON.stringify(values), { mode: 0o600 });
  }
  return path;
}

/** Runs the rig to its end. Returns its output. @throws Error with its output if it fails or takes too long */
export async function runRig(
  program: string,
  args: readonly string[],
  { janitor, timeoutMs }: { readonly janitor: Janitor; readonly timeoutMs: number },
): Promise<string> {
  const running = run(program, [...args], { timeout: timeoutMs, maxBuffer: OUTPUT_MAX_BYTES });
  if (running.child.pid !== undefined) {
    janitor.mind(running.child.pid, "SIGKILL");
  }
  const { stdout } = await running.catch((error: unknown) => {
    const { stdout: out = "", stderr = "" } = error as { stdout?: string; stderr?: string };
    throw new Error(`rig ${args.join(" ")} failed: ${stderr.slice(-1_000)}${out.slice(-1_000)}`, {
      cause: error,
    });
  });
  return stdout;
}
