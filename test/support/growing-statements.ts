/** Statements as the service runs them, whose cost a tenant can grow. */
import { randomBytes } from "node:crypto";
import type { Client } from "pg";
import type { Pool, Queryable } from "#database/pool.ts";
import type { ServiceRole } from "#database/role-settings.ts";
import { readQueues } from "#database/repositories/operator-overview.ts";
import { expireOverdue } from "#database/repositories/webhooks/carriers.ts";
import { claimFirst, findOtherDays } from "#database/repositories/webhooks/claims.ts";
import { listDeliveries } from "#database/repositories/webhooks/deliveries.ts";
import type { DeliveryFilter } from "#database/repositories/webhooks/delivery-filter.ts";
import { insertEvents, listEvents } from "#database/repositories/webhooks/events.ts";
import { matchEndpoints } from "#database/repositories/webhooks/matches.ts";
import { claimLetters, claimRetries } from "#database/repositories/webhooks/list-claims.ts";
import { findOverdue, readLag } from "#database/repositories/webhooks/reconciliation.ts";
import { DAY_MS, newId, utcDay } from "#domain/ids.ts";
import { createLogger } from "#observability/logger.ts";
import { purgeExpired } from "#webhooks/retention/retention.ts";
import type { Growth } from "./growth.ts";
import { FILLED_TYPE } from "./many-rows.ts";
import type { StatementCost } from "./statement-cost.ts";
import { machineTimers } from "#runtime/machine-timers.ts";

export const LIMIT = 100;
export const RETENTION_DAYS = 30;
/** An endpoint and a type that no delivery has. */
export const OTHER_ENDPOINT = "ep_000000000000000000000000";
export const OTHER_TYPE = "other.type";

/** A database whose tenant has as much of an axis as `size` says. */
export interface Filled {
  readonly owner: Client;
  readonly tenantId: string;
  readonly endpointId: string;
  readonly size: number;
}

/** One run of a statement. */
export interface Run extends Omit<Filled, "owner"> {
  readonly cost: StatementCost;
  readonly db: Queryable;
  readonly now: Date;
}

export interface Statement {
  readonly growth: Growth;
  readonly role: ServiceRole;
  /** Whether it runs in transactions of its own. */
  readonly commits?: true;
  /** What is not counted; its result goes to `run`. */
  readonly before?: (run: Run) => Promise<unknown>;
  readonly run: (run: Run, before: unknown) => Promise<unknown>;
}

export interface Axis {
  /** The smaller size; the other one is ten times as large. */
  readonly size: number;
  readonly fill: (filled: Filled) => Promise<unknown>;
  readonly statements: Readonly<Record<string, Statement>>;
}

const days = (now: Date): [string, string] => [utcDay(now.getTime() - DAY_MS), utcDay(now.getTime())];
export const within = async <T>(answer: Promise<T>): Promise<T> => await answer;

/** Publishes one event of a type that these endpoints take. */
export const publish: Omit<Statement, "growth"> = {
  role: "signet_ingest",
  before: async ({ db, tenantId }) => await matchEndpoints(db, [{ tenantId, type: FILLED_TYPE }]),
  run: async ({ db, tenantId, now }, before) => {
    const matched = before as Awaited<ReturnType<typeof matchEndpoints>>;
    const at = now.getTime();
    const deliveries = (matched[0]?.endpoints ?? []).map(({ endpoint_id: endpointId }) => ({
      id: newId("delivery", at, randomBytes),
      endpointId,
      state: "QUEUED" as const,
    }));
    const id = newId("event", at, randomBytes);
    const event = { id, tenantId, type: FILLED_TYPE, content: Buffer.from("{}"), sourceId: null };
    const times = { now, keysAfter: now, signedKeysAfter: now, expiresAt: now };
    const keys = [
      { kind: "id" as const, tenantId, route: "POST /v1/events", key: "growth", bodyHash: Buffer.alloc(1) },
    ];
    const { inserted } = await insertEvents(db, [{ ...event, occurredAt: now, keys, deliveries }], times, {
      expected: matched,
    });
    if (!inserted.has(id)) {
      throw new Error("the event was not inserted");
    }
  },
};

