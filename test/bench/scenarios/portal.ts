/** The portal's pages with 1,000,000 deliveries in the database, requested like one person's browser. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { newId } from "#domain/ids.ts";
import { seedDeadLetters } from "#test/support/seeded-letters.ts";
import { withClient } from "../environment/postgres.ts";
import { accessToken, requestJson, signIn } from "../environment/provision.ts";
import type { World } from "../environment/world.ts";
import { monotonicMs } from "../load/monotonic.ts";
import { type Percentiles, percentiles } from "../measure/statistics.ts";
import type { Bench, Scenario } from "./bench.ts";
import { fillHistory } from "./history.ts";

const DELIVERIES = 1_000_000;
const ASKED = 200;
const DAY_MS = 86_400_000;
/** Number of dead letters in the queue. */
const DEAD_LETTERS = 10_000;
/** Number of deliveries with a rare state or endpoint, three weeks old. */
const RARE = 20;
const RARE_AGE_MS = 21 * DAY_MS;

/** Pages by the name of their figure. `:name` stands for one of the tenant's objects. */
const PAGES = {
  home: "/portal",
  endpoints: "/portal/endpoints",
  endpoint: "/portal/endpoints/:endpoint",
  endpoint_hours: "/portal/endpoints/:endpoint/hours",
  deliveries: "/portal/deliveries",
  deliveries_of_endpoint: "/portal/deliveries?endpoint_id=:endpoint",
  deliveries_of_rare_endpoint: "/portal/deliveries?endpoint_id=:rare",
  deliveries_delivered: "/portal/deliveries?state=DELIVERED",
  deliveries_queued: "/portal/deliveries?state=QUEUED",
  deliveries_retrying: "/portal/deliveries?state=RETRYING",
  deliveries_cancelled: "/portal/deliveries?state=CANCELLED",
  deliveries_expired: "/portal/deliveries?state=EXPIRED",
  deliveries_of_rare_type: "/portal/deliveries?event_type=bench.rare",
  delivery: "/portal/deliveries/:delivery",
  dead_letters: "/portal/dead-letters",
  events: "/portal/events",
  event: "/portal/events/:event",
  event_types: "/portal/event-types",
  recover: "/portal/endpoints/:endpoint/recover",
  replays: "/portal/replays",
  credentials: "/portal/credentials",
  compliance: "/portal/compliance",
  search: "/portal/search?q=:delivery",
} as const;

interface Visitor {
  readonly apiUrl: string;
  readonly cookie: string;
  readonly tenantId: string;
  readonly endpointId: string;
}

async function visit(world: World): Promise<Visitor> {
  const { tenants } = await world.group({
    name: "portal",
    tenants: 1,
    endpointsPerTenant: 10,
    fanOut: "one",
  });
  const [tenant] = tenants;
  if (tenant === undefined) {
    throw new Error("the group has no tenants");
  }
  const { apiUrl } = world.signet;
  const token = await accessToken(world.signet, tenant);
  const { url } = await requestJson("POST", `${apiUrl}/v1/portal/links`, token, {});
  const link = new URL(String(url)).searchParams.get("link") ?? "";
  const cookie = await signIn(`${apiUrl}/portal/sign-in`, { link });
  const endpointId = await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ id: string }>("SELECT id FROM endpoints WHERE tenant_id = $1", [
      tenant.id,
    ]);
    return rows[0]?.id ?? "";
  });
  return { apiUrl, cookie, tenantId: tenant.id, endpointId };
}

