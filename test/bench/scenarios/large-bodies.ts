/** Events with 256 KiB of data, to one endpoint and to ten: bytes per second, and the worker's memory. */
import { residentPeakMiB } from "../measure/process-tree.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { singles } from "./saturation.ts";

const EVENTS = 1_200;
/** The largest `data` that the API accepts. */
const PAYLOAD_BYTES = 262_144;
const CONNECTIONS = 16;
const BYTES_PER_MB = 1e6;

async function runScenario(bench: Bench): Promise<void> {
  for (const endpoints of [1, 10]) {
    const world = await bench.world({}, "large-bodies");
    // The peak is per process, so each measurement needs a new worker.
    await world.stop();
    await world.run({});
    const group = await world.group({
      name: `large-${endpoints}`,
      tenants: 1,
      endpointsPerTenant: endpoints,
      fanOut: "all",
    });
    const name = `large-bodies-${endpoints}`;
    const events = bench.events(EVENTS);
    const flow = { group, events, pace: singles(CONNECTIONS), payloadBytes: PAYLOAD_BYTES };
    const measured = await bench.measure(world, { name, warmUp: 0, slots: endpoints, flow });
    bench.findings[name.replaceAll("-", "_")] = {
      mb_per_second: round((measured.deliveries_per_second * PAYLOAD_BYTES) / BYTES_PER_MB, 1),
      published_mb_per_second: round((measured.published_per_second * PAYLOAD_BYTES) / BYTES_PER_MB, 1),
      worker_rss_peak_mib: round(residentPeakMiB(world.signet.pids.signet_worker), 0),
    };
    bench.log(JSON.stringify(bench.findings[name.replaceAll("-", "_")]));
  }
}

export const largeBodies: Scenario = {
  name: "large-bodies",
  about: "1,200 events with 256 KiB of data as fast as possible, to one endpoint and to ten",
  run: runScenario,
};
