/** Memory of api and worker: idle after a start, and the peak under saturation. */
import { setTimeout as delay } from "node:timers/promises";
import { pssMiB } from "../measure/process-tree.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { saturationOf, singles } from "./saturation.ts";

const IDLE_MS = 5_000;
const REPEATS = 3;

function signetMiB(pids: Readonly<Record<string, number>>): Record<string, number> {
  // One process may be both.
  const each = Object.entries(pids).filter(
    ([, pid], index, all) => all.findIndex(([, other]) => other === pid) === index,
  );
  const sizes = Object.entries(pssMiB(Object.fromEntries(each)));
  return Object.fromEntries(sizes.map(([name, size]) => [name, round(size, 0)]));
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world();
  const group = await bench.tenTenants(world);
  await world.stop();
  await bench.world();
  await delay(IDLE_MS);
  const idle = signetMiB(world.signet.pids);
  const { events } = saturationOf(bench);
  const peaks: number[] = [];
  for (let repeat = 1; repeat <= REPEATS; repeat += 1) {
    const flow = { group, events, pace: singles(128) };
    const measured = await bench.measure(world, { name: `memory-saturation-${repeat}`, warmUp: 0, flow });
    peaks.push(measured.signet_pss_peak_mib);
  }
  await delay(IDLE_MS);
  bench.findings["memory"] = {
    idle_after_start_mib: idle,
    peak_mib: Math.max(...peaks),
    after_load_mib: signetMiB(world.signet.pids),
  };
}

export const memory: Scenario = {
  name: "memory",
  about: "proportional set size of api and worker: idle, and over three saturation runs on 128 connections",
  run: runScenario,
};