/** Adds rare deliveries and a queue of dead letters. Returns the values for `:name` in page addresses. */
async function addRarities(world: World, { tenantId, endpointId }: Visitor): Promise<Record<string, string>> {
  const rare = newId("endpoint", Date.now(), randomBytes);
  await withClient(world.adminDatabaseUrl, async (client) => {
    const { rows } = await client.query<{ name: string }>(
      `SELECT attname AS name FROM pg_attribute
        WHERE attrelid = 'endpoints'::regclass AND attnum > 0 AND attgenerated = '' AND attname <> 'id' AND NOT attisdropped`,
    );
    const columns = rows.map(({ name }) => name).join(", ");
    await client.query(
      `INSERT INTO endpoints (id, ${columns}) SELECT $2, ${columns} FROM endpoints WHERE id = $1`,
      [endpointId, rare],
    );
    const atMs = Date.now() - RARE_AGE_MS;
    for (const state of ["DELIVERED", "RETRYING", "CANCELLED", "EXPIRED"]) {
      const ids = await seedDeadLetters(client, { tenantId, endpointId: rare, count: RARE, atMs });
      await client.query("UPDATE deliveries SET state = $2 WHERE id = ANY ($1)", [ids, state]);
    }
    const ids = await seedDeadLetters(client, { tenantId, endpointId, count: RARE, atMs });
    await client.query(
      "UPDATE deliveries SET state = 'DELIVERED', event_type = 'bench.rare' WHERE id = ANY ($1)",
      [ids],
    );
    for (const error of ["status", "timeout", "connect", "tls"]) {
      await seedDeadLetters(client, { tenantId, endpointId, count: DEAD_LETTERS / 4, error });
    }
    await client.query("VACUUM (ANALYZE) events, deliveries");
    await client.query("CHECKPOINT");
  });
  const {
    rows: [oldest],
  } = await withClient(
    world.adminDatabaseUrl,
    async (client) =>
      await client.query<{ id: string; event: string }>(
        "SELECT id, event_id AS event FROM deliveries WHERE tenant_id = $1 AND state = 'DELIVERED' ORDER BY day LIMIT 1",
        [tenantId],
      ),
  );
  return { endpoint: endpointId, rare, delivery: oldest?.id ?? "", event: oldest?.event ?? "" };
}

/** A page as somebody requests it again and again. */
export interface Asked {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Number of timed requests. */
  readonly times: number;
  /** Pause before each of them, in milliseconds. */
  readonly pauseMs?: number;
}

/** Times a page from request to end, in milliseconds, and returns its bytes without shared files. */
export async function timePage({
  url,
  headers,
  times,
  pauseMs = 0,
}: Asked): Promise<Percentiles & { readonly bytes: number }> {
  const taken: number[] = [];
  let bytes = 0;
  const warmUp = Math.ceil(times / 10);
  for (let call = 0; call < times + warmUp; call += 1) {
    if (pauseMs > 0) {
      await delay(pauseMs);
    }
    const begun = monotonicMs();
    const answer = await fetch(url, { headers });
    const text = await answer.text();
    if (answer.status !== 200) {
      throw new Error(`${url} answered ${answer.status}`);
    }
    taken.push(monotonicMs() - begun);
    bytes = Buffer.byteLength(text);
  }
  return { ...percentiles(taken.slice(warmUp)), bytes };
}

/** Returns the unpacked size of the files that every page loads, in bytes. */
async function filesOf({ apiUrl, cookie }: Visitor): Promise<number> {
  const page = await (await fetch(`${apiUrl}/portal`, { headers: { cookie } })).text();
  const paths = new Set([...page.matchAll(/"(\/portal\/assets\/[^"]+)"/g)].map(([, path = ""]) => path));
  const files = await Promise.all(
    [...paths].map(async (path) => await (await fetch(apiUrl + path)).arrayBuffer()),
  );
  return files.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

async function runScenario(bench: Bench): Promise<void> {
  const world = await bench.world({}, "portal");
  const visitor = await visit(world);
  const deliveries = bench.events(DELIVERIES);
  bench.log(`inserting ${deliveries} finished deliveries`);
  await fillHistory(world.adminDatabaseUrl, deliveries);
  const names = await addRarities(world, visitor);
  const pages: Record<string, Percentiles> = {};
  const shared = await filesOf(visitor);
  let most = 0;
  for (const [name, page] of Object.entries(PAGES)) {
    const path = page.replace(/:(\w+)/, (_, stands: string) => names[stands] ?? "");
    const { apiUrl, cookie } = visitor;
    const measured = await timePage({ url: apiUrl + path, headers: { cookie }, times: ASKED });
    pages[`${name}_ms`] = measured;
    most = Math.max(most, shared + measured.bytes);
    bench.log(`${name}: ${JSON.stringify(pages[`${name}_ms`])}`);
  }
  bench.findings["portal"] = { deliveries, asked: ASKED, most_bytes: most, ...pages };
  await world.stop();
}

export const portal: Scenario = {
  name: "portal",
  about: "the portal's pages with 1,000,000 deliveries in the database, requested one after the other",
  run: runScenario,
};
