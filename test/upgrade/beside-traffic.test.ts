/**
 * A database with many stored deliveries is migrated while the processes of its release go on. `SIGNET_TEST_STORED`
 * chooses another number of deliveries. The figures are printed as JSON.
 */
import { randomBytes } from "node:crypto";
import { Pool } from "pg";
import { pino } from "pino";
import { expect, test } from "vitest";
import { migrateDatabase } from "#database/migrate.ts";
import { createPool } from "#database/pool.ts";
import { addsUp, balanceHour } from "#database/repositories/webhooks/delivery-balance.ts";
import { countUncounted } from "#database/repositories/webhooks/uncounted-hours.ts";
import { DAY_MS, HOUR_MS, hourStart } from "#domain/ids.ts";
import { countStored } from "#webhooks/engine/count-stored.ts";
import { foldDeliveryChanges } from "#webhooks/engine/delivery-counts.ts";
import { testKeyring } from "../support/keyring.ts";
import { allowMinutes } from "../support/limits.ts";
import { withoutPause } from "../support/pauses.ts";
import type { TestDatabase } from "../support/test-database.ts";
import { createReleaseDatabase } from "./releases.ts";
import { startTraffic, storeDeliveries, type Waits } from "./traffic.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

const STORED = Number(process.env["SIGNET_TEST_STORED"] ?? 20_000);
/** The oldest release whose schema is migrated beside traffic. */
const RELEASE = "0.2.0";
/** How long a migration may stop anyone, in milliseconds. */
const STOPPED_MAX_MS = 1_000;

allowMinutes(15);

interface Upgraded {
  readonly waits: Waits;
  readonly migrations: number;
  readonly migrateMs: number;
  readonly stored: number;
  readonly countMs: number;
  readonly wrong: readonly unknown[];
  readonly activity: readonly unknown[];
  readonly hours: number;
}

/** Deliveries by state, in the activity of endpoints and in their rows, where the two differ. */
const ACTIVITY = `SELECT e.id, a.retrying, a.dead, d.retrying AS stored_retrying, d.dead AS stored_dead
  FROM endpoints e LEFT JOIN endpoint_activity a ON a.endpoint_id = e.id CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE state = 'RETRYING')::int AS retrying,
      count(*) FILTER (WHERE state = 'DEAD_LETTERED')::int AS dead
    FROM deliveries WHERE endpoint_id = e.id
  ) d WHERE (coalesce(a.retrying, 0), coalesce(a.dead, 0)) <> (d.retrying, d.dead)`;

async function wrongHours(sql: Pool, nowMs: number): Promise<unknown[]> {
  const client = await sql.connect();
  await client.query("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  const wrong: unknown[] = [];
  for (let hour = hourStart(nowMs - 3 * DAY_MS); hour <= nowMs; hour += HOUR_MS) {
    wrong.push(...(await balanceHour(client, new Date(hour), null)).filter((each) => !addsUp(each)));
  }
  await client.query("COMMIT");
  client.release();
  return wrong;
}

/** Migrates beside traffic. Counts while deliveries change, with two workers. */
async function upgrade({ adminUrl, url: serviceUrl }: TestDatabase): Promise<Upgraded> {
  const stored = await storeDeliveries(adminUrl, STORED);
  const traffic = await startTraffic(adminUrl);
  const began = performance.now();
  const migrations = await migrateDatabase({
    timers: machineTimers,
    adminUrl,
    serviceUrl,
    nowMs: Date.now(),
  });
  const migrateMs = Math.round(performance.now() - began);
  const published = await traffic.stopPublishing();

  const log = pino({ enabled: false });
  const pool = createPool({ url: serviceUrl, role: "signet_worker", max: 4, log });
  const sql = new Pool({ connectionString: adminUrl, max: 2 });
  const nowMs = Date.now();
  // The hour in which older processes still published is counted when it has ended.
  const later = new Date(nowMs + 2 * DAY_MS);
  const hours = await countUncounted(pool, later);
  const clock = { now: () => Date.now() };
  const fold = { pool, keyring: testKeyring(Buffer.alloc(32)), clock, randomBytes, deadLetterMs: DAY_MS };
  const countBegan = performance.now();
  while ((await countUncounted(pool, later)) > 0) {
    await Promise.all([countStored(pool, later), countStored(pool, later), foldDeliveryChanges(fold)]);
  }
  const countMs = Math.round(performance.now() - countBegan);
  const waits = await traffic.stop();
  await foldDeliveryChanges(fold);
  const [wrong, { rows: activity }] = [await wrongHours(sql, nowMs), await sql.query(ACTIVITY)];
  await Promise.all([pool.end(), sql.end()]);
  return { waits, migrations, migrateMs, stored: stored + published, countMs, wrong, activity, hours };
}

test("a migration stops publishers, receivers and readers for less than a second, and what is stored is counted once", async () => {
  await withoutPause(async () => {
    const database = await createReleaseDatabase(RELEASE);
    try {
      const { waits, wrong, activity, ...others } = await upgrade(database);
      process.stderr.write(`${JSON.stringify({ release: RELEASE, ...others, longest_wait_ms: waits })}\n`);
      expect(others.hours).toBeGreaterThan(48);
      expect(wrong).toEqual([]);
      expect(activity).toEqual([]);
      expect(Math.max(...Object.values(waits))).toBeLessThan(STOPPED_MAX_MS);
    } finally {
      await database.drop();
    }
  });
});
