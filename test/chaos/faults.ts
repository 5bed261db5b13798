/** Faults that kill or stop one process or several. */
import { setTimeout as delay } from "node:timers/promises";
import type { Restartable } from "../bench/environment/restartable.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import type { Size } from "./traffic.ts";
import type { Scene, Trial } from "./trial.ts";

const RESTART_AFTER_MS = 1_000;
/** Time for data that a killed process gave to the kernel to reach its destination. */
const ECHO_MS = 200;
/** Turns of the receiver's loop in which it accepts connections and reads that data, also if it is slow. */
const ECHO_TURNS = 20;
const READY_TIMEOUT_MS = 2_000;

export type VictimName = "api" | "worker" | "temporal" | "postgres";

/** A fault that has passed. Instants are milliseconds of the common clock. */
export interface PassedFault {
  /** Number of requests that had been sent and were not on record. */
  readonly inFlight: number;
  readonly struckAtMs: number;
  /** When the failed process was restarted or resumed. */
  readonly backAtMs: number;
  /** When PostgreSQL or Temporal accepted connections; for Signet's processes, when they were started. */
  readonly takesWorkMs: number;
  /** Events accepted in this period may be lost, because an older database was restored. */
  readonly gone?: readonly [fromMs: number, toMs: number];
  readonly findings?: Readonly<Record<string, unknown>>;
}

/** A fault in the middle of publishing. */
export interface Fault {
  /** Share of the first part that has arrived before the fault. By default, faults are spread over it. */
  readonly share?: number;
  strike(trial: Trial, size: Size): Promise<PassedFault>;
}

export function victimsOf({ stack, world }: Scene, name: VictimName): readonly Restartable[] {
  const { apis, workers } = world.signet;
  const victims: readonly (Restartable | undefined)[] = {
    api: apis.map(({ server }) => server),
    worker: workers.map(({ server }) => server),
    temporal: [stack.temporal.process],
    postgres: [stack.postgres.process],
  }[name];
  const ours = victims.filter((victim): victim is Restartable => victim !== undefined);
  if (ours.length < victims.length) {
    throw new Error(`${name} is an external server and cannot be killed`);
  }
  return ours;
}

/** Returns one process of that name. */
export function victimOf(scene: Scene, name: VictimName): Restartable {
  const [first] = victimsOf(scene, name);
  if (first === undefined) {
    throw new Error(`no process named ${name}`);
  }
  return first;
}

/** In start order: servers first. */
const EVERYTHING = ["postgres", "temporal", "api", "worker"] as const;

/** Returns the first process of that name, or all processes for `all`. */
function chosen(scene: Scene, victim: VictimName | "all"): readonly Restartable[] {
  return victim === "all" ? EVERYTHING.flatMap((name) => victimsOf(scene, name)) : [victimOf(scene, victim)];
}

/** Returns the status of a process's /readyz; 0 without a response. */
export async function readiness(metricsUrl: string): Promise<number> {
  return await fetch(`${metricsUrl}/readyz`, { signal: AbortSignal.timeout(READY_TIMEOUT_MS) })
    .then(({ status }) => status)
    .catch(() => 0);
}

/** Waits until the receiver has what killed processes gave to the kernel. */
async function untilEchoed({ load }: Scene): Promise<void> {
  await delay(ECHO_MS);
  for (let turn = 0; turn < ECHO_TURNS; turn += 1) {
    await load.progress();
  }
}

/** Kills the victims with SIGKILL at once and restarts them a second later. */
export function kill(victim: VictimName | "all"): Fault {
  return {
    strike: async (trial) => {
      const victims = chosen(trial.scene, victim);
      // If only PostgreSQL dies, count before: it cannot be queried afterwards, and the worker continues.
      const before = victim === "postgres" ? await trial.inFlight() : undefined;
      const struckAtMs = monotonicMs();
      await Promise.all(victims.map(async (each) => await each.kill()));
      await untilEchoed(trial.scene);
      // Otherwise count afterwards: requests sent and not recorded before the kill.
      let inFlight = before ?? (victim === "all" ? undefined : await trial.inFlight());
      await delay(RESTART_AFTER_MS - ECHO_MS);
      const backAtMs = monotonicMs();
      for (const each of victims) {
        await each.restart();
        // PostgreSQL restarts first; the others have written nothing since.
        inFlight ??= await trial.inFlight();
      }
      inFlight ??= 0;
      return { inFlight, struckAtMs, backAtMs, takesWorkMs: monotonicMs() };
    },
  };
}

/** Stops the victims with SIGSTOP at once, for a while. */
export function stop(victim: VictimName | "all"): Fault {
  return {
    strike: async (trial, { outageMs }) => {
      const victims = chosen(trial.scene, victim);
      const inFlight = await trial.inFlight();
      const struckAtMs = monotonicMs();
      for (const each of victims) {
        each.pause();
      }
      await delay(outageMs);
      for (const each of victims) {
        each.resume();
      }
      const backAtMs = monotonicMs();
      return { inFlight, struckAtMs, backAtMs, takesWorkMs: backAtMs };
    },
  };
}

/** Time within which a process must detect and report that PostgreSQL is silent. */
const NOTICE_MS = 5_000;

/** Every connection to PostgreSQL goes silent without a FIN or RST; new ones work. */
export const silence: Fault = {
  strike: async (trial) => {
    const { proxy, world } = trial.scene;
    if (proxy === undefined) {
      throw new Error("this case needs a proxy in front of PostgreSQL");
    }
    const inFlight = await trial.inFlight();
    const struckAtMs = monotonicMs();
    const connections = proxy.blackHole();
    await delay(NOTICE_MS);
    const ready = await Promise.all(
      [...world.signet.apis, ...world.signet.workers].map(
        async ({ metricsUrl }) => await readiness(metricsUrl),
      ),
    );
    return {
      inFlight,
      struckAtMs,
      backAtMs: struckAtMs,
      takesWorkMs: struckAtMs,
      findings: { silent_connections: connections, ready_after_5_s: ready },
    };
  },
};

const WRONG_MS = 600_000;

/** The workers' clock is ten minutes ahead, then ten minutes behind, then correct again. */
export const wrongClock: Fault = {
  share: 0.1,
  strike: async (trial, { outageMs }) => {
    const { clock } = trial.scene;
    if (clock === undefined) {
      throw new Error("this case needs an adjustable clock");
    }
    const inFlight = await trial.inFlight();
    const struckAtMs = monotonicMs();
    for (const offsetMs of [WRONG_MS, -WRONG_MS]) {
      await clock.jump(offsetMs);
      await delay(outageMs);
    }
    await clock.jump(0);
    const backAtMs = monotonicMs();
    return { inFlight, struckAtMs, backAtMs, takesWorkMs: backAtMs };
  },
};
