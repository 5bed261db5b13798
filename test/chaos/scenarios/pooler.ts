/** PgBouncer is killed and started again while everything goes through it. */
import { type PoolMode, startPgBouncer } from "#test/support/pgbouncer.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import type { ChaosCase } from "../cases.ts";
import type { Fault } from "../faults.ts";
import type { CaseOutcome } from "../result.ts";
import { runCase } from "../run-case.ts";
import { sizeOf } from "../traffic.ts";
import type { Scene } from "../trial.ts";

/** In session mode, one for each connection. */
const SESSIONS = { session: 120, transaction: 8 } as const;
const AWAY_MS = 1_000;
const FLOW_SECONDS = 10;

/** Kills the pooler twice. Its clients learn of it at once, by a reset. */
function poolerKilled(mode: PoolMode): (scene: Scene) => Promise<CaseOutcome> {
  return async (scene) => {
    const { stack, world, quick } = scene;
    const direct = world.serviceDatabaseUrl;
    const { username: user, password } = new URL(direct);
    const bouncer = await startPgBouncer({
      mode,
      sessions: SESSIONS[mode],
      databaseUrl: direct,
      logins: [{ user, password }],
      directory: stack.directory,
    });
    const killed: Fault = {
      strike: async (trial) => {
        const inFlight = await trial.inFlight();
        const struckAtMs = monotonicMs();
        await bouncer.restart(AWAY_MS);
        const backAtMs = monotonicMs();
        return { inFlight, struckAtMs, backAtMs, takesWorkMs: backAtMs };
      },
    };
    try {
      await world.run({
        SIGNET_DATABASE_URL: bouncer.through(direct),
        ...(mode === "transaction" ? { SIGNET_DATABASE_DIRECT_URL: direct } : {}),
      });
      const chaos = {
        pace: "steady",
        hostile: [],
        faults: [killed, killed],
        flowSeconds: FLOW_SECONDS,
      } as const;
      return await runCase(scene, chaos, sizeOf("short", quick));
    } finally {
      await world.stop();
      await bouncer.close();
    }
  };
}

export const POOLERS: readonly ChaosCase[] = (["session", "transaction"] as const).map((mode) => ({
  name: `pooler-${mode}`,
  about: `kill -9 of PgBouncer in ${mode} mode, twice, restarted after 1 s`,
  run: poolerKilled(mode),
}));
