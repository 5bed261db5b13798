/** The dead-letter queue: a bulk replay of 10,000, and pages and groups of a queue of 1,000,000. */
import { type KeyObject, randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Client } from "pg";
import { findContentRoot, sealNewContents } from "#webhooks/ingest/event-content.ts";
import { idDay } from "#domain/ids.ts";
import { testKeyring } from "#test/support/keyring.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { withClient } from "../environment/postgres.ts";
import { accessToken, requestJson } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { round } from "../report/measurement.ts";
import { type Percentiles, percentiles } from "../measure/statistics.ts";
import type { Bench, Scenario } from "./bench.ts";

const LETTERS = 1_000_000;
const REPLAYED = 10_000;
const PAGES = 1_000;
/** Uncounted requests elsewhere in the queue, so that the process has compiled its code. */
const WARM_UP_PAGES = 300;
const PAGE = 100;
/** Size of the text in an event's data, in bytes. */
const DATA_BYTES = 500;
const GROUPINGS = 100;
const SEEDED_AT_ONCE = 50_000;
const SEALED_AT_ONCE = 1_000;
const DAY_MS = 86_400_000;
const POLL_MS = 20;
const ERRORS = ["status", "timeout", "connect", "tls", "dns"] as const;

/** A tenant's queue and API access. */
export interface Queue {
  readonly url: string;
  readonly token: string;
  readonly tenantId: string;
  readonly endpointIds: readonly string[];
}

/** Creates a tenant with endpoints for a queue. */
export async function makeQueue(world: World, name: string, endpoints: number): Promise<Queue> {
  const { tenants } = await world.group({
    name,
    tenants: 1,
    endpointsPerTenant: endpoints,
    fanOut: "one",
  });
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("the group has no tenants");
  }
  const endpointIds = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ id: string }>("SELECT id FROM endpoints WHERE tenant_id = $1", [
      tenant.id,
    ]);
    return rows.map(({ id }) => id);
  });
  return {
    url: `${world.signet.apiUrl}/v1/webhooks`,
    token: await accessToken(world.signet, tenant),
    tenantId: tenant.id,
    endpointIds,
  };
}

/** Inserts dead letters of the last seven days, as their attempts leave them, without workflows. */
export async function fill(world: World, { tenantId, endpointIds }: Queue, letters: number): Promise<void> {
  await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("SELECT ensure_day_partitions((now() - interval '7 days')::date, 8)");
    for (let seeded = 0, turn = 0; seeded < letters; seeded += SEEDED_AT_ONCE, turn += 1) {
      await seedDeadLetters(client, {
        tenantId,
        endpointId: endpointIds[turn % endpointIds.length] ?? "",
        count: Math.min(SEEDED_AT_ONCE, letters - seeded),
        atMs: Date.now() - (turn % 7) * DAY_MS,
        error: ERRORS[turn % ERRORS.length] ?? "status",
      });
    }
    await untilFolded(world);
    await client.query("VACUUM (ANALYZE) events, deliveries");
    await client.query("CHECKPOINT");
  });
}

/** Seals contents for the events that the pages show, as publishing does. Seeded events have none. */
async function sealNewest(world: World, { tenantId }: Queue, kek: Buffer): Promise<void> {
  await withClient(world.adminDatabaseUrl, async (client) => {
    const root = await findContentRoot(client, testKeyring(kek), tenantId);
    if (root === undefined) {
      throw new Error("the tenant has no data key");
    }
    const { rows } = await client.query<{ id: string }>(
      `SELECT event_id AS id FROM deliveries WHERE tenant_id = $1 AND state = 'DEAD_LETTERED'
        ORDER BY day DESC, id DESC LIMIT $2`,
      [tenantId, (PAGES + 1) * PAGE],
    );
    for (let from = 0; from < rows.length; from += SEALED_AT_ONCE) {
      await seal(client, root, {
        tenantId,
        ids: rows.slice(from, from + SEALED_AT_ONCE).map(({ id }) => id),
      });
    }
    await client.query("VACUUM (ANALYZE) events");
    await client.query("CHECKPOINT");
  });
}

