/** Saturation over 10, 10,000 and 100,000 endpoints with origins of their own. */
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { saturationOf, singles } from "./saturation.ts";

/** The maximum by default. */
const PER_TENANT = 50;
const MANY = [10_000, 100_000];
const CONNECTIONS = 64;

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "endpoints");
  const { events, warmUp } = saturationOf(bench);
  const found: Record<string, unknown> = {};
  const rates: number[] = [];
  for (const count of [undefined, ...MANY.map((many) => bench.events(many))]) {
    const group =
      count === undefined
        ? await bench.tenTenants(world)
        : await world.group({
            name: `of-${count}`,
            tenants: count / PER_TENANT,
            endpointsPerTenant: PER_TENANT,
            fanOut: "one",
            inserted: true,
          });
    const before = await bench.load.connections();
    // Every endpoint gets an event.
    const flow = { group, events: Math.max(events, group.endpoints.length), pace: singles(CONNECTIONS) };
    const name = `endpoints-${group.endpoints.length}`;
    const measured = await bench.measure(world, { name, warmUp, flow });
    const opened = (await bench.load.connections()) - before;
    rates.push(measured.deliveries_per_second);
    found[String(group.endpoints.length)] = {
      per_second: measured.deliveries_per_second,
      cpu_s_per_1000: measured.cpu_s_per_1000,
      connections_per_1000: round((opened / (flow.events + warmUp)) * 1_000, 1),
      signet_pss_peak_mib: measured.signet_pss_peak_mib,
    };
  }
  const [few = Number.NaN] = rates;
  bench.findings["endpoints"] = { ...found, lowest_ratio: round(Math.min(...rates) / few, 3) };
}

export const endpoints: Scenario = {
  name: "endpoints",
  about: "saturation over 10, 10,000 and 100,000 endpoints, each with its own origin (plain HTTP)",
  run: runScenario,
};
