/** Replays open workflows on this build before its deployment, to find those that would fail in production. */
import type { Client, WorkflowExecutionInfo } from "@temporalio/client";
import type { DataConverter } from "@temporalio/common";
import { Worker } from "@temporalio/worker";
import { WORKFLOW_TYPES } from "#workflows/messages.ts";
import { loadWorkflowBundle } from "#temporal/bundle.ts";
import { OPEN } from "#temporal/open-workflow.ts";
import { withoutStackTraces } from "#temporal/workflow-threads.ts";
import { DAY_MS } from "#domain/ids.ts";
import { failureOf } from "#runtime/thrown.ts";
import type { Finding } from "./checks.ts";

export interface ReplayFailure {
  readonly workflowId: string;
  readonly reason: string;
}

type Run = Pick<WorkflowExecutionInfo, "workflowId" | "runId" | "startTime">;

/** Types whose runs last. The rarest come first, and leave the rest of their share to the others. */
const TYPES = [
  WORKFLOW_TYPES.replayDeadLetters,
  WORKFLOW_TYPES.replayDeliveries,
  WORKFLOW_TYPES.verifyEndpoint,
  WORKFLOW_TYPES.deadLetter,
  WORKFLOW_TYPES.deliver,
] as const;
/** The start of the oldest runs is searched within this time, to a second. Few are older: paused jobs. */
const SEARCHED_MS = 30 * DAY_MS;
const PRECISION_MS = 1_000;

/** Returns up to `limit` runs, the newest first: visibility knows no other order. */
async function newest(client: Client, query: string, limit: number): Promise<Run[]> {
  const runs: Run[] = [];
  if (limit > 0) {
    for await (const { workflowId, runId, startTime } of client.workflow.list({ query })) {
      runs.push({ workflowId, runId, startTime });
      if (runs.length === limit) {
        break;
      }
    }
  }
  return runs;
}

/**
 * Returns the `limit` oldest of the runs, the last of which has started at `lastMs`. Searches for the time by which so
 * many had started, because lists begin at the other end.
 */
async function oldest(
  client: Client,
  query: string,
  { limit, lastMs }: { readonly limit: number; readonly lastMs: number },
): Promise<Run[]> {
  const startedBy = (ms: number): string => `${query} AND StartTime <= "${new Date(ms).toISOString()}"`;
  let [before, by] = [lastMs - SEARCHED_MS, lastMs + 1];
  while (by - before > PRECISION_MS) {
    const middle = Math.floor((before + by) / 2);
    if ((await client.workflow.count(startedBy(middle))).count >= limit) {
      by = middle;
    } else {
      before = middle;
    }
  }
  const runs = await newest(client, startedBy(by), Number.MAX_SAFE_INTEGER);
  return runs.slice(-limit);
}

/** Returns up to `limit` open runs of a type, half from each end. */
async function bothEnds(client: Client, type: string, limit: number): Promise<Run[]> {
  const query = `WorkflowType = "${type}" AND ${OPEN}`;
  const runs = await newest(client, query, limit);
  const [last] = runs;
  const half = Math.floor(limit / 2);
  if (last === undefined || runs.length < limit || half === 0) {
    return runs;
  }
  const old = await oldest(client, query, { limit: half, lastMs: last.startTime.getTime() });
  const known = new Set(old.map(({ runId }) => runId));
  return [...runs.filter(({ runId }) => !known.has(runId)).slice(0, limit - old.length), ...old];
}

async function* openHistories(
  client: Client,
  limit: number,
): AsyncGenerator<{ workflowId: string; history: unknown }> {
  let left = limit;
  for (const [index, type] of TYPES.entries()) {
    const runs = await bothEnds(client, type, Math.floor(left / (TYPES.length - index)));
    left -= runs.length;
    for (const { workflowId, runId } of runs) {
      yield { workflowId, history: await client.workflow.getHandle(workflowId, runId).fetchHistory() };
    }
  }
}

/**
 * Replays up to `limit` open workflows of all types, half of each the newest and half the oldest, which another version
 * has begun.
 *
 * @returns their ids, and those that this build would break
 */
export async function replayOpen(
  client: Client,
  limit: number,
  dataConverter: DataConverter = {},
): Promise<{ readonly replayed: readonly string[]; readonly failures: readonly ReplayFailure[] }> {
  const bundle = await loadWorkflowBundle();
  const failures: ReplayFailure[] = [];
  const replayed: string[] = [];
  return await withoutStackTraces(async () => {
    const results = Worker.runReplayHistories(
      { workflowBundle: bundle, dataConverter },
      openHistories(client, limit),
    );
    for await (const { workflowId, error } of results) {
      replayed.push(workflowId);
      if (error !== undefined) {
        failures.push({ workflowId, reason: error.message });
      }
    }
    return { replayed, failures };
  });
}

/** Checks that up to `limit` open workflows would go on with this build. */
export async function examineOpen(...of: Parameters<typeof replayOpen>): Promise<Finding> {
  try {
    const { replayed, failures } = await replayOpen(...of);
    const [first] = failures;
    return {
      check: "replay",
      ok: first === undefined,
      detail:
        first === undefined
          ? `${replayed.length} open workflows would continue with this build`
          : `${failures.length} of ${replayed.length} open workflows would fail with this build, first ${first.workflowId}: ${first.reason}`,
    };
  } catch (error) {
    return { check: "replay", ok: false, detail: `${failureOf(error)}: check Temporal first` };
  }
}
