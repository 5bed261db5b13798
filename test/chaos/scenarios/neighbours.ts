/** Effects of one tenant on others: endpoints that hang, registrations in bulk. */
import { createServer, type AddressInfo } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import {
  accessToken,
  provisionTenant,
  registerEndpoints,
  requestJson,
  type Tenant,
  untilActive,
} from "#test/bench/environment/provision.ts";
import type { World } from "#test/bench/environment/world.ts";
import { percentiles } from "#test/bench/measure/statistics.ts";
import { round } from "#test/bench/report/measurement.ts";
import type { SetScene } from "../cases.ts";
import { countLedger, type Fate } from "../ledger.ts";
import { atMost, type CaseOutcome } from "../result.ts";
import { type Part } from "../traffic.ts";
import { Trial } from "../trial.ts";

const HANGING = { full: 1_000, quick: 100 } as const;
const SECONDS = { full: 120, quick: 30 } as const;
const QUIET_SECONDS = 15;
/** Events per second to hanging endpoints, to a healthy one, and to one that fails every first attempt. */
const RATES = { hanging: 50, healthy: 20, failing: 20 } as const;
/** Longer than the sender's timeout of 10 s. */
const HANG_MS = 10_500;
const DRAIN = { idleMs: 45_000, maxMs: 150_000 };
/** Latency bounds of the neighbours. */
const FIRST_P99_MS = 2_000;
const SECOND_P99_MS = 20_000;

interface Spread {
  readonly p50_ms: number;
  readonly p99_ms: number;
}

/** Returns the time from sending the event to its n-th request. */
function spreadOf(fates: readonly Fate[], attempt: number): Spread {
  const found = fates.flatMap(({ sentMs, requestsMs }) => {
    const atMs = requestsMs[attempt];
    return atMs === undefined || Number.isNaN(sentMs) ? [] : [atMs - sentMs];
  });
  const { p50, p99 } = percentiles(found);
  return { p50_ms: round(p50, 0), p99_ms: round(p99, 0) };
}

/** 1,000 endpoints of one tenant hang, beside a healthy tenant and one whose first attempts fail (R6). */
export async function hangingNeighbour(scene: SetScene): Promise<CaseOutcome> {
  const { world, load, quick } = scene;
  const seconds = quick ? SECONDS.quick : SECONDS.full;
  const one = { tenants: 1, endpointsPerTenant: 1, fanOut: "one" } as const;
  const healthy = await world.group({ ...one, name: "healthy" });
  const failing = await world.group({ ...one, name: "failing" });
  const endpointsPerTenant = quick ? HANGING.quick : HANGING.full;
  const hanging = await world.group({ ...one, name: "hanging", endpointsPerTenant });
  await load.behave(failing.endpoints, { kind: "fail", attempts: 1 });
  await load.behave(hanging.endpoints, { kind: "delay", ms: HANG_MS });

  let from = 0;
  const part = (group: Part["group"], perSecond: number, lasts: number): Part => {
    const count = perSecond * lasts;
    from += count;
    return { from: from - count, count, group, pace: { kind: "open", perSecond } };
  };
  const quiet = [part(healthy, RATES.healthy, QUIET_SECONDS), part(failing, RATES.failing, QUIET_SECONDS)];
  const busy = [part(healthy, RATES.healthy, seconds), part(failing, RATES.failing, seconds)];
  const counted = from;
  const hung = part(hanging, RATES.hanging, seconds);
  const trial = await Trial.begin(scene, from);
  try {
    await trial.publish(quiet);
    await trial.publish([...busy, hung]);
    await load.drain(({ ok }) => ok >= counted, DRAIN);
    const all = await trial.fates();
    const of = ({ from: first, count }: Part): Fate[] =>
      all.filter(({ index }) => index >= first && index < first + count);
    const [b0 = [], c0 = []] = quiet.map(of);
    const [b = [], c = []] = busy.map(of);
    const ledger = countLedger([...b0, ...c0, ...b, ...c]);
    const second = spreadOf(c, 1);
    return {
      ledger,
      findings: {
        hanging_endpoints: endpointsPerTenant,
        healthy: { quiet: spreadOf(b0, 0), beside: spreadOf(b, 0) },
        failing_first_attempts: { quiet: spreadOf(c0, 0), beside: spreadOf(c, 0) },
        failing_second_attempts: { quiet: spreadOf(c0, 1), beside: second },
      },
      targets: [
        atMost("events of the neighbours never accepted", counted - ledger.accepted, 0),
        atMost("events of the neighbours not acknowledged", ledger.lost, 0),
        atMost("healthy neighbour, p99 ms", spreadOf(b, 0).p99_ms, FIRST_P99_MS),
        atMost("failing neighbour, first attempts, p99 ms", spreadOf(c, 0).p99_ms, FIRST_P99_MS),
        atMost("failing neighbour, second attempts, p99 ms", second.p99_ms, SECOND_P99_MS),
      ],
    };
  } finally {
    await trial.end();
  }
}

