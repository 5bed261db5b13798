/** Runs the token load as a process of its own and reads what it found. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const PROGRAM = fileURLToPath(new URL("./token-load-process.ts", import.meta.url));
const PATIENCE_MS = 60_000;
const OUTPUT_MAX = 256 * 1_024 * 1_024;

export interface TokenLoadPlan {
  readonly host: string;
  readonly port: number;
  readonly path: string;
  readonly headers: readonly string[];
  readonly body: string;
  readonly connections: number;
  /** Not counted. */
  readonly warmUpSeconds: number;
  readonly seconds: number;
  /** An open loop at this rate; absent: a closed loop. */
  readonly perSecond?: number;
  /** A new connection for every request. */
  readonly fresh?: boolean;
  readonly tls?: { readonly caFile: string; readonly keyFile: string; readonly certFile: string };
}

export interface TokenLoadResult {
  readonly statuses: Readonly<Record<string, number>>;
  /** Milliseconds. */
  readonly latencies: readonly number[];
  readonly seconds: number;
}

/** @throws when any answer was not a 200: a rate that counts refusals would be a lie */
export async function runTokenLoad(plan: TokenLoadPlan): Promise<TokenLoadResult> {
  const { stdout } = await promisify(execFile)(
    process.execPath,
    ["--import", "tsx", PROGRAM, JSON.stringify(plan)],
    {
      maxBuffer: OUTPUT_MAX,
      timeout: (plan.warmUpSeconds + plan.seconds) * 1_000 + PATIENCE_MS,
    },
  );
  const result = JSON.parse(stdout) as TokenLoadResult;
  const refused = Object.keys(result.statuses).filter((status) => status !== "200");
  if (refused.length > 0 || result.latencies.length === 0) {
    throw new Error(`the token endpoint answered ${JSON.stringify(result.statuses)}`);
  }
  return result;
}
