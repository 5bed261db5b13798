/** Saturation with 1,000,000 finished deliveries in the tables, compared to an empty database. */
import { withClient } from "../environment/postgres.ts";
import type { World } from "../environment/world.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { fillHistory } from "./history.ts";
import { saturationOf, singles } from "./saturation.ts";

const DELIVERIES = 1_000_000;
const CONNECTIONS = 64;

async function tableSizes(world: World): Promise<Readonly<Record<string, string>>> {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ name: string; size: string }>(
      `SELECT p.relname AS name, pg_size_pretty(sum(pg_total_relation_size(i.inhrelid))) AS size
       FROM pg_inherits i JOIN pg_class p ON p.oid = i.inhparent
       WHERE p.relname IN ('events', 'deliveries', 'attempts') GROUP BY 1 ORDER BY 1`,
    );
    return Object.fromEntries(rows.map(({ name, size }) => [name, size]));
  });
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "million");
  const group = await bench.tenTenants(world);
  const { events, warmUp } = saturationOf(bench);
  const flow = { group, events, pace: singles(CONNECTIONS) };
  const empty = await bench.measure(world, { name: "million-empty", warmUp, flow });
  const deliveries = bench.events(DELIVERIES);
  bench.log(`inserting ${deliveries} finished deliveries`);
  await fillHistory(world.adminDatabaseUrl, deliveries);
  const notes = { finished_deliveries: deliveries, tables: await tableSizes(world) };
  const full = await bench.measure(world, { name: "million-full", warmUp, flow, notes });
  bench.findings["million"] = {
    ratio: round(full.deliveries_per_second / empty.deliveries_per_second, 3),
  };
}

export const million: Scenario = {
  name: "million",
  about:
    "20,000 events over 10 endpoints on an empty database and with 1,000,000 finished deliveries of 30 days",
  run: runScenario,
};