export const match: Omit<Statement, "growth"> = {
  role: "signet_ingest",
  run: async ({ db, tenantId }) => await matchEndpoints(db, [{ tenantId, type: FILLED_TYPE }]),
};

export function listOf(filter: DeliveryFilter): Statement {
  return {
    growth: "flat",
    role: "signet_api",
    run: async ({ db, tenantId, now }) =>
      await listDeliveries(db, { tenantId, filter, before: undefined, limit: LIMIT, now }),
  };
}

export function eventsOf(filter: Parameters<typeof listEvents>[2]["filter"]): Statement {
  return {
    growth: "flat",
    role: "signet_api",
    run: async ({ db, tenantId }) =>
      await listEvents(db, tenantId, { filter, before: undefined, limit: LIMIT }),
  };
}

/** Claims a list of so many first attempts. */
const claimOf = async ({ db, now }: Run, limit: number): Promise<unknown> =>
  await claimFirst(db, {
    days: days(now),
    atLeast: 1,
    limit,
    carrier: "bat_1",
    alone: true,
    exceptEndpoints: [],
    exceptTenants: [],
    afterTenant: "",
    afterDelivery: "",
    worker: "key_me",
    now,
  });

const claim: Statement = {
  growth: "flat",
  role: "signet_worker",
  run: async (run) => await claimOf(run, 64),
};

/** Claims as many as the axis says. */
export const largerClaim: Statement = {
  growth: "linear",
  role: "signet_worker",
  run: async (run) => await claimOf(run, run.size),
};

const lists = (now: Date) => ({ carriers: ["bat_1", "bat_2"], listMax: 64, worker: "key_me", now }) as const;

export function worker(growth: Growth, run: Statement["run"]): Statement {
  return { growth, role: "signet_worker", run };
}

/** Begins a transaction of its own. */
function inOrder(growth: Growth, run: (pool: Pool, now: Date) => Promise<unknown>): Statement {
  return {
    ...worker(growth, async ({ cost, now }) => await run(cost.pool("signet_worker"), now)),
    commits: true,
  };
}

/** What the worker asks every second or minute, whatever waits. */
export const rounds = {
  claim,
  "the search of other days": worker("flat", async ({ db, now }) => await findOtherDays(db, days(now), 30)),
  "the claim of retries": worker("flat", async ({ db, now }) => {
    const claim = { ...lists(now), spreadSeconds: 60, afterTenant: "" };
    return [
      await claimRetries(db, { ...claim, timedOut: false }),
      await claimRetries(db, { ...claim, timedOut: true }),
    ];
  }),
  "the claim of dead letters": worker("flat", async ({ db, now }) => {
    const recent = { recentEndpoints: [], diedBefore: now, afterEndpoint: "" };
    return await claimLetters(db, { ...lists(now), ...recent });
  }),
  "the search of overdue deliveries": inOrder("flat", async (pool, now) => {
    const before = new Date(now.getTime() - 60_000);
    return await findOverdue(pool, { before, claimedBefore: before, now, limit: LIMIT });
  }),
  "the expiry of dead letters": worker("flat", async ({ db, now }) => await expireOverdue(db, now)),
  "the lag": inOrder("flat", readLag),
} satisfies Axis["statements"];

export const queues: Statement = {
  growth: "linear",
  role: "signet_operator",
  commits: true,
  run: async ({ cost, now }) => await readQueues(cost.pool("signet_operator"), now.getTime()),
};

/** Removes what has expired, as the hourly upkeep does. */
export async function purge({ cost, now }: Run): Promise<void> {
  await purgeExpired({
    timers: machineTimers,
    pool: cost.pool("signet_worker"),
    clock: { now: () => now.getTime() },
    log: createLogger({ level: "silent" }),
    retentionDays: RETENTION_DAYS,
  });
}
