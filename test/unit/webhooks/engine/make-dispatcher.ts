/** Makes dispatchers in simulated time. */
import { randomBytes } from "node:crypto";
import { createLogger } from "#observability/logger.ts";
import { Dispatcher, type DispatcherOptions } from "#webhooks/engine/dispatcher.ts";
import type { SimulatedTime } from "#test/support/simulated-time.ts";

export function makeDispatcher(time: SimulatedTime, options: Partial<DispatcherOptions> = {}): Dispatcher {
  return new Dispatcher({
    timers: time,
    worker: "key_me",
    pool: undefined as never,
    starter: undefined as never,
    health: undefined as never,
    attempts: { firstUnderWay: 0 } as never,
    clock: { now: () => 0, isRight: true } as never,
    randomBytes,
    log: createLogger({ level: "silent" }),
    claimsPerSecond: 60,
    retentionDays: 30,
    batchMax: 64,
    underWayMax: 256,
    loopUtilization: () => ({ active: 0, idle: 0, utilization: 0 }),
    ...options,
  });
}

/** Returns a row of a claim of first attempts, by its index. */
export function claimedRow(_: unknown, index: number): object {
  return {
    delivery_id: `dlv_${index}`,
    tenant_id: "ten_busy",
    endpoint_id: "ep_1",
    carrier: "bat_1",
    epoch: 1,
    tenants: 1,
    last_tenant: "ten_busy",
    more: true,
    whole: false,
  };
}
