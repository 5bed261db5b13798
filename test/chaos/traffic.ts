/** The events of a case: a flow to disturb, a trickle that continues afterwards, and events for hostile receivers. */
import { accessToken } from "../bench/environment/provision.ts";
import type { TenantGroup, World } from "../bench/environment/world.ts";
import type { Behaviour } from "../bench/load/behaviour.ts";
import type { LoadGenerator } from "../bench/load/load-generator.ts";
import type { ClosedLoop, OpenLoop, Published } from "../bench/load/publish-plan.ts";

const PAYLOAD_BYTES = 500;
/** Connections at saturation. */
const CONNECTIONS = 64;
/** Shares of all events. */
const TRICKLE = 0.1;
const HOSTILE = 0.08;
/** How long an event is retried: longer than any outage here. */
const PERSIST_MS = 240_000;
/** Receivers respond after a delay, so that requests are in flight whenever a process dies. */
const ANSWER_MS = 20;

/** Size of a case. */
export interface Size {
  readonly events: number;
  readonly perSecond: number;
  /** Duration of the trickle, which extends past the restart. */
  readonly trickleSeconds: number;
  /** How long a fault lasts. */
  readonly outageMs: number;
  /** Age of a restored backup. */
  readonly olderMs: number;
}

const FULL: Size = { events: 2_000, perSecond: 200, trickleSeconds: 25, outageMs: 15_000, olderMs: 60_000 };
const QUICK: Size = { events: 400, perSecond: 200, trickleSeconds: 10, outageMs: 6_000, olderMs: 10_000 };
const LONG: Size = { events: 3_000, perSecond: 30, trickleSeconds: 130, outageMs: 40_000, olderMs: 60_000 };
const LONG_QUICK: Size = { events: 600, perSecond: 30, trickleSeconds: 30, outageMs: 8_000, olderMs: 10_000 };

/** `long`: a fault lasts for most of a minute, and events continue meanwhile. */
export type Length = "short" | "long";

export function sizeOf(length: Length, quick: boolean): Size {
  return { short: [FULL, QUICK], long: [LONG, LONG_QUICK] }[length][quick ? 1 : 0] ?? FULL;
}

/** Size within `npm test`. */
export const SHORT: Size = { events: 200, perSecond: 40, trickleSeconds: 6, outageMs: 0, olderMs: 0 };

/** An endpoint that misbehaves. */
export interface HostileEndpoint {
  readonly behaviour: Behaviour;
  /** Whether it responds within the sender's timeout of 10 s. */
  readonly punctual: boolean;
}

export interface TrafficShape {
  readonly pace: "steady" | "saturation";
  readonly hostile: readonly HostileEndpoint[];
  readonly payloadBytes?: number;
  /** How the healthy endpoints respond, if not after the default delay. */
  readonly behaviour?: Behaviour;
}

/** Events of one kind, with consecutive indexes within the run. */
export interface Part {
  readonly from: number;
  readonly count: number;
  readonly group: TenantGroup;
  readonly pace: ClosedLoop | OpenLoop;
  readonly payloadBytes?: number | undefined;
}

export interface PublishedPart {
  readonly part: Part;
  readonly published: Published;
}

async function hostileGroup(
  { world, load }: Publishers,
  hostile: TrafficShape["hostile"],
): Promise<TenantGroup> {
  const group = await world.group({
    name: "hostile",
    tenants: 1,
    endpointsPerTenant: hostile.length,
    fanOut: "one",
  });
  for (const [index, { behaviour }] of hostile.entries()) {
    await load.behave(group.endpoints.slice(index, index + 1), behaviour);
  }
  return group;
}

/** Creates four tenants with two endpoints each that respond after a delay. */
export async function healthyGroup({ world, load }: Publishers, behaviour?: Behaviour): Promise<TenantGroup> {
  const group = await world.group({ name: "healthy", tenants: 4, endpointsPerTenant: 2, fanOut: "one" });
  await load.behave(group.endpoints, behaviour ?? { kind: "delay", ms: ANSWER_MS });
  return group;
}

export interface Traffic {
  /** Faults strike during the first part. */
  readonly parts: readonly Part[];
  /** Endpoints that respond within the sender's timeout of 10 s. On a busy machine some responses are still late. */
  readonly punctualUrls: readonly string[];
}

/** Plans the events of a case. */
export async function planTraffic(scene: Publishers, shape: TrafficShape, size: Size): Promise<Traffic> {
  const { events, perSecond, trickleSeconds } = size;
  const { payloadBytes } = shape;
  const healthy = await healthyGroup(scene, shape.behaviour);
  const trickle = Math.round(events * TRICKLE);
  const hostile = shape.hostile.length === 0 ? 0 : Math.round(events * HOSTILE);
  const main = events - trickle - hostile;
  const steady = (rate: number): OpenLoop => ({ kind: "open", perSecond: rate });
  const saturation: ClosedLoop = { kind: "closed", connections: CONNECTIONS, batch: 1 };
  const pace = shape.pace === "steady" ? steady(perSecond) : saturation;
  const parts: Part[] = [
    { from: 0, count: main, group: healthy, pace, payloadBytes },
    { from: main, count: trickle, group: healthy, pace: steady(trickle / trickleSeconds), payloadBytes },
  ];
  const punctual = healthy.endpoints.map(({ url }) => url);
  if (hostile > 0) {
    const group = await hostileGroup(scene, shape.hostile);
    const hostilePace = steady((hostile * perSecond) / main);
    parts.push({ from: main + trickle, count: hostile, group, pace: hostilePace });
    const polite = group.endpoints.filter((_, index) => shape.hostile[index]?.punctual === true);
    punctual.push(...polite.map(({ url }) => url));
  }
  return { parts, punctualUrls: punctual };
}

export interface Publishers {
  readonly world: World;
  readonly load: LoadGenerator;
  /** Target of the events, if not the first api. */
  readonly apiUrl?: string | undefined;
}

/** Publishes the parts in parallel. Resolves when each event was accepted or given up. */
export async function publishParts(
  { world, load, apiUrl = world.signet.apiUrl }: Publishers,
  parts: readonly Part[],
  { run, ledger }: { readonly run: string; readonly ledger: string },
): Promise<PublishedPart[]> {
  const { hostname: host, port } = new URL(apiUrl);
  const plans = await Promise.all(
    parts.map(async (part) => ({
      part,
      tokens: await Promise.all(
        part.group.tenants.map(async (tenant) => await accessToken(world.signet, tenant)),
      ),
    })),
  );
  return await Promise.all(
    plans.map(async ({ part, tokens }) => ({
      part,
      published: await load.publish({
        host,
        ports: [Number(port)],
        run,
        from: part.from,
        count: part.count,
        tokens,
        types: part.group.types,
        payloadBytes: part.payloadBytes ?? PAYLOAD_BYTES,
        pace: part.pace,
        persistMs: PERSIST_MS,
        ledger,
      }),
    })),
  );
}

/** Returns responses other than 202, by status; 0 if the connection broke. Each event was retried with its key. */
export function repeatedAnswers(parts: readonly PublishedPart[]): Record<string, number> {
  const sum: Record<string, number> = {};
  for (const { published } of parts) {
    for (const [status, times] of Object.entries(published.repeated)) {
      sum[status] = (sum[status] ?? 0) + times;
    }
  }
  return sum;
}
