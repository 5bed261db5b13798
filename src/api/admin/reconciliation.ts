/** Whether every accepted delivery is accounted for (docs/operations.md, Reconciliation). */
import { type Static, Type } from "typebox";
import type { Pool, PoolClient } from "#database/pool.ts";
import {
  addsUp,
  type Balance,
  balanceHour,
  findIncompleteEvents,
  type HourBalance,
} from "#database/repositories/webhooks/delivery-balance.ts";
import { findUncounted } from "#database/repositories/webhooks/uncounted-hours.ts";
import { transaction } from "#database/transaction.ts";
import { invalidParameters } from "#domain/errors.ts";
import { HOUR_MS } from "#domain/ids.ts";
import { Closed, Id, Resource, Timestamp } from "#http/common.ts";
import { Instant } from "#http/instants.ts";
import type { SignetServer } from "#http/types.ts";
import { operation } from "../openapi/operation.ts";
import type { AdminServices } from "./services.ts";

const HOURS_DEFAULT = 24;
const HOURS_MAX = 168;
/** Rows in a response, and events named for each. */
const ROWS_MAX = 1_000;
const EVENTS_MAX = 100;

const Numbers = Resource("DeliveryBalance", {
  accepted: Type.Integer(),
  delivered: Type.Integer(),
  dead_lettered: Type.Integer(),
  expired: Type.Integer(),
  cancelled: Type.Integer(),
  open: Type.Integer({ description: "Queued or retrying" }),
});

const Row = Resource("ReconciledHour", {
  tenant_id: Id("tenant"),
  hour: Timestamp,
  adds_up: Type.Boolean(),
  counted: Numbers,
  stored: Numbers,
  incomplete_events: Type.Array(
    Type.Object({ event_id: Id("event"), missing: Type.Integer({ description: "Missing deliveries" }) }),
    { description: "Events with fewer deliveries than they were accepted with, 100 at most" },
  ),
});

const Reconciliation = Resource("Reconciliation", {
  from: Timestamp,
  to: Timestamp,
  adds_up: Type.Boolean(),
  uncounted_hours: Type.Integer({
    description: "Hours from before an upgrade that are left out, because a worker has still to count them",
  }),
  counted: Numbers,
  stored: Numbers,
  data: Type.Array(Row, {
    description: "All hours of the tenant, if one is given; else those that do not add up. 1,000 at most",
  }),
});

function toNumbers({ dead, ...others }: Balance): Static<typeof Numbers> {
  return { ...others, dead_lettered: dead };
}

function sumOf(balances: readonly Balance[]): Static<typeof Numbers> {
  const sum = (name: keyof Balance): number => balances.reduce((total, balance) => total + balance[name], 0);
  return {
    accepted: sum("accepted"),
    delivered: sum("delivered"),
    dead_lettered: sum("dead"),
    expired: sum("expired"),
    cancelled: sum("cancelled"),
    open: sum("open"),
  };
}

export function registerReconciliation(server: SignetServer, { pool, clock }: AdminServices): void {
  server.get(
    "/admin/v1/reconciliation",
    operation({
      id: "reconcile",
      tag: "tenants",
      operator: "read",
      summary: "Prove that no delivery was lost",
      description:
        "For each tenant and hour of acceptance, compares counts with the stored deliveries: accepted = delivered + dead-lettered + expired + cancelled + open. The counts are written when deliveries are accepted and when they change, apart from the deliveries. Both sides are read at one instant. `since` and `until` are rounded down and up to the hour; 24 hours ago and now by default. A span has at most 168 hours.",
      querystring: Closed({
        since: Type.Optional(Instant),
        until: Type.Optional(Instant),
        tenant_id: Type.Optional(Id("tenant")),
      }),
      response: { 200: Reconciliation },
    }),
    async ({ query }) => {
      const hours = hoursBetween(query, clock.now());
      return await reconcile(pool, hours, query.tenant_id ?? null);
    },
  );
}

/** Returns the hours of a span. @throws SignetError INVALID_REQUEST */
function hoursBetween(
  { since, until }: { readonly since?: string; readonly until?: string },
  nowMs: number,
): readonly Date[] {
  const end = Math.ceil((until === undefined ? nowMs + 1 : Date.parse(until)) / HOUR_MS);
  const start = since === undefined ? end - HOURS_DEFAULT : Math.floor(Date.parse(since) / HOUR_MS);
  if (!(end - start >= 1 && end - start <= HOURS_MAX)) {
    const detail = `must be a valid time at most ${HOURS_MAX} hours before \`until\``;
    throw invalidParameters([{ pointer: "/since", code: "range", detail }]);
  }
  return Array.from({ length: end - start }, (_, index) => new Date((start + index) * HOUR_MS));
}

async function reconcile(
  pool: Pool,
  hours: readonly Date[],
  tenantId: string | null,
): Promise<Static<typeof Reconciliation>> {
  return await transaction(pool, async (db) => {
    await db.query("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY");
    const uncounted = await findUncounted(db, hours);
    const balances: HourBalance[] = [];
    for (const hour of hours.filter((each) => !uncounted.has(each.getTime()))) {
      balances.push(...(await balanceHour(db, hour, tenantId)));
    }
    const shown = balances.filter((balance) => tenantId !== null || !addsUp(balance)).slice(0, ROWS_MAX);
    const data: Static<typeof Row>[] = [];
    for (const balance of shown) {
      data.push(await toReconciliationRow(db, balance));
    }
    const [first = new Date(0)] = hours;
    const last = hours.at(-1) ?? first;
    return {
      from: first.toISOString(),
      to: new Date(last.getTime() + HOUR_MS).toISOString(),
      adds_up: balances.every(addsUp),
      uncounted_hours: uncounted.size,
      counted: sumOf(balances.map(({ counted }) => counted)),
      stored: sumOf(balances.map(({ stored }) => stored)),
      data,
    };
  });
}

async function toReconciliationRow(db: PoolClient, balance: HourBalance): Promise<Static<typeof Row>> {
  const { tenant_id: tenantId, hour, counted, stored } = balance;
  const complete = addsUp(balance);
  const incomplete = complete ? [] : await findIncompleteEvents(db, balance, EVENTS_MAX);
  return {
    tenant_id: tenantId,
    hour: hour.toISOString(),
    adds_up: complete,
    counted: toNumbers(counted),
    stored: toNumbers(stored),
    incomplete_events: [...incomplete],
  };
}
