/** Cuts V8 CPU profiles (`node --cpu-prof`) to the measured time and sums them up by function and by package. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

interface ProfileNode {
  readonly id: number;
  readonly callFrame: {
    readonly functionName: string;
    readonly url: string;
    readonly lineNumber: number;
  };
}

interface CpuProfile {
  readonly nodes: readonly ProfileNode[];
  /** Microseconds of CLOCK_MONOTONIC on Linux, the bench's common clock. */
  readonly startTime: number;
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

/** A measured time window, in milliseconds of the common clock. */
export interface TimeWindow {
  readonly fromMs: number;
  readonly toMs: number;
}

export interface ProfileSummary {
  readonly file: string;
  /** Time that JavaScript ran, in milliseconds, including garbage collection. */
  readonly busyMs: number;
  readonly windowMs: number;
  /** Self time as a percentage of the busy time, largest first. */
  readonly functions: readonly (readonly [name: string, percent: number])[];
  readonly packages: readonly (readonly [name: string, percent: number])[];
}

const NOT_BUSY = new Set(["(idle)", "(program)", "(root)"]);
const FUNCTIONS_SHOWN = 40;
const PACKAGES_SHOWN = 25;

function place(url: string): string {
  const withinModules = url.lastIndexOf("/node_modules/");
  if (withinModules >= 0) {
    return url.slice(withinModules + "/node_modules/".length);
  }
  const withinDist = url.lastIndexOf("/dist/");
  return withinDist >= 0 ? url.slice(withinDist + "/dist/".length) : url;
}

/** Returns the npm package, the source folder, or Node itself. */
function packageOf({ functionName, url }: ProfileNode["callFrame"]): string {
  if (url === "") {
    return functionName === "(garbage collector)" ? functionName : "native";
  }
  const parts = place(url).split("/");
  if (url.startsWith("node:")) {
    return parts.slice(0, 2).join("/");
  }
  return parts[0]?.startsWith("@") === true || url.includes("/dist/")
    ? parts.slice(0, 2).join("/")
    : (parts[0] ?? url);
}

function nameOf({ functionName, url, lineNumber }: ProfileNode["callFrame"]): string {
  return url === ""
    ? functionName
    : `${functionName === "" ? "(anonymous)" : functionName} ${place(url)}:${lineNumber + 1}`;
}

function largest(
  times: ReadonlyMap<string, number>,
  total: number,
  count: number,
): (readonly [string, number])[] {
  return [...times]
    .sort(([, a], [, b]) => b - a)
    .slice(0, count)
    .map(([name, time]) => [name, Number(((time / total) * 100).toFixed(2))] as const);
}

function summarise(file: string, profile: CpuProfile, windows: readonly TimeWindow[]): ProfileSummary {
  const frames = new Map(profile.nodes.map(({ id, callFrame }) => [id, callFrame]));
  const functions = new Map<string, number>();
  const packages = new Map<string, number>();
  let busy = 0;
  let at = profile.startTime;
  for (const [index, sample] of profile.samples.entries()) {
    const delta = profile.timeDeltas[index] ?? 0;
    at += delta;
    const frame = frames.get(sample);
    const measured = windows.some(({ fromMs, toMs }) => at >= fromMs * 1_000 && at <= toMs * 1_000);
    if (!measured || frame === undefined || NOT_BUSY.has(frame.functionName)) {
      continue;
    }
    busy += delta;
    functions.set(nameOf(frame), (functions.get(nameOf(frame)) ?? 0) + delta);
    packages.set(packageOf(frame), (packages.get(packageOf(frame)) ?? 0) + delta);
  }
  return {
    file,
    busyMs: Math.round(busy / 1_000),
    windowMs: Math.round(windows.reduce((total, { fromMs, toMs }) => total + toMs - fromMs, 0)),
    functions: largest(functions, busy, FUNCTIONS_SHOWN),
    packages: largest(packages, busy, PACKAGES_SHOWN),
  };
}

/** Summarizes every profile below a directory, except those that were idle in all windows. */
export async function summariseProfiles(
  directory: string,
  windows: readonly TimeWindow[],
): Promise<readonly ProfileSummary[]> {
  const files = await readdir(directory, { recursive: true }).catch(() => []);
  const summaries: ProfileSummary[] = [];
  for (const file of files.filter((name) => name.endsWith(".cpuprofile"))) {
    const profile = JSON.parse(await readFile(join(directory, file), "utf8")) as CpuProfile;
    summaries.push(summarise(file, profile, windows));
  }
  return summaries.filter(({ busyMs }) => busyMs > 0);
}

/** Formats a summary as text. */
export function profileText({ file, busyMs, windowMs, functions, packages }: ProfileSummary): string {
  const lines = (rows: ProfileSummary["functions"]): string[] =>
    rows.map(([name, percent]) => `  ${percent.toFixed(2).padStart(6)} %  ${name}`);
  return [
    `${file}: ${busyMs} ms busy in ${windowMs} ms`,
    " by package",
    ...lines(packages),
    " by function",
    ...lines(functions),
    "",
  ].join("\n");
}
