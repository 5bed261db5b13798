/** A backlog that waits while PostgreSQL's statistics say that nothing does, compared to saturation. */
import { performance } from "node:perf_hooks";
import { withClient } from "../environment/postgres.ts";
import { round } from "../report/measurement.ts";
import type { Bench, Scenario } from "./bench.ts";
import { Run } from "./run.ts";
import { saturationOf, singles } from "./saturation.ts";

const BACKLOGS = [100_000, 1_000_000];
const CONNECTIONS = 64;
const BATCH = 1_000;
const DRAIN_MAX_MS = 15 * 60_000;

/** Keeps autovacuum from renewing the statistics of the deliveries. */
const KEEP_STATISTICS = `DO $$ DECLARE part regclass; BEGIN
  FOR part IN SELECT inhrelid FROM pg_inherits WHERE inhparent = 'deliveries'::regclass LOOP
    EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = false)', part);
  END LOOP; END $$`;

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "backlog");
  const group = await bench.tenTenants(world);
  const { events, warmUp } = saturationOf(bench);
  const flow = { group, events, pace: singles(CONNECTIONS) };
  const saturated = await bench.measure(world, { name: "backlog-none", warmUp, flow });
  const ratios: Record<string, number> = {};
  for (const backlog of BACKLOGS.map((count) => bench.events(count))) {
    const sql = async (text: string): Promise<void> => {
      await withClient(world.adminDatabaseUrl, async (client) => await client.query(text));
    };
    // Deliveries of held tenants wait in the outbox. The statistics are those of the empty outbox.
    await sql("UPDATE tenants SET held_at = now()");
    await sql(KEEP_STATISTICS);
    await sql("VACUUM (ANALYZE) deliveries");
    const run = await Run.begin(world, bench.load, { events: backlog });
    const { accepted } = await run.publish({
      group,
      events: backlog,
      pace: { kind: "closed", connections: 4, batch: BATCH },
    });
    await sql("UPDATE tenants SET held_at = NULL");
    const releasedAt = performance.now();
    await run.delivered(accepted, { maxMs: DRAIN_MAX_MS });
    const perSecond = accepted / ((performance.now() - releasedAt) / 1_000);
    await run.usage();
    bench.log(`backlog of ${accepted}: drained at ${Math.round(perSecond)}/s`);
    ratios[String(backlog)] = round(perSecond / saturated.deliveries_per_second, 3);
  }
  bench.findings["backlog"] = { ratios, lowest: Math.min(...Object.values(ratios)) };
}

export const backlog: Scenario = {
  name: "backlog",
  about:
    "100,000 and 1,000,000 deliveries that wait, with the statistics of an empty outbox, against saturation",
  run: runScenario,
};
