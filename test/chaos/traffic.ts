/** The events of a case: a flow to break, a trickle that goes on afterwards, and those for hostile receivers. */
import { accessToken } from "../bench/environment/provision.ts";
import type { TenantGroup, World } from "../bench/environment/world.ts";
import type { LoadGenerator } from "../bench/load/load-generator.ts";
import type { ClosedLoop, OpenLoop, Published } from "../bench/load/publish-plan.ts";
import type { ChaosCase } from "./cases.ts";

const PAYLOAD_BYTES = 500;
/** Connections at saturation. */
const CONNECTIONS = 64;
/** Shares of the events. */
const TRICKLE = 0.1;
const HOSTILE = 0.08;
/** What is not accepted is sent again for so long: longer than any outage here. */
const PERSIST_MS = 90_000;
/** Receivers answer after a moment, so that requests are in flight whenever something dies. */
const ANSWER_MS = 20;

/** How large a case is. */
export interface Size {
  readonly events: number;
  readonly perSecond: number;
  /** How long the trickle lasts: past the restart. */
  readonly trickleSeconds: number;
  readonly stopMs: number;
}

export const FULL: Size = { events: 2_000, perSecond: 200, trickleSeconds: 25, stopMs: 15_000 };
export const QUICK: Size = { events: 400, perSecond: 200, trickleSeconds: 10, stopMs: 6_000 };
/** Within `npm test`. */
export const SHORT: Size = { events: 200, perSecond: 40, trickleSeconds: 6, stopMs: 0 };

/** Events of one kind; they have consecutive indexes within the run. */
export interface Part {
  readonly from: number;
  readonly count: number;
  readonly group: TenantGroup;
  readonly pace: ClosedLoop | OpenLoop;
  /** Requests that the event of that index takes when nothing goes wrong. */
  readonly requestsOf: (index: number) => number;
}

/** Endpoints that answer within the sender's limit of 10 s: with a machine that is busy beside us, some answers are late. */
export function punctualUrls(parts: readonly Part[], chaos: ChaosCase): string[] {
  return parts.flatMap(({ group }, index) =>
    index < 2
      ? group.endpoints.map(({ url }) => url)
      : group.endpoints.flatMap(({ url }, endpoint) =>
          chaos.hostile[endpoint]?.requests === 1 ? [url] : [],
        ),
  );
}

export interface PublishedPart {
  readonly part: Part;
  readonly published: Published;
}

async function hostileGroup(world: World, load: LoadGenerator, chaos: ChaosCase): Promise<TenantGroup> {
  const group = await world.group({
    name: "hostile",
    tenants: 1,
    endpointsPerTenant: chaos.hostile.length,
    fanOut: "one",
  });
  for (const [index, { behaviour }] of chaos.hostile.entries()) {
    await load.behave(group.endpoints.slice(index, index + 1), behaviour);
  }
  return group;
}

/** What is published in a case; the first part is the one that is to be broken. */
export async function planTraffic(
  world: World,
  load: LoadGenerator,
  chaos: ChaosCase,
  size: Size,
): Promise<Part[]> {
  const { events, perSecond, trickleSeconds } = size;
  const healthy = await world.group({ name: "healthy", tenants: 4, endpointsPerTenant: 2, fanOut: "one" });
  await load.behave(healthy.endpoints, { kind: "delay", ms: ANSWER_MS });
  const trickle = Math.round(events * TRICKLE);
  const hostile = chaos.hostile.length === 0 ? 0 : Math.round(events * HOSTILE);
  const main = events - trickle - hostile;
  const steady = (rate: number): OpenLoop => ({ kind: "open", perSecond: rate });
  const parts: Part[] = [
    {
      from: 0,
      count: main,
      group: healthy,
      pace:
        chaos.pace === "steady" ? steady(perSecond) : { kind: "closed", connections: CONNECTIONS, batch: 1 },
      requestsOf: () => 1,
    },
    {
      from: main,
      count: trickle,
      group: healthy,
      pace: steady(trickle / trickleSeconds),
      requestsOf: () => 1,
    },
  ];
  if (hostile > 0) {
    parts.push({
      from: main + trickle,
      count: hostile,
      group: await hostileGroup(world, load, chaos),
      pace: steady((hostile * perSecond) / main),
      requestsOf: (index) => chaos.hostile[index % chaos.hostile.length]?.requests ?? 1,
    });
  }
  return parts;
}

/** Publishes the parts beside each other; resolves when each event was accepted or given up. */
export async function publishParts(
  world: World,
  load: LoadGenerator,
  run: string,
  parts: readonly Part[],
): Promise<PublishedPart[]> {
  const { signet } = world;
  const { hostname: host, port } = new URL(signet.apiUrl);
  const plans = await Promise.all(
    parts.map(async (part) => ({
      part,
      tokens: await Promise.all(part.group.tenants.map(async (tenant) => await accessToken(signet, tenant))),
    })),
  );
  return await Promise.all(
    plans.map(async ({ part, tokens }) => ({
      part,
      published: await load.publish({
        host,
        port: Number(port),
        run,
        from: part.from,
        count: part.count,
        tokens,
        types: part.group.types,
        payloadBytes: PAYLOAD_BYTES,
        pace: part.pace,
        persistMs: PERSIST_MS,
      }),
    })),
  );
}
