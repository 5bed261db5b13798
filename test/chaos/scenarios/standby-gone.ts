/** The synchronous standby of PostgreSQL is gone for a while: no commit ends. */
import { setTimeout as delay } from "node:timers/promises";
import { withClient } from "#test/bench/environment/postgres.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import type { ChaosCase } from "../cases.ts";
import type { Fault } from "../faults.ts";
import { type Pair, startPair } from "../replication.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { runCase } from "../run-case.ts";
import { sizeOf } from "../traffic.ts";
import type { Scene } from "../trial.ts";

const GONE_MS = { full: 60_000, quick: 20_000 } as const;
const FLOW_SECONDS = 10;
const LOOK_EVERY_MS = 500;
const CONNECTIONS = 10;
/** Connections of an api and a worker at most (docs/operations.md, Connections), and a look of each of their ten pools. */
const CEILING = 5 * CONNECTIONS + 6 + 2 + (CONNECTIONS + 8 + 2) + 10;
const BACKENDS = "SELECT count(*)::int AS n FROM pg_stat_activity WHERE usename = 'signet_service'";

/** Looks how many backends the primary has for Signet, until it is ended. Returns the highest number. */
function watchBackends({ primaryUrl }: Pair): { end(): Promise<number> } {
  const ended = new AbortController();
  let most = 0;
  const watching = withClient(primaryUrl, async (client) => {
    while (!ended.signal.aborted) {
      const { rows } = await client.query<{ n: number }>(BACKENDS);
      most = Math.max(most, rows[0]?.n ?? 0);
      await delay(LOOK_EVERY_MS);
    }
  });
  return {
    end: async () => {
      ended.abort();
      await watching;
      return most;
    },
  };
}

async function goneWhileFlowing(scene: Scene, pair: Pair): Promise<CaseOutcome> {
  const { quick } = scene;
  let most = 0;
  const gone: Fault = {
    strike: async (trial) => {
      const inFlight = await trial.inFlight();
      const struckAtMs = monotonicMs();
      await pair.standby.kill();
      const backends = watchBackends(pair);
      await delay(GONE_MS[quick ? "quick" : "full"]);
      await pair.standby.restart();
      const backAtMs = monotonicMs();
      await pair.untilStreamed();
      const takesWorkMs = monotonicMs();
      most = await backends.end();
      return { inFlight, struckAtMs, backAtMs, takesWorkMs, findings: { backends_max: most } };
    },
  };
  await pair.untilStreamed();
  await pair.synchronous(true);
  const outcome = await runCase(
    { ...scene, world: pair.world },
    { pace: "steady", hostile: [], faults: [gone], flowSeconds: FLOW_SECONDS },
    sizeOf("long", quick),
  );
  const { sent_again: answers } = outcome.findings as { sent_again: Readonly<Record<string, number>> };
  return {
    ...outcome,
    targets: [
      ...outcome.targets,
      atMost("no publisher got 503", (answers["503"] ?? 0) > 0 ? 0 : 1, 0),
      atMost("backends", most, CEILING),
    ],
  };
}

async function standbyGone(scene: Scene): Promise<CaseOutcome> {
  await scene.world.stop();
  const pair = await startPair(scene, "standby-gone-pair", {
    SIGNET_DATABASE_CONNECTIONS: String(CONNECTIONS),
  });
  try {
    return await goneWhileFlowing(scene, pair);
  } finally {
    await pair.close();
  }
}

export const STANDBY_GONE: ChaosCase = {
  name: "standby-gone",
  about: "PostgreSQL's synchronous standby is gone for 60 s",
  run: standbyGone,
};
