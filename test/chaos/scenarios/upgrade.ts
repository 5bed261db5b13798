/** `signet migrate` leads an older release's database to today's schema while events flow. */
import { setTimeout as delay } from "node:timers/promises";
import { newId, utcDay } from "#domain/ids.ts";
import { withClient } from "#test/bench/environment/postgres.ts";
import { dataHead, dataTail, indexText } from "#test/bench/load/event-id.ts";
import { LedgerWriter } from "#test/bench/load/ledger-writer.ts";
import { monotonicMs } from "#test/bench/load/monotonic.ts";
import { round } from "#test/bench/report/measurement.ts";
import { isContention } from "#database/errors.ts";
import { keysOf, KEPT, loadRelease } from "#test/upgrade/releases.ts";
import { startTraffic, storeDeliveries } from "#test/upgrade/traffic.ts";
import type { ChaosCase, SetScene } from "../cases.ts";
import { countLedger, ledgerFiles } from "../ledger.ts";
import { untilNone } from "../observe.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { fatalAnswers } from "../run-case.ts";
import { healthyGroup, repeatedAnswers } from "../traffic.ts";
import { type Scene, Trial } from "../trial.ts";
import { countOf, rowsOf } from "./tenant-requests.ts";

/** The newest release with a record, which is what most installations leave. */
const RELEASE = "0.3.0";
const STORED = { full: 200_000, quick: 10_000 } as const;
/** Events of the older release's processes before, during and after the migration. */
const OLDER_EVERY_MS = 20;
const OLDER_TYPE = "bench.older_00";
/** Events over today's api, once it runs. */
const NEWER = { full: 2_000, quick: 300 } as const;
const NEWER_PER_SECOND = 40;
const BEFORE_MS = 3_000;
const DATA_BYTES = 200;
/** How long a publish may wait for a migration on a quiet machine, in milliseconds. */
const WAIT_MAX_MS = 1_000;
const DRAIN = { idleMs: 60_000, maxMs: 180_000 };
const SETTLE_MS = 60_000;

/** Replaces the world's database with the record of the release, and returns settings with its keys. */
async function becomeOlder({ stack, world }: SetScene): Promise<Readonly<Record<string, string>>> {
  await world.stop();
  await withClient(stack.postgres.adminUrl, async (client) => {
    await client.query(`DROP DATABASE ${world.database} WITH (FORCE)`);
    await client.query(`CREATE DATABASE ${world.database}`);
  });
  await loadRelease(RELEASE, world.adminDatabaseUrl);
  return { ...KEPT, ...(await keysOf(RELEASE)) };
}

interface Older {
  /** Ends publishing. Returns the number of events and the longest time that one took, in milliseconds. */
  stop(): Promise<{ readonly events: number; readonly longestMs: number }>;
}

/** Publishes marked events to an endpoint as the older release does, in statements that need no later schema. */
async function publishAsOlder({ world, stack }: Scene, run: string, url: string): Promise<Older> {
  const ledger = new LedgerWriter(ledgerFiles(stack.directory, run).accepted);
  const [place] = await rowsOf<{ tenant: string; endpoint: string }>(
    world,
    "SELECT tenant_id AS tenant, id AS endpoint FROM endpoints WHERE state = 'ACTIVE' ORDER BY id LIMIT 1",
  );
  await rowsOf(world, "UPDATE endpoints SET url = $1 WHERE id = $2", [url, place?.endpoint]);
  const random = (size: number): Uint8Array => crypto.getRandomValues(new Uint8Array(size));
  const stopping = new AbortController();
  let events = 0;
  let longestMs = 0;
  const publishing = withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("SET search_path = public; SET ROLE signet_ingest");
    while (!stopping.signal.aborted) {
      const [nowMs, sentMs] = [Date.now(), monotonicMs()];
      const values = [
        utcDay(nowMs),
        newId("event", nowMs, random),
        place?.tenant,
        `${dataHead(run)}${indexText(events)}${dataTail(run, DATA_BYTES)}`,
        new Date(nowMs),
        newId("delivery", nowMs, random),
        place?.endpoint,
      ];
      try {
        await client.query(
          `WITH accepted AS (
              INSERT INTO events (day, id, tenant_id, type, data, occurred_at, deliveries, created_at)
              VALUES ($1, $2, $3, '${OLDER_TYPE}', $4, $5, 1, $5) RETURNING day, id, tenant_id, type
            )
            INSERT INTO deliveries (day, id, tenant_id, event_id, event_type, endpoint_id, state, created_at)
            SELECT day, $6, tenant_id, id, type, $7, 'QUEUED', $5 FROM accepted`,
          values,
        );
      } catch (error) {
        // A publisher repeats what lost in a deadlock.
        if (!isContention(error)) {
          throw error;
        }
        continue;
      }
      const atMs = monotonicMs();
      longestMs = Math.max(longestMs, atMs - sentMs);
      ledger.append({ accepted: events, sent_ms: sentMs, at_ms: atMs });
      events += 1;
      await delay(OLDER_EVERY_MS);
    }
  });
  publishing.catch(() => undefined);
  return {
    stop: async () => {
      stopping.abort();
      await publishing;
      await ledger.settled();
      return { events, longestMs };
    },
  };
}

