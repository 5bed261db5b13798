/** Runs the load on one address as a process of its own and reads what it found. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PROGRAM = fileURLToPath(new URL("./http-load-process.ts", import.meta.url));
const PATIENCE_MS = 60_000;
const OUTPUT_MAX = 256 * 1_024 * 1_024;

export interface HttpLoadPlan {
  readonly host: string;
  readonly port: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: readonly string[];
  readonly body: string;
  /** A value of Authorization in each line: requests take one after the other. */
  readonly authorizationsFile?: string;
  /** Ends when every line was used once, also before the time is over. */
  readonly once?: boolean;
  readonly connections: number;
  /** Not counted. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** An open loop at this rate; absent: a closed loop. */
  readonly perSecond?: number;
  /** A new connection for every request. */
  readonly fresh?: boolean;
  /** Other statuses than 200 that are counted and do not end the run. */
  readonly countedStatuses?: readonly string[];
  readonly tls?: { readonly caFile: string; readonly keyFile: string; readonly certFile: string };
}

export interface HttpLoadResult {
  readonly statuses: Readonly<Record<string, number>>;
  /** Milliseconds. */
  readonly latencies: readonly number[];
  readonly seconds: number;
}

/** @throws when any answer had another status than those allowed: a rate that counts refusals would be a lie */
export async function runHttpLoad(plan: HttpLoadPlan): Promise<HttpLoadResult> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--import", "tsx", PROGRAM, JSON.stringify(plan)],
    {
      maxBuffer: OUTPUT_MAX,
      timeout: (plan.warmUpSeconds + plan.seconds) * 1_000 + PATIENCE_MS,
    },
  );
  const result = JSON.parse(stdout) as HttpLoadResult;
  const allowed = ["200", ...(plan.countedStatuses ?? [])];
  const refused = Object.keys(result.statuses).filter((status) => !allowed.includes(status));
  if (refused.length > 0 || result.latencies.length === 0) {
    throw new Error(`${plan.path} answered ${JSON.stringify(result.statuses)}`);
  }
  return result;
}
