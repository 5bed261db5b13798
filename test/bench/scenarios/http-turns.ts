/** Compares servers under the same HTTP load, in turns. The machine is shared, so each server's median counts. */
import { join } from "node:path";
import { logTail, type ServerProcess, startServer } from "#processes/embedded/server-process.ts";
import { untilReady } from "../environment/until-ready.ts";
import { type HttpLoadPlan, type HttpLoadResult, runHttpLoad } from "../load/http-load.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import type { Bench } from "./bench.ts";

export const CONNECTIONS = 32;
export const TURNS = 3;
const WARM_UP_SECONDS = 3;
const SECONDS = 10;

export interface Subject {
  readonly plan: Omit<HttpLoadPlan, "warmUpSeconds" | "seconds" | "connections">;
  /** Processes whose CPU counts. */
  readonly roots: Readonly<Record<string, number>>;
}

export interface Turn {
  readonly perSecond: number;
  readonly cpuPerThousand: number;
  readonly latencyMs: ReturnType<typeof percentiles>;
  readonly statuses: HttpLoadResult["statuses"];
}

/** Runs one turn of a subject: a closed loop on 32 connections unless `shape` differs. */
export async function turn(bench: Bench, subject: Subject, shape: Partial<HttpLoadPlan> = {}): Promise<Turn> {
  const plan = {
    connections: CONNECTIONS,
    warmUpSeconds: bench.seconds(WARM_UP_SECONDS),
    seconds: bench.seconds(SECONDS),
    ...subject.plan,
    ...shape,
  };
  const total = (): number => Object.values(cpuSeconds(subject.roots)).reduce((sum, value) => sum + value, 0);
  const before = total();
  const { latencies, statuses, seconds } = await runHttpLoad(plan);
  // This includes the warm-up's CPU, so scale by the measured share of the time.
  const cpuS = (total() - before) * (plan.seconds / (plan.seconds + plan.warmUpSeconds));
  const { p50, p95, p99, max } = percentiles(latencies);
  return {
    perSecond: round(latencies.length / seconds, 0),
    cpuPerThousand: round((cpuS / latencies.length) * 1_000, 3),
    latencyMs: { p50: round(p50, 3), p95: round(p95, 3), p99: round(p99, 3), max: round(max, 2) },
    statuses,
  };
}

/** Returns the median turn by `value`, which defaults to its rate. */
export function median(
  turns: readonly Turn[],
  value: (turn: Turn) => number = ({ perSecond }) => perSecond,
): Turn {
  const sorted = turns.toSorted((a, b) => value(a) - value(b));
  const middle = sorted[Math.floor(sorted.length / 2)];
  if (middle === undefined) {
    throw new Error("there are no turns");
  }
  return middle;
}

/** Starts a baseline program, which prints `listening` when it is ready. */
export async function startYardstick(
  bench: Bench,
  name: string,
  args: readonly string[],
): Promise<ServerProcess> {
  const logFile = join(bench.stack.directory, `${name}.log`);
  const server = await startServer({
    command: process.execPath,
    args: [...args],
    cwd: process.cwd(),
    env: { PATH: "/usr/bin:/bin", NODE_ENV: "production" },
    logFile,
  });
  bench.stack.janitor.mind(server.pid, "SIGTERM");
  await untilReady(name, { server, logFile }, async () => logTail(logFile).includes("listening"));
  return server;
}
