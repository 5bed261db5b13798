/** One tenant's receivers hang while another tenant's deliveries continue. */
import { round } from "../report/measurement.ts";
import { type Bench, describeLoad, type Scenario } from "./bench.ts";
import { Run } from "./run.ts";
import { singles } from "./saturation.ts";

const NOISY_EVENTS = 2_000;
const NOISY_ENDPOINTS = 10;
/** Longer than the sender's timeout of 10 s. */
const HANG_MS = 10_500;
const PER_SECOND = 50;
const QUIET_SECONDS = 20;
const NOISY_SECONDS = 40;

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "noisy");
  const victim = await world.group({ name: "victim", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
  const noisy = await world.group({
    name: "noisy",
    tenants: 1,
    endpointsPerTenant: NOISY_ENDPOINTS,
    fanOut: "one",
  });
  const pace = { kind: "open", perSecond: PER_SECOND } as const;
  const quiet = await bench.measure(world, {
    name: "noisy-neighbour-quiet",
    warmUp: 200,
    flow: { group: victim, events: PER_SECOND * bench.seconds(QUIET_SECONDS), pace },
  });

  await bench.load.behave(noisy.endpoints, { kind: "delay", ms: HANG_MS });
  const noisyEvents = bench.events(NOISY_EVENTS);
  const events = PER_SECOND * bench.seconds(NOISY_SECONDS);
  const run = await Run.begin(world, bench.load, { events: noisyEvents + events });
  const [hanging, healthy] = await Promise.all([
    run.publish({ group: noisy, events: noisyEvents, pace: singles(16) }),
    run.publish({ group: victim, events, pace }),
  ]);
  // Hanging deliveries are never acknowledged, so wait for the victim's only.
  await run.delivered(healthy.accepted, { idleMs: 5_000, maxMs: 30_000 });
  const usage = await run.usage();
  const statistics = await run.statistics(healthy);
  const stuck = await run.statistics(hanging);
  bench.record({
    name: "noisy-neighbour",
    settings: world.settings,
    load: describeLoad({ group: victim, events, pace }),
    statistics,
    usage,
    notes: {
      quiet_p95_ms: quiet.latency_ms.p95,
      p95_ratio: round(statistics.latencyMs.p95 / quiet.latency_ms.p95, 2),
      hanging_deliveries: stuck.deliveries,
      hanging_attempted: stuck.deliveries === 0 ? 0 : stuck.attempts,
      hanging_published_per_second: round(stuck.publishedPerSecond, 0),
    },
  });
  // Hanging deliveries would be retried for days.
  await world.stop();
}

export const noisyNeighbour: Scenario = {
  name: "noisy-neighbour",
  about: "2,000 deliveries to 10 receivers that hang for 10 s, while another tenant publishes 50/s",
  run: runScenario,
};