const OPEN = `SELECT count(*)::int AS n FROM deliveries
  WHERE (event_type = '${OLDER_TYPE}' OR tenant_id = ANY ($1)) AND state <> 'DELIVERED'`;
/** The events of the other statements have no content that a worker could send. */
const UNREADABLE = `UPDATE deliveries SET state = 'CANCELLED'
  WHERE event_type = 'order.paid' AND state IN ('QUEUED', 'RETRYING', 'DEAD_LETTERED')`;
const MIGRATIONS = "SELECT count(*)::int AS n FROM schema_migrations";

async function upgrade(scene: SetScene): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const newer = quick ? NEWER.quick : NEWER.full;
  const [sink] = await load.openEndpoints(1);
  const trial = await Trial.begin(scene, 100_000);
  try {
    const settings = await becomeOlder(scene);
    const stored = await storeDeliveries(world.adminDatabaseUrl, quick ? STORED.quick : STORED.full);
    const before = await countOf(world, MIGRATIONS);
    const traffic = await startTraffic(world.adminDatabaseUrl);
    const older = await publishAsOlder(scene, trial.run, sink?.url ?? "");
    await delay(BEFORE_MS);
    const began = performance.now();
    await world.migrate();
    const migrateS = (performance.now() - began) / 1_000;
    const migrations = (await countOf(world, MIGRATIONS)) - before;
    const waits = await traffic.stop();
    await rowsOf(world, UNREADABLE);
    // Today's processes start beside the older ones, which still publish.
    await world.run(settings);
    const group = await healthyGroup(scene);
    const from = 50_000;
    const pace = { kind: "open", perSecond: NEWER_PER_SECOND } as const;
    const published = await trial.publish([{ from, count: newer, group, pace }]);
    const { events, longestMs } = await older.stop();
    await load.drain(({ ok }) => ok >= events + newer, DRAIN);
    const open = await untilNone(
      async () => await countOf(world, OPEN, [group.tenants.map(({ id }) => id)]),
      SETTLE_MS,
    );
    const ledger = countLedger(await trial.fates());
    const longest = Math.max(longestMs, ...Object.values(waits));
    return {
      ledger,
      findings: {
        release: RELEASE,
        stored,
        older_events: events,
        newer_events: newer,
        migrations,
        migrate_s: round(migrateS, 2),
        longest_wait_ms: { ...waits, marked_publish: round(longestMs, 0) },
        sent_again: repeatedAnswers(published),
      },
      targets: [
        atMost("no migration was applied", migrations > 0 ? 0 : 1, 0),
        atMost("events never accepted", events + newer - ledger.accepted, 0),
        atMost("lost", ledger.lost, 0),
        atMost("acknowledged twice", ledger.duplicated, 0),
        atMost("deliveries open at the end", open, 0),
        atMost("longest publish, delivery or read, ms", longest, WAIT_MAX_MS),
        fatalAnswers(repeatedAnswers(published)),
      ],
    };
  } finally {
    await trial.end();
  }
}

export const UPGRADE: ChaosCase = {
  name: "upgrade",
  about: "signet migrate on the database of an older release while it publishes and delivers",
  run: upgrade,
};
