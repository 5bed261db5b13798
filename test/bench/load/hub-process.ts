/** One hub with the product's own code, in a process of its own. */
import { randomInt } from "node:crypto";
// Also makes `pg` read 64-bit numbers as such.
import "#database/pool.ts";
import { machineTimers, systemClock } from "#runtime/machine-timers.ts";
import { createLogger } from "#observability/logger.ts";
import { Hub } from "#revocation/hub.ts";
import { HubListener } from "#revocation/hub-socket.ts";
import { hubSubscription } from "#processes/hub.ts";
import { Primary } from "#revocation/primary.ts";
import { serve } from "./rpc.ts";

const LEASE_MS = 240;
const LOCK_KEYS = 2 ** 31;

export interface HubPlan {
  /** Database, behind a distance. */
  readonly url: string;
  readonly region: string;
  /** 0 for any. */
  readonly port: number;
}

const log = createLogger({ level: "fatal" });
let hub: Hub | undefined;
let asked = 0;

async function start({ url, region, port }: HubPlan): Promise<number> {
  const primary = new Primary({
    subscribe: hubSubscription(url),
    identity: { lockKey: randomInt(LOCK_KEYS), process: "hub", region, version: "bench", leaseMs: LEASE_MS },
    onLine: (line, state) => hub?.relay(line, state),
    timers: machineTimers,
    log,
  });
  const ask = primary.ask.bind(primary);
  primary.ask = async (...question) => {
    asked += 1;
    return await ask(...question);
  };
  hub = new Hub({ upstream: primary, leaseMs: LEASE_MS, timers: machineTimers, log });
  await primary.start();
  hub.start();
  const listener = new HubListener({
    timers: machineTimers,
    clock: systemClock,
    hub,
    listen: { host: "127.0.0.1", port },
    tls: undefined,
    log,
  });
  const { port: bound } = await listener.listen();
  return bound;
}

serve({
  start,
  /** Questions to the primary since the last call, and the smoothed round trip in milliseconds. */
  asked: () => {
    const count = asked;
    asked = 0;
    return { count, roundTripMs: hub?.roundTripMs ?? 0, connections: hub?.connections ?? 0 };
  },
});
