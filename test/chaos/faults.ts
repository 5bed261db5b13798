/** What goes wrong in the middle of the events: a process is killed or stopped, alone or with others. */
import { setTimeout as delay } from "node:timers/promises";
import type { Restartable } from "../bench/environment/restartable.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import type { Size } from "./traffic.ts";
import type { Scene, Trial } from "./trial.ts";

const RESTART_AFTER_MS = 1_000;
/** What a killed process had handed to the kernel still gets to where it goes. */
const ECHO_MS = 200;
const READY_TIMEOUT_MS = 2_000;

export type VictimName = "api" | "worker" | "temporal" | "postgres";

/** A fault that was made and has passed; instants are milliseconds of the common clock. */
export interface PassedFault {
  /** Requests that had been sent and were not on record. */
  readonly inFlight: number;
  readonly struckAtMs: number;
  /** When what failed was started again or went on. */
  readonly backAtMs: number;
  /** When PostgreSQL or Temporal took connections; of a process of Signet, when it was started. */
  readonly takesWorkMs: number;
  /** Events that were accepted within these instants may be gone: the database was put back older. */
  readonly gone?: readonly [fromMs: number, toMs: number];
  readonly findings?: Readonly<Record<string, unknown>>;
}

/** A fault of ours, in the middle of publishing. */
export interface Fault {
  /** Which share of the first part has arrived by then; by default faults are spread over it. */
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
    throw new Error(`${name} is not ours to kill`);
  }
  return ours;
}

/** One process of that name. */
export function victimOf(scene: Scene, name: VictimName): Restartable {
  const [first] = victimsOf(scene, name);
  if (first === undefined) {
    throw new Error(`there is no ${name}`);
  }
  return first;
}

/** In the order in which they are started: the servers first. */
const EVERYTHING = ["postgres", "temporal", "api", "worker"] as const;

/** The first process of that name, or each process of each name. */
function chosen(scene: Scene, victim: VictimName | "all"): readonly Restartable[] {
  return victim === "all" ? EVERYTHING.flatMap((name) => victimsOf(scene, name)) : [victimOf(scene, victim)];
}

/** What a process says of itself: the status of its /readyz; 0 without an answer. */
export async function readiness(metricsUrl: string): Promise<number> {
  return await fetch(`${metricsUrl}/readyz`, { signal: AbortSignal.timeout(READY_TIMEOUT_MS) })
    .then(({ status }) => status)
    .catch(() => 0);
}

/** SIGKILL, for all at once; started again a second later. */
export function kill(victim: VictimName | "all"): Fault {
  return {
    strike: async (trial) => {
      const victims = chosen(trial.scene, victim);
      // Of a database that dies alone, before: there is nobody to ask afterwards, and the worker goes on.
      const before = victim === "postgres" ? await trial.inFlight() : undefined;
      const struckAtMs = monotonicMs();
      await Promise.all(victims.map(async (each) => await each.kill()));
      await delay(ECHO_MS);
      // Of others, afterwards: what they had sent and not written by their end.
      let inFlight = before ?? (victim === "all" ? undefined : await trial.inFlight());
      await delay(RESTART_AFTER_MS - ECHO_MS);
      const backAtMs = monotonicMs();
      for (const each of victims) {
        await each.restart();
        // The database comes first: the others have written nothing since.
        inFlight ??= await trial.inFlight();
      }
      inFlight ??= 0;
      return { inFlight, struckAtMs, backAtMs, takesWorkMs: monotonicMs() };
    },
  };
}

/** SIGSTOP for a while, for all at once. */
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

/** How long a process may take to see that PostgreSQL is silent, and to say so. */
const NOTICE_MS = 5_000;

/** Every connection to PostgreSQL goes dead without a FIN or RST; new ones work. */
export const silence: Fault = {
  strike: async (trial) => {
    const { proxy, world } = trial.scene;
    if (proxy === undefined) {
      throw new Error("this case needs a proxy before PostgreSQL");
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

/** The workers' clock is ten minutes ahead for a while, then ten minutes behind, then right again. */
export const wrongClock: Fault = {
  share: 0.1,
  strike: async (trial, { outageMs }) => {
    const { clock } = trial.scene;
    if (clock === undefined) {
      throw new Error("this case needs a clock to set");
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
