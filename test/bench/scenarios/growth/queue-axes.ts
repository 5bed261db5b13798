/** The axes of deliveries: tenants, endpoints, payloads, and rows that are stored, wait, or have failed. */
import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";
import { claimFirst } from "#database/repositories/webhooks/claims.ts";
import { matchEndpoints } from "#database/repositories/webhooks/matches.ts";
import { DAY_MS, newId, utcDay } from "#domain/ids.ts";
import { fillDeliveries } from "#test/support/many-rows.ts";
import { withClient } from "#test/bench/environment/postgres.ts";
import { accessToken, requestJson } from "#test/bench/environment/provision.ts";
import type { TenantGroup, World } from "#test/bench/environment/world.ts";
import { sum } from "#test/bench/measure/meter.ts";
import { cpuSeconds } from "#test/bench/measure/process-tree.ts";
import { median } from "#test/bench/measure/statistics.ts";
import type { Measurement } from "#test/bench/report/measurement.ts";
import type { Bench } from "../bench.ts";
import { fill, makeQueue, type Queue } from "../dead-letters.ts";
import { fillHistory } from "../history.ts";
import { Run } from "../run.ts";
import { saturationOf, singles } from "../saturation.ts";
import type { Costs } from "./promises.ts";

const CONNECTIONS = 64;
const LIST = 64;
/** Statements and requests that are timed, after as many that are not. */
const TIMED = 20;
/** Deliveries of an event's fan-out at least, however few events that are. */
const EVENTS_MIN = 20;
const BATCH = 1_000;
const DRAIN_MAX_MS = 10 * 60_000;
/** Deliveries that wait when PostgreSQL looks. */
const SEEN_WAITING = 20;

/** Returns the median time of a call, in milliseconds. */
export async function timeOf(ask: (turn: number) => Promise<unknown>): Promise<number> {
  const times: number[] = [];
  for (let turn = 0; turn < 2 * TIMED; turn += 1) {
    const begun = performance.now();
    await ask(turn);
    times.push(performance.now() - begun);
  }
  return median(times.slice(TIMED));
}

function cpuOf({ cpu_s_per_1000: cpu }: Measurement): number {
  return cpu["total"] ?? Number.NaN;
}

/** Returns the CPU of 1,000 deliveries at saturation. */
async function saturate(bench: Bench, world: World, name: string, group?: TenantGroup): Promise<number> {
  const { events, warmUp } = saturationOf(bench);
  const flow = { group: group ?? (await bench.tenTenants(world)), pace: singles(CONNECTIONS) };
  return cpuOf(await bench.measure(world, { name: `growth-${name}`, warmUp, flow: { ...flow, events } }));
}

/** Returns the milliseconds from a start of the api until it is ready. */
export async function startApi({ signet }: World): Promise<number> {
  const [api] = signet.apis;
  await api?.server.end();
  const begun = performance.now();
  await api?.server.restart();
  await api?.untilReady();
  return performance.now() - begun;
}

async function sql(world: World, text: string): Promise<void> {
  await withClient(world.adminDatabaseUrl, async (client) => await client.query(text));
}

/** Times the worker's claim of a full list. Nothing remains of it. */
async function timeClaim(world: World): Promise<number> {
  const now = new Date();
  return await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("SET plan_cache_mode = force_generic_plan");
    await client.query("BEGIN");
    await client.query("UPDATE tenants SET held_at = NULL WHERE held_at IS NOT NULL");
    const ms = await timeOf(async () => {
      await client.query("SAVEPOINT before");
      await claimFirst(client, {
        days: [utcDay(now.getTime() - DAY_MS), utcDay(now.getTime())],
        atLeast: 1,
        limit: LIST,
        carrier: newId("batch", now.getTime(), randomBytes),
        alone: true,
        exceptEndpoints: [],
        exceptTenants: [],
        afterTenant: "",
        afterDelivery: "",
        worker: "bench",
        now,
      });
      await client.query("ROLLBACK TO before");
    });
    await client.query("ROLLBACK");
    return ms;
  });
}

/** Publishes events that wait until {@link release}. Returns the run. */
async function holdBack(bench: Bench, world: World, group: TenantGroup, events: number) {
  await sql(world, "UPDATE tenants SET held_at = now()");
  const run = await Run.begin(world, bench.load, { events });
  const before = sum(cpuSeconds(world.roots.system));
  const { accepted } = await run.publish({
    group,
    events,
    pace: { kind: "closed", connections: 4, batch: Math.min(BATCH, Math.ceil(events / 4)) },
  });
  return { run, accepted, cpu: sum(cpuSeconds(world.roots.system)) - before };
}

export async function tenants(bench: Bench, size: number): Promise<Costs<"tenants">> {
  const world = await bench.world({}, "growth-tenants");
  await bench.tenTenants(world);
  const shape = { tenants: size, endpointsPerTenant: 1, fanOut: "one", inserted: true } as const;
  const group = await world.group({ ...shape, name: `each-of-${size}` });
  const events = Math.max(saturationOf(bench).events, size);
  const flow = { group, events, pace: singles(CONNECTIONS) };
  const warmUp = Math.max(saturationOf(bench).warmUp, size);
  const measured = await bench.measure(world, { name: `growth-tenants-${size}`, warmUp, flow });
  const { run, accepted } = await holdBack(bench, world, group, size);
  const claim_ms = await timeClaim(world);
  await sql(world, "UPDATE tenants SET held_at = NULL");
  await run.delivered(accepted);
  await run.usage();
  return { cpu_s_per_1000: cpuOf(measured), claim_ms };
}

