/** Each event goes to ten endpoints. */
import type { Scenario } from "./bench.ts";
import { singles } from "./saturation.ts";

const ENDPOINTS = 10;
const EVENTS = 2_000;
const PER_SECOND = 20;

export const fanOut: Scenario = {
  name: "fan-out",
  about: "one tenant with 10 endpoints that take every event: 2,000 events as fast as possible, then 20/s",
  run: async (bench) => {
    const world = await bench.world();
    const group = await world.group({
      name: "fan-out",
      tenants: 1,
      endpointsPerTenant: ENDPOINTS,
      fanOut: "all",
    });
    const common = { warmUp: bench.events(200), slots: ENDPOINTS };
    const saturated = { group, events: bench.events(EVENTS), pace: singles(32) };
    await bench.measure(world, { ...common, name: "fan-out-saturation", flow: saturated });
    const pace = { kind: "open", perSecond: PER_SECOND } as const;
    const open = { group, events: PER_SECOND * bench.seconds(20), pace };
    await bench.measure(world, { ...common, name: "fan-out-open-20", flow: open });
  },
};
