/** Faults that exhaust a process's resources: disk, descriptors, memory. */
import { connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { logTail } from "#processes/embedded/server-process.ts";
import type { Process } from "../bench/environment/signet.ts";
import { monotonicMs } from "../bench/load/monotonic.ts";
import { type Fault, readiness, victimOf } from "./faults.ts";
import type { SmallDisk } from "./small-disk.ts";
import type { Scene } from "./trial.ts";

const WATCH_MS = 250;
const RESTART_AFTER_MS = 1_000;
/** More than the api's descriptor limit in this case. */
const IDLE_CONNECTIONS = 400;
const LONGEST_MESSAGE = 300;

/** Number of exits, and the last error line before each. */
interface Ends {
  ends: number;
  said: string[];
}

/** Restarts processes that end, as the platform would. */
function supervise(processes: readonly Process[]): { readonly seen: Ends; end(): Promise<void> } {
  const seen: Ends = { ends: 0, said: [] };
  const ended = new AbortController();
  const watching = (async () => {
    while (!ended.signal.aborted) {
      for (const { server, logFile } of processes) {
        if (!server.isRunning) {
          seen.ends += 1;
          const lines = logTail(logFile)
            .split("\n")
            .filter((line) => /error|fatal/i.test(line));
          seen.said.push((lines.at(-1) ?? "").slice(0, LONGEST_MESSAGE));
          await delay(RESTART_AFTER_MS);
          await server.restart();
        }
      }
      await delay(WATCH_MS);
    }
  })();
  return {
    seen,
    end: async () => {
      ended.abort();
      await watching;
    },
  };
}

async function describe({ world }: Scene): Promise<Readonly<Record<string, number>>> {
  const [api] = world.signet.apis;
  const [worker] = world.signet.workers;
  return {
    ready_api: api === undefined ? 0 : await readiness(api.metricsUrl),
    ready_worker: worker === undefined ? 0 : await readiness(worker.metricsUrl),
  };
}

/** The disk is full for a while. Restarts PostgreSQL if it has exited. */
export function diskFull(disk: () => SmallDisk, under: "postgres" | "log"): Fault {
  return {
    strike: async (trial, { outageMs }) => {
      const { signet } = trial.scene.world;
      const watch = supervise([...signet.apis, ...signet.workers]);
      const inFlight = await trial.inFlight();
      const struckAtMs = monotonicMs();
      await disk().fill();
      await delay(outageMs);
      const during = await describe(trial.scene);
      await disk().free();
      const backAtMs = monotonicMs();
      let postgresEnded = 0;
      if (under === "postgres") {
        const server = victimOf(trial.scene, "postgres");
        if (!server.isRunning) {
          postgresEnded = 1;
          await server.restart();
        }
      }
      const takesWorkMs = monotonicMs();
      await watch.end();
      const { ends, said } = watch.seen;
      return {
        inFlight,
        struckAtMs,
        backAtMs,
        takesWorkMs,
        findings: { ...during, postgres_ended: postgresEnded, processes_ended: ends, said },
      };
    },
  };
}

/** Idle connections take every descriptor of the api. */
export const apiDescriptorsTaken: Fault = {
  strike: async (trial, { outageMs }) => {
    const { signet } = trial.scene.world;
    const watch = supervise(signet.apis);
    const { hostname: host, port } = new URL(signet.apiUrl);
    const inFlight = await trial.inFlight();
    const struckAtMs = monotonicMs();
    const sockets: Socket[] = Array.from({ length: IDLE_CONNECTIONS }, () =>
      connect({ host, port: Number(port) }).on("error", () => undefined),
    );
    await delay(outageMs);
    sockets.forEach((socket) => socket.destroy());
    const backAtMs = monotonicMs();
    await watch.end();
    const { ends, said } = watch.seen;
    return {
      inFlight,
      struckAtMs,
      backAtMs,
      takesWorkMs: backAtMs,
      findings: { processes_ended: ends, said },
    };
  },
};

/** Restarts processes that run out of memory or descriptors while events are published. */
export const supervised: Fault = {
  share: 0,
  strike: async (trial) => {
    const { signet } = trial.scene.world;
    const processes = [...signet.apis, ...signet.workers];
    const watch = supervise(processes);
    const struckAtMs = monotonicMs();
    await trial.untilArrived(trial.events);
    await watch.end();
    const backAtMs = monotonicMs();
    const { ends, said } = watch.seen;
    // At each exit, all events in progress may be sent twice.
    const inFlight = ends * trial.events;
    return {
      inFlight,
      struckAtMs,
      backAtMs,
      takesWorkMs: backAtMs,
      findings: { processes_ended: ends, said },
    };
  },
};
