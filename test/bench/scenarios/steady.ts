/** A steady rate, independent of the responses: measures latency and its cost. */
import type { Bench, Scenario } from "./bench.ts";

const SECONDS = 20;

interface Steady {
  readonly name: string;
  readonly perSecond: number;
  readonly events: number;
}

async function measureSteady(bench: Bench, { name, perSecond, events }: Steady): Promise<void> {
  const world = await bench.world();
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

export const steady: readonly Scenario[] = [atRate(50), atRate(200), lone];
