/** A steady rate, independent of the responses: measures latency and its cost. */
import type { Settings } from "../environment/signet.ts";
import type { Bench, Scenario } from "./bench.ts";

const SECONDS = 20;
const FRONTIER_SECONDS = 15;
const FRONTIER = [20, 40, 60, 120, 240];

interface Steady {
  readonly name: string;
  readonly perSecond: number;
  readonly events: number;
  readonly settings?: Settings;
}

async function measureSteady(
  bench: Bench,
  { name, perSecond, events, settings = {} }: Steady,
): Promise<void> {
  const world = await bench.world(settings);
  const group = await bench.tenTenants(world);
  const flow = { group, events, pace: { kind: "open", perSecond } } as const;
  await bench.measure(world, { name, warmUp: Math.min(200, events), flow });
}

function atRate(perSecond: number): Scenario {
  return {
    name: `open-${perSecond}`,
    about: `open loop: ${perSecond} events per second for ${SECONDS} s over 10 endpoints`,
    run: async (bench) => {
      const events = perSecond * bench.seconds(SECONDS);
      await measureSteady(bench, { name: `open-${perSecond}`, perSecond, events });
    },
  };
}

const lone: Scenario = {
  name: "lone",
  about: "60 deliveries on an idle system, one every 500 ms",
  run: async (bench) => {
    await measureSteady(bench, { name: "lone", perSecond: 2, events: bench.quick ? 20 : 60 });
  },
};

const frontier: Scenario = {
  name: "frontier",
  about: `latency against CPU at 50/s and 200/s over SIGNET_DELIVERY_CLAIMS_PER_SECOND ${FRONTIER.join(", ")}`,
  run: async (bench) => {
    for (const starts of FRONTIER) {
      const settings = { SIGNET_DELIVERY_CLAIMS_PER_SECOND: String(starts) };
      for (const perSecond of [50, 200]) {
        const name = `frontier-${starts}-open-${perSecond}`;
        const events = perSecond * bench.seconds(FRONTIER_SECONDS);
        await measureSteady(bench, { name, perSecond, events, settings });
      }
    }
  },
};

export const steady: readonly Scenario[] = [atRate(50), atRate(200), lone];
export { frontier };