/** Times the statement that finds the endpoints of an event. */
async function timeMatch(world: World, { tenants: [tenant], types: [type = ""] }: TenantGroup) {
  return await withClient(world.adminDatabaseUrl, async (client) => {
    await client.query("SET plan_cache_mode = force_generic_plan");
    return await timeOf(async () => await matchEndpoints(client, [{ tenantId: tenant?.id ?? "", type }]));
  });
}

function endpointsOf(fanOut: "one" | "all") {
  return async (bench: Bench, size: number): Promise<Costs<"fan_out">> => {
    const world = await bench.world({}, `growth-${fanOut}`);
    await bench.tenTenants(world);
    const shape = { tenants: 1, endpointsPerTenant: size, fanOut, inserted: true };
    const group = await world.group({ ...shape, name: `${fanOut}-of-${size}` });
    const slots = fanOut === "all" ? size : 1;
    const { events, warmUp } = saturationOf(bench);
    const measured = await bench.measure(world, {
      name: `growth-${fanOut}-${size}`,
      warmUp: Math.max(EVENTS_MIN, Math.ceil(warmUp / slots)),
      slots,
      flow: { group, events: Math.max(EVENTS_MIN, Math.ceil(events / slots)), pace: singles(CONNECTIONS) },
    });
    return { cpu_s_per_1000: cpuOf(measured), match_ms: await timeMatch(world, group) };
  };
}

export const fanOut = endpointsOf("all");
export const otherEndpoints = endpointsOf("one");

export async function payload(bench: Bench, size: number): Promise<Costs<"payload">> {
  const world = await bench.world({}, "growth-payload");
  // The peak is that of new processes.
  await world.stop();
  await world.run({});
  const { events, warmUp } = saturationOf(bench);
  const flow = { group: await bench.tenTenants(world), payloadBytes: size, pace: singles(CONNECTIONS / 2) };
  const name = `growth-payload-${size}`;
  const measured = await bench.measure(world, { name, warmUp, flow: { ...flow, events: events / 4 } });
  return { cpu_s_per_1000: cpuOf(measured), signet_mib: measured.signet_pss_peak_mib };
}

/** Times a page of a tenant's list. */
async function timePage({ url, token }: Pick<Queue, "url" | "token">, path: string): Promise<number> {
  return await timeOf(async () => await requestJson("GET", `${url}${path}`, token));
}

async function queueOf(
  world: World,
  { tenants: [tenant] }: TenantGroup,
): Promise<Pick<Queue, "url" | "token">> {
  const token = tenant === undefined ? "" : await accessToken(world.signet, tenant);
  return { url: `${world.signet.apiUrl}/v1/webhooks`, token };
}

export async function history(bench: Bench, size: number, before: number): Promise<Costs<"history">> {
  const world = await bench.world({}, "growth-history");
  const group = await bench.tenTenants(world);
  await fillHistory(world.adminDatabaseUrl, size - before);
  const cpu_s_per_1000 = await saturate(bench, world, `history-${size}`);
  const list_ms = await timePage(await queueOf(world, group), "/deliveries?limit=100");
  return { cpu_s_per_1000, list_ms, api_start_ms: await startApi(world) };
}

export async function backlog(bench: Bench, size: number): Promise<Costs<"backlog">> {
  const world = await bench.world({}, "growth-backlog");
  const group = await bench.tenTenants(world);
  await saturate(bench, world, `backlog-${size}-before`);
  const { run, accepted, cpu } = await holdBack(bench, world, group, size);
  await sql(world, "UPDATE tenants SET held_at = NULL");
  const [begun, before] = [performance.now(), sum(cpuSeconds(world.roots.system))];
  await run.delivered(accepted, { maxMs: DRAIN_MAX_MS });
  const seconds = (performance.now() - begun) / 1_000;
  const used = sum(cpuSeconds(world.roots.system)) - before;
  await run.usage();
  // The worst moment: the index has the pages of all that waited, and few wait.
  const few = await holdBack(bench, world, group, SEEN_WAITING);
  await sql(world, "VACUUM (ANALYZE) deliveries");
  const claim_ms = await timeClaim(world);
  await sql(world, "UPDATE tenants SET held_at = NULL");
  await few.run.delivered(few.accepted);
  await few.run.usage();
  const per1000 = (of: number): number => (of / accepted) * 1_000;
  return {
    in_cpu_s_per_1000: per1000(cpu),
    out_cpu_s_per_1000: per1000(used),
    out_s_per_1000: per1000(seconds),
    claim_ms,
  };
}

export async function deadLetters(
  bench: Bench,
  size: number,
  before: number,
): Promise<Costs<"dead_letters">> {
  const world = await bench.world({}, "growth-dead-letters");
  await bench.tenTenants(world);
  const queue = await makeQueue(world, "letters", 10);
  await fill(world, queue, size - before);
  return {
    cpu_s_per_1000: await saturate(bench, world, `dead-letters-${size}`),
    list_ms: await timePage(queue, "/dlq?limit=100"),
    groups_ms: await timePage(queue, "/dlq/groups"),
  };
}

export async function retries(bench: Bench, size: number, before: number): Promise<Costs<"retries">> {
  const world = await bench.world({}, "growth-retries");
  await bench.tenTenants(world);
  const queue = await makeQueue(world, "retries", 1);
  const { tenantId, endpointIds } = queue;
  await withClient(world.adminDatabaseUrl, async (client) => {
    const [endpointId = ""] = endpointIds;
    await fillDeliveries(client, { tenantId, endpointId, state: "RETRYING", count: size - before });
    await client.query("VACUUM (ANALYZE) events, deliveries");
  });
  return {
    cpu_s_per_1000: await saturate(bench, world, `retries-${size}`),
    list_ms: await timePage(queue, "/deliveries?state=RETRYING&limit=100"),
  };
}
