/** The claims of first attempts as their statements make them (claims.ts), over deliveries in memory. */
import assert from "node:assert/strict";
import { DAY_MS, newId } from "#domain/ids.ts";
import type { PlannedClaim } from "#webhooks/engine/dispatch-plan.ts";
import type { ClaimResult } from "#webhooks/engine/known-outbox.ts";

/** Tenants that a claim covers: few, so that claims take turns among them. */
const TENANTS_MAX = 3;
/** The age of deliveries that wait once more. */
const OLD_MS = 60_000;
/** A claim gives a tenant up to this multiple of its share: less than a list, as with many tenants. */
const ROOM = 1;

/** A delivery in the outbox. */
export interface Waiting {
  readonly id: string;
  readonly tenant: string;
  /** Number of its day. */
  readonly day: number;
  /** The time in its id. */
  readonly madeMs: number;
  slow: boolean;
  /** Whether its day was one of the latest when it was published. */
  readonly wasLatest: boolean;
  /** Time in which claims could be made, when it became claimable, and when the worker was told of it. */
  sinceMs: number;
  toldMs: number | undefined;
  /** The same with claims beside busy tenants, when the worker was told of it, if its tenant is not busy. */
  besideMs: number | undefined;
  /** Whether a search for other days has found it. */
  looked: boolean;
}

/** Notes that a delivery waits from now on, and that the worker does not know. */
export function beginWait(each: Waiting, sinceMs: number): void {
  Object.assign(each, { sinceMs, toldMs: undefined, besideMs: undefined, looked: false });
}

/** Deliveries to be published. */
export interface Published {
  readonly tenants: readonly string[];
  readonly count: number;
  readonly daysAgo?: number;
  readonly slow?: boolean;
  /** Whether they have waited before, and are queued once more. */
  readonly old?: boolean;
  /** How long before their commit they were made. */
  readonly commitMs?: number;
  /** Whether the notification picks this worker, another one, or is lost. */
  readonly told: "me" | "other" | "nobody";
  /** Whether it names tenants and deliveries. */
  readonly named?: boolean;
}

/** Returns published deliveries as they wait. */
export function waitingOf(
  { tenants, count, daysAgo = 0, slow = false, old = false, commitMs = 0 }: Published,
  random: (size: number) => Buffer,
  { nowMs, today, sinceMs }: { readonly nowMs: number; readonly today: number; readonly sinceMs: number },
): Waiting[] {
  const day = today - daysAgo;
  const madeMs = nowMs - commitMs - (old ? OLD_MS : 0);
  return Array.from({ length: count }, (_, index) => ({
    id: newId("delivery", Math.max(0, day * DAY_MS + madeMs), random),
    madeMs,
    tenant: tenants[index % tenants.length] ?? "",
    day,
    slow,
    wasLatest: daysAgo < 2,
    sinceMs,
    toldMs: undefined,
    besideMs: undefined,
    looked: false,
  }));
}

/**
 * Returns what a claim takes.
 *
 * @param waiting in the order of their ids, except those of tenants that are held
 * @param latest the latest days
 */
export function find(
  claim: PlannedClaim,
  waiting: readonly Waiting[],
  { latest, nowMs }: { readonly latest: readonly number[]; readonly nowMs: number },
): ClaimResult & { readonly rows: readonly Waiting[] } {
  if (claim.mode === "named") {
    const rows = waiting.filter(({ id, slow }) => !slow && claim.ids.includes(id));
    assert.ok(new Set(rows.map(({ day }) => day)).size <= 1, "claims by id from several days");
    return { rows, claimed: rows.length, more: false, nextTenant: "" };
  }
  const { day, limit, atLeast, afterTenant, exceptTenants, madeWithinMs } = claim;
  const found = waiting.filter(
    (each) =>
      (day === undefined ? latest.includes(each.day) : String(each.day) === day) &&
      each.tenant > afterTenant &&
      !exceptTenants.includes(each.tenant),
  );
  // Tenants of which only slow deliveries wait take places, too.
  const tenants = [...new Set(found.map(({ tenant }) => tenant))].toSorted().slice(0, TENANTS_MAX);
  const size = Math.min(limit, Math.ceil((ROOM * limit) / Math.max(1, tenants.length)));
  const turns = tenants.flatMap((tenant) =>
    found
      .filter((each) => each.tenant === tenant && !each.slow && each.madeMs > nowMs - madeWithinMs)
      .slice(0, size)
      .map((each, turn) => ({ each, turn })),
  );
  const picked = turns.toSorted((a, b) => a.turn - b.turn).slice(0, limit);
  const rows = picked.length < atLeast ? [] : picked.map(({ each }) => each);
  return {
    rows,
    claimed: rows.length,
    more: turns.length > limit || turns.some(({ turn }) => turn + 1 >= size),
    nextTenant: tenants.length === TENANTS_MAX ? (tenants.at(-1) ?? "") : "",
  };
}

/** Fails if a delivery has waited for longer than its bound. */
export function expectWithin(boundMs: number, waitedMs: number, each: Waiting): void {
  if (waitedMs > boundMs) {
    assert.fail(`waited ${waitedMs} of ${boundMs} ms: ${JSON.stringify(each)}`);
  }
}
