/** One run of events through the system: publish, wait for them at the sink, compute figures. */
import { randomBytes } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { accessToken, type Tenant } from "../environment/provision.ts";
import type { Signet } from "../environment/signet.ts";
import type { TenantGroup, World } from "../environment/world.ts";
import { RUN_LENGTH } from "../load/event-id.ts";
import type { DrainLimits, LoadGenerator } from "../load/load-generator.ts";
import type { ClosedLoop, OpenLoop, Published } from "../load/publish-plan.ts";
import { Meter, type Usage } from "../measure/meter.ts";
import { cpuSeconds } from "../measure/process-tree.ts";
import { type FlowStatistics, flowStatistics } from "../measure/statistics.ts";

export const PAYLOAD_BYTES = 500;
const ACCEPTED = 202;
const DRAIN: DrainLimits = { idleMs: 20_000, maxMs: 300_000 };
const QUIET_CORES = 0.25;
const QUIET_TIMEOUT_MS = 20_000;
const SECOND_MS = 1_000;
const TOKENS_AT_ONCE = 8;
/** A third of a token's life. */
const TOKEN_USED_MS = 300_000;

export interface Flow {
  readonly group: TenantGroup;
  readonly events: number;
  readonly pace: ClosedLoop | OpenLoop;
  /** Size of each event's `data`, in bytes (default: 500). */
  readonly payloadBytes?: number;
}

/** A published flow. */
export interface PublishedFlow {
  readonly from: number;
  readonly published: Published;
  readonly accepted: number;
}

/** Tokens by issuer and tenant, so that a measurement after its warm-up does not contain what issuing them costs. */
const issued = new WeakMap<Signet, Map<string, { readonly token: string; readonly atMs: number }>>();

async function recentToken(signet: Signet, tenant: Tenant): Promise<string> {
  const known = issued.get(signet) ?? new Map<string, { readonly token: string; readonly atMs: number }>();
  issued.set(signet, known);
  const { token: recent, atMs = 0 } = known.get(tenant.id) ?? {};
  if (recent !== undefined && performance.now() - atMs < TOKEN_USED_MS) {
    return recent;
  }
  const token = await accessToken(signet, tenant);
  known.set(tenant.id, { token, atMs: performance.now() });
  return token;
}

/** Waits until earlier activity has ceased: retries, visibility, vacuum. */
export async function untilQuiet(roots: Readonly<Record<string, number>>): Promise<void> {
  const used = (): number => Object.values(cpuSeconds(roots)).reduce((total, value) => total + value, 0);
  const deadline = performance.now() + QUIET_TIMEOUT_MS;
  for (let before = used(); performance.now() < deadline;) {
    await delay(SECOND_MS);
    const now = used();
    if (now - before < QUIET_CORES) {
      return;
    }
    before = now;
  }
}

export class Run {
  readonly #world: World;
  readonly #load: LoadGenerator;
  readonly #slots: number;
  readonly #meter: Meter;
  readonly #run = randomBytes(RUN_LENGTH / 2).toString("hex");
  #next = 0;

  private constructor(world: World, load: LoadGenerator, slots: number) {
    this.#world = world;
    this.#load = load;
    this.#slots = slots;
    this.#meter = new Meter(world);
  }

  /** @param slots deliveries per event */
  static async begin(
    world: World,
    load: LoadGenerator,
    { events, slots = 1 }: { events: number; slots?: number },
  ): Promise<Run> {
    const run = new Run(world, load, slots);
    await load.begin(run.#run, events, slots);
    await untilQuiet(world.roots.system);
    await run.#meter.begin();
    return run;
  }

  /** Publishes a flow and resolves when every request has been answered. */
  async publish({ group, events, pace, payloadBytes = PAYLOAD_BYTES }: Flow): Promise<PublishedFlow> {
    const from = this.#next;
    this.#next += events;
    const { signet } = this.#world;
    const { hostname: host } = new URL(signet.apiUrl);
    const tokens: string[] = [];
    for (let first = 0; first < group.tenants.length; first += TOKENS_AT_ONCE) {
      const some = group.tenants.slice(first, first + TOKENS_AT_ONCE);
      tokens.push(...(await Promise.all(some.map(async (tenant) => await recentToken(signet, tenant)))));
    }
    const published = await this.#load.publish({
      host,
      ports: signet.apis.map(({ url }) => Number(new URL(url).port)),
      run: this.#run,
      from,
      count: events,
      tokens,
      types: group.types,
      payloadBytes,
      pace,
    });
    return { from, published, accepted: published.status.filter((status) => status === ACCEPTED).length };
  }

  /** Waits until `events` events were answered 200 at each of their endpoints, or nothing more arrives. */
  async delivered(events: number, limits: Partial<DrainLimits> = {}): Promise<void> {
    const wanted = events * this.#slots;
    await this.#load.drain(({ ok }) => ok >= wanted, { ...DRAIN, ...limits });
  }

  /** Call once, when the last delivery has arrived. */
  async usage(): Promise<Usage> {
    return await this.#meter.finish();
  }

  async statistics({ from, published }: PublishedFlow): Promise<FlowStatistics> {
    return flowStatistics({ published, arrivals: await this.#load.report(), from, slots: this.#slots });
  }
}
