/** Runs the HTTP load against one address in a separate process and returns its result. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PROGRAM = fileURLToPath(new URL("./http-load-process.ts", import.meta.url));
const TIMEOUT_MARGIN_MS = 60_000;
const OUTPUT_MAX = 256 * 1_024 * 1_024;

export interface HttpLoadPlan {
  readonly host: string;
  readonly port: number;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly headers: readonly string[];
  readonly body: string;
  /** File with one Authorization value per line; requests use them in turn. */
  readonly authorizationsFile?: string;
  /** Ends when every line was used once, even before `seconds` have passed. */
  readonly once?: boolean;
  readonly connections: number;
  /** Warm-up, in seconds, which is not counted. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** Rate of an open loop; if absent, a closed loop. */
  readonly perSecond?: number;
  /** Opens a new connection for every request. */
  readonly fresh?: boolean;
  /** Statuses other than 200 that are counted and do not end the run. */
  readonly countedStatuses?: readonly string[];
  readonly tls?: { readonly caFile: string; readonly keyFile: string; readonly certFile: string };
}

export interface HttpLoadResult {
  readonly statuses: Readonly<Record<string, number>>;
  /** In milliseconds. */
  readonly latencies: readonly number[];
  readonly seconds: number;
}

/** @throws Error on any other status than those allowed: a rate that includes refusals would be wrong */
export async function runHttpLoad(plan: HttpLoadPlan): Promise<HttpLoadResult> {
  const { stdout } = await promisify(execFile)(process.execPath, [PROGRAM, JSON.stringify(plan)], {
    maxBuffer: OUTPUT_MAX,
    timeout: (plan.warmUpSeconds + plan.seconds) * 1_000 + TIMEOUT_MARGIN_MS,
  });
  const result = JSON.parse(stdout) as HttpLoadResult;
  const allowed = ["200", ...(plan.countedStatuses ?? [])];
  const refused = Object.keys(result.statuses).filter((status) => !allowed.includes(status));
  if (refused.length > 0 || result.latencies.length === 0) {
    throw new Error(`${plan.path} answered ${JSON.stringify(result.statuses)}`);
  }
  return result;
}