async function seal(
  client: Client,
  root: KeyObject,
  { tenantId, ids }: { readonly tenantId: string; readonly ids: readonly string[] },
): Promise<void> {
  const data = JSON.stringify({ text: "x".repeat(DATA_BYTES) });
  const contents = sealNewContents(
    ids.map((id) => ({ id, tenantId, data })),
    () => root,
    randomBytes,
  );
  await client.query(
    `UPDATE events e SET data = NULL, content = w.content
      FROM unnest($1::date[], $2::text[], $3::bytea[]) AS w(day, id, content) WHERE e.day = w.day AND e.id = w.id`,
    [ids.map(idDay), ids, contents],
  );
}

async function untilFolded(world: World): Promise<void> {
  await withClient(world.adminDatabaseUrl, async (client) => {
    while ((await client.query("SELECT FROM dead_letter_changes LIMIT 1")).rowCount !== 0) {
      await delay(POLL_MS);
    }
  });
}

/** Times single requests, one after the other, in milliseconds. */
async function timed(count: number, ask: () => Promise<unknown>): Promise<Percentiles> {
  const times: number[] = [];
  for (let call = 0; call < count; call += 1) {
    const begun = monotonicMs();
    await ask();
    times.push(monotonicMs() - begun);
  }
  return percentiles(times);
}

/** Times pages, starting with the newest. */
async function pages({ url, token }: Queue, count: number, filter = ""): Promise<Percentiles> {
  let cursor = "";
  return await timed(count, async () => {
    const page = await requestJson("GET", `${url}/dlq?limit=${PAGE}${filter}${cursor}`, token);
    const next = page["next_cursor"];
    cursor = typeof next === "string" ? `&cursor=${encodeURIComponent(next)}` : "";
  });
}

/** Replays the whole queue in one job. Returns letters per second from the request to completion. */
async function replay({ url, token }: Queue, letters: number): Promise<number> {
  const begun = monotonicMs();
  const job = await requestJson("POST", `${url}/dlq/replay`, token, { filter: {}, rate_per_second: 5_000 });
  for (;;) {
    const { state, done } = await requestJson("GET", `${url}/replays/${String(job["id"])}`, token);
    if (state === "COMPLETED") {
      if (done !== letters) {
        throw new Error(`only ${String(done)} of ${letters} dead letters were replayed`);
      }
      return round((letters / (monotonicMs() - begun)) * 1_000, 1);
    }
    await delay(POLL_MS);
  }
}

async function runScenario(bench: Bench): Promise<void> {
  const kek = randomBytes(32);
  const world = await bench.world({ SIGNET_KEK: kek.toString("base64") }, "dead-letters");
  const small = await makeQueue(world, "replayed", 1);
  await fill(world, small, REPLAYED);
  const perSecond = await replay(small, REPLAYED);
  const letters = bench.events(LETTERS);
  bench.log(`${perSecond} replayed per second; inserting ${letters} dead letters`);
  const large = await makeQueue(world, "large", 10);
  await fill(world, large, letters);
  await sealNewest(world, large, kek);
  await pages(large, WARM_UP_PAGES, `&endpoint_id=${large.endpointIds.at(-1)}`);
  bench.findings["dead_letters"] = {
    letters,
    replayed_per_second: perSecond,
    page_ms: await pages(large, PAGES),
    groups_ms: await timed(
      GROUPINGS,
      async () => await requestJson("GET", `${large.url}/dlq/groups?limit=100`, large.token),
    ),
  };
}

export const deadLetters: Scenario = {
  name: "dead-letters",
  about: "bulk replay of 10,000 dead letters; pages and groups of a queue of 1,000,000",
  run: runScenario,
};