const REGISTERED = { full: 50, quick: 20 } as const;
const VERIFIED = 5;
const VERIFIED_S = 5;

/** Returns the seconds until a new endpoint of the tenant is verified, measured several times. */
async function verifySeveral({ world, load }: SetScene, tenant: Tenant, already: number): Promise<number[]> {
  const took: number[] = [];
  for (let number = 1; number <= VERIFIED; number += 1) {
    const began = performance.now();
    await registerEndpoints(world.signet, tenant, await load.openEndpoints(1), ["verify.me"]);
    await untilActive(world.signet, tenant, already + number);
    took.push(round((performance.now() - began) / 1_000, 2));
  }
  return took;
}

/** Registers endpoints that never answer their pings. */
async function registerSilent(world: World, tenant: Tenant, port: number, count: number): Promise<void> {
  const token = await accessToken(world.signet, tenant);
  for (let number = 0; number < count; number += 1) {
    await requestJson("POST", `${world.signet.apiUrl}/v1/webhooks/endpoints`, token, {
      url: `http://127.0.0.1:${port}/${number}`,
      events: ["never.sent"],
    });
  }
}

/** Two tenants register 50 endpoints each, which never answer, while a third verifies its own (R5). */
export async function registrations(scene: SetScene): Promise<CaseOutcome> {
  const { world, quick } = scene;
  const count = quick ? REGISTERED.quick : REGISTERED.full;
  const silent = createServer((socket) => void socket.on("error", () => socket.destroy()).resume());
  await new Promise<void>((resolve) => {
    silent.listen(0, "127.0.0.1", resolve);
  });
  const { port } = silent.address() as AddressInfo;
  const group = await world.group({ name: "third", tenants: 1, endpointsPerTenant: 1, fanOut: "one" });
  const [third] = group.tenants;
  const others = await Promise.all(
    ["bulk-1", "bulk-2"].map(async (name) => await provisionTenant(world.signet, world.operatorToken, name)),
  );
  const events = RATES.healthy * QUIET_SECONDS;
  const trial = await Trial.begin(scene, events);
  try {
    if (third === undefined) {
      throw new Error("the third tenant was not created");
    }
    const quiet = await verifySeveral(scene, third, 1);
    const publishing = trial.publish([
      { from: 0, count: events, group, pace: { kind: "open", perSecond: RATES.healthy } },
    ]);
    const registering = Promise.all(
      others.map(async (tenant) => await registerSilent(world, tenant, port, count)),
    );
    // Let the first registrations start.
    await delay(500);
    const beside = await verifySeveral(scene, third, 1 + VERIFIED);
    await Promise.all([publishing, registering]);
    await load(scene, events);
    const ledger = countLedger(await trial.fates());
    return {
      ledger,
      findings: { registered: 2 * count, verified_s: { quiet, beside } },
      targets: [
        atMost("lost", ledger.lost, 0),
        atMost("verification of the third tenant, s at most", Math.max(...beside), VERIFIED_S),
      ],
    };
  } finally {
    await trial.end();
    silent.close();
  }
}

async function load(scene: SetScene, events: number): Promise<void> {
  await scene.load.drain(({ ok }) => ok >= events, DRAIN);
}
