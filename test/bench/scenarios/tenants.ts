/** 10,000 tenants with one waiting event each: how long a claim takes, and how fast they drain. */
import { performance } from "node:perf_hooks";
import { claimFirst } from "../../../src/database/repositories/webhooks/claims.ts";
import { withClient } from "../environment/postgres.ts";
import type { World } from "../environment/world.ts";
import { type Percentiles, percentiles } from "../measure/statistics.ts";
import { round } from "../report/measurement.ts";
import { type Bench, describeLoad, type Scenario } from "./bench.ts";
import { Run } from "./run.ts";
import { saturationOf, singles } from "./saturation.ts";

const TENANTS = 10_000;
const CONNECTIONS = 64;
const LIST = 64;
/** Fewer, if they have claimed everything. */
const CLAIMS = 40;
/** The first claims read the catalogue and fill caches. */
const WARM_UP_CLAIMS = 10;
const DAY_MS = 86_400_000;

/** Times the worker's claim of a full list, each for the next tenants, as the deliveries wait. Nothing remains of them. */
async function timeClaims(world: World): Promise<Percentiles> {
  const now = new Date();
  const days = [now.getTime() - DAY_MS, now.getTime()].map((at) => new Date(at).toISOString().slice(0, 10));
  return await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("SET plan_cache_mode = force_generic_plan");
    await client.query("BEGIN");
    await client.query("UPDATE tenants SET held_at = NULL WHERE held_at IS NOT NULL");
    const times: number[] = [];
    let afterTenant = "";
    for (let claim = 0; claim < CLAIMS; claim += 1) {
      const begun = performance.now();
      const { claimed, nextTenant } = await claimFirst(client, {
        days,
        atLeast: 1,
        limit: LIST,
        carrier: `bat_${claim}`,
        alone: true,
        exceptEndpoints: [],
        exceptTenants: [],
        afterTenant,
        worker: "bench",
        now,
      });
      if (claimed.length === 0) {
        break;
      }
      times.push(performance.now() - begun);
      afterTenant = nextTenant;
    }
    await client.query("ROLLBACK");
    await client.query("VACUUM tenants, deliveries");
    return percentiles(times.slice(WARM_UP_CLAIMS));
  });
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "tenants");
  const ten = await bench.tenTenants(world);
  const pace = singles(CONNECTIONS);
  const { events, warmUp } = saturationOf(bench);
  const saturated = await bench.measure(world, {
    name: "tenants-10",
    warmUp,
    flow: { group: ten, events, pace },
  });
  const tenants = bench.events(TENANTS);
  bench.log(`creating ${tenants} tenants`);
  const shape = { name: "each", tenants, endpointsPerTenant: 1, fanOut: "one", inserted: true } as const;
  const group = await world.group(shape);
  const sql = async (text: string): Promise<void> => {
    await withClient(world.adminDatabaseUrl, async (client) => await client.query(text));
  };
  // Deliveries of held tenants wait.
  await sql("UPDATE tenants SET held_at = now()");
  const run = await Run.begin(world, bench.load, { events: tenants });
  const flow = { group, events: tenants, pace };
  const published = await run.publish(flow);
  const claim = await timeClaims(world);
  await sql("UPDATE tenants SET held_at = NULL");
  const releasedAt = performance.now();
  await run.delivered(published.accepted);
  const perSecond = published.accepted / ((performance.now() - releasedAt) / 1_000);
  bench.record({
    name: `tenants-${tenants}`,
    settings: world.settings,
    load: describeLoad(flow),
    statistics: await run.statistics(published),
    usage: await run.usage(),
    notes: { drained_per_second: round(perSecond, 1) },
  });
  bench.findings["tenants"] = {
    tenants,
    claim_ms: claim,
    drained_per_second: round(perSecond, 1),
    share_of_saturation: round(perSecond / saturated.deliveries_per_second, 3),
  };
}

export const tenants: Scenario = {
  name: "tenants",
  about:
    "10,000 tenants with one waiting event each: milliseconds of a claim, and the rate at which they drain",
  run: runScenario,
};
