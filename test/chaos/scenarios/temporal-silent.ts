/** Temporal behind an address whose connections go silent: none ends, and some never carry anything. */
import { setTimeout as delay } from "node:timers/promises";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import { startTcpProxy, type TcpProxy } from "#test/support/tcp-proxy.ts";
import type { ChaosCase } from "../cases.ts";
import { type Fault, readiness } from "../faults.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { runCase } from "../run-case.ts";
import { sizeOf } from "../traffic.ts";
import type { Scene } from "../trial.ts";

const SILENT_MS = { full: 40_000, quick: 15_000 } as const;
/** From the first connection that works (docs/guarantees.md). */
const READY_SECONDS = 15;
/**
 * A first attempt at a slow endpoint that Temporal gave to a connection which it does not know to be silent is given again
 * after this time: the timeout of its heartbeats, and the pause before its second try (decision 43).
 */
const LOST_TASK_SECONDS = 17;
const READY_TIMEOUT_MS = 60_000;
const POLL_MS = 100;
/** Their retries need Temporal. */
const FAILING = [1, 2].map(
  (attempts) => ({ behaviour: { kind: "fail", attempts }, punctual: true }) as const,
);

/** Resolves to the seconds until each api and each worker is ready, in their order. */
async function secondsToReady({ world }: Scene): Promise<number[]> {
  const beganMs = monotonicMs();
  const secondsOf = async (metricsUrl: string): Promise<number> => {
    for (;;) {
      const status = await readiness(metricsUrl);
      const tookMs = monotonicMs() - beganMs;
      if (status === 200 || tookMs > READY_TIMEOUT_MS) {
        return round(tookMs / 1_000, 2);
      }
      await delay(POLL_MS);
    }
  };
  const processes = [...world.signet.apis, ...world.signet.workers];
  return await Promise.all(processes.map(async ({ metricsUrl }) => await secondsOf(metricsUrl)));
}

/** Silences the connections, and says when everything was ready again. */
type Silence = (proxy: TcpProxy, scene: Scene) => Promise<void>;

/** New connections open and stay silent, for a while and those of that time for ever. */
const allSilent: Silence = async (proxy, { quick }) => {
  proxy.freeze();
  await delay(SILENT_MS[quick ? "quick" : "full"]);
  proxy.blackHole();
  proxy.thaw();
};

const halfOpen: Silence = async (proxy) => {
  proxy.blackHole();
  await Promise.resolve();
};

function silenced(silence: Silence, times: number): (scene: Scene) => Promise<CaseOutcome> {
  return async (scene) => {
    const { stack, world, quick } = scene;
    const proxy = await startTcpProxy(Number(new URL(`tcp://${stack.temporal.address}`).port));
    const readyAfter: number[][] = [];
    const fault: Fault = {
      strike: async (trial) => {
        const inFlight = await trial.inFlight();
        const struckAtMs = monotonicMs();
        await silence(proxy, scene);
        const backAtMs = monotonicMs();
        readyAfter.push(await secondsToReady(scene));
        return { inFlight, struckAtMs, backAtMs, takesWorkMs: backAtMs };
      },
    };
    try {
      await world.run({ TEMPORAL_ADDRESS: `127.0.0.1:${proxy.port}` });
      const outcome = await runCase(
        scene,
        {
          pace: "steady",
          hostile: FAILING,
          faults: Array.from({ length: times }, () => fault),
          flowSeconds: READY_SECONDS,
          // First requests to failing endpoints, too, which only workflows make.
          drainedSeconds: READY_SECONDS + LOST_TASK_SECONDS,
        },
        sizeOf("long", quick),
      );
      return {
        ...outcome,
        findings: { ...outcome.findings, ready_after_s: readyAfter },
        targets: [
          ...outcome.targets,
          atMost("every api and worker is ready after s", Math.max(...readyAfter.flat()), READY_SECONDS),
        ],
      };
    } finally {
      await world.stop();
      await proxy.close();
    }
  };
}

const TWO = { shape: { apis: 2, workers: 2 } } as const;

export const TEMPORAL_SILENT: readonly ChaosCase[] = [
  {
    name: "temporal-silent",
    about: "Temporal's address accepts connections and carries nothing for 40 s; these never carry anything",
    setting: TWO,
    run: silenced(allSilent, 1),
  },
  {
    name: "temporal-half-open",
    about: "every connection to Temporal goes silent, twice; new ones work",
    setting: TWO,
    run: silenced(halfOpen, 2),
  },
];
