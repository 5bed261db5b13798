/** Publishes as many events as the system accepts, and waits until all have arrived. */
import type { ClosedLoop } from "../load/publish-plan.ts";
import type { Bench, Scenario } from "./bench.ts";

const EVENTS = 20_000;
const WARM_UP = 2_000;
const CONNECTIONS = 64;

export function singles(connections: number): ClosedLoop {
  return { kind: "closed", connections, batch: 1 };
}

/** The saturation of ten endpoints that several scenarios measure. */
export function saturationOf(bench: Bench): { readonly events: number; readonly warmUp: number } {
  return { events: bench.events(EVENTS), warmUp: bench.events(WARM_UP) };
}

const tenEndpoints: Scenario = {
  name: "saturation-10",
  about: "20,000 events over 10 endpoints of 10 tenants, single publishes on 32, 64 and 128 connections",
  run: async (bench) => {
    const world = await bench.world();
    const group = await bench.tenTenants(world);
    const { events, warmUp } = saturationOf(bench);
    for (const connections of bench.quick ? [CONNECTIONS] : [32, 64, 128]) {
      const name = `saturation-10-c${connections}`;
      await bench.measure(world, { name, warmUp, flow: { group, events, pace: singles(connections) } });
    }
  },
};

const oneEndpoint: Scenario = {
  name: "saturation-1",
  about: "20,000 events to one endpoint",
  run: async (bench) => {
    const world = await bench.world();
    const group = await world.group({ name: "single", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
    const { events, warmUp } = saturationOf(bench);
    const flow = { group, events, pace: singles(CONNECTIONS) };
    await bench.measure(world, { name: "saturation-1-c64", warmUp, flow });
  },
};

const thousandEndpoints: Scenario = {
  name: "saturation-1000",
  about: "20,000 events over 1,000 endpoints: 20 tenants with the maximum number of endpoints per tenant",
  run: async (bench) => {
    const world = await bench.world();
    const tenants = bench.quick ? 2 : 20;
    const group = await world.group({ name: "many", tenants, endpointsPerTenant: 50, fanOut: "one" });
    const { events, warmUp } = saturationOf(bench);
    for (const connections of bench.quick ? [CONNECTIONS] : [64, 128]) {
      const name = `saturation-${group.endpoints.length}-c${connections}`;
      await bench.measure(world, { name, warmUp, flow: { group, events, pace: singles(connections) } });
    }
  },
};

const batches: Scenario = {
  name: "saturation-batch",
  about: "20,000 events over 10 endpoints, published 1,000 and 100 per request",
  run: async (bench) => {
    const world = await bench.world();
    const group = await bench.tenTenants(world);
    const { events, warmUp } = saturationOf(bench);
    for (const batch of [100, 1_000]) {
      const pace: ClosedLoop = { kind: "closed", connections: 4, batch };
      await bench.measure(world, {
        name: `saturation-batch-${batch}`,
        warmUp,
        flow: { group, events, pace },
      });
    }
  },
};

export const saturation: readonly Scenario[] = [tenEndpoints, oneEndpoint, thousandEndpoints, batches];
