/** The claims of first attempts as their statements make them (claims.ts), over deliveries in memory. */
import assert from "node:assert/strict";
import type { PlannedClaim } from "#webhooks/engine/dispatch-plan.ts";
import type { ClaimResult } from "#webhooks/engine/known-outbox.ts";

/** Tenants that a claim covers: few, so that claims take turns among them. */
const TENANTS_MAX = 2;
/** A claim gives a tenant up to this multiple of its share. */
const ROOM = 4;

/** A delivery in the outbox. */
export interface Waiting {
  readonly id: string;
  readonly tenant: string;
  /** Number of its day. */
  readonly day: number;
  readonly slow: boolean;
  /** Time in which claims could be made, when it became claimable, and when the worker was told of it. */
  sinceMs: number;
  toldMs: number | undefined;
  /** The same with claims beside busy tenants, when the worker was told of it, if its tenant is not busy. */
  besideMs: number | undefined;
  /** Whether a search for other days has found it. */
  looked: boolean;
}

/**
 * Returns what a claim takes.
 *
 * @param claimable in the order of their ids
 * @param latest the latest days
 */
export function find(
  claim: PlannedClaim,
  claimable: readonly Waiting[],
  latest: readonly number[],
): ClaimResult & { readonly rows: readonly Waiting[] } {
  if (claim.mode === "named") {
    const rows = claimable.filter(({ id }) => claim.ids.includes(id));
    assert.ok(new Set(rows.map(({ day }) => day)).size <= 1, "claims by id from several days");
    return { rows, claimed: rows.length, more: false, nextTenant: "" };
  }
  const { day, limit, atLeast, afterTenant, exceptTenants } = claim;
  const found = claimable.filter(
    (each) =>
      (day === undefined ? latest.includes(each.day) : String(each.day) === day) &&
      each.tenant > afterTenant &&
      !exceptTenants.includes(each.tenant),
  );
  const tenants = [...new Set(found.map(({ tenant }) => tenant))].toSorted().slice(0, TENANTS_MAX);
  const size = Math.min(limit, Math.ceil((ROOM * limit) / Math.max(1, tenants.length)));
  const turns = tenants.flatMap((tenant) =>
    found
      .filter((each) => each.tenant === tenant)
      .slice(0, size)
      .map((each, turn) => ({ each, turn })),
  );
  const picked = turns.toSorted((a, b) => a.turn - b.turn).slice(0, limit);
  const rows = picked.length < atLeast ? [] : picked.map(({ each }) => each);
  const moreTenants = rows.length > 0 && tenants.length === TENANTS_MAX;
  const rest = rows.length > 0 && (turns.length > limit || turns.some(({ turn }) => turn + 1 >= size));
  return {
    rows,
    claimed: rows.length,
    more: moreTenants || rest || afterTenant !== "",
    nextTenant: moreTenants ? (tenants.at(-1) ?? "") : "",
  };
}

/** Fails if a delivery has waited for longer than its bound. */
export function expectWithin(boundMs: number, waitedMs: number, each: Waiting): void {
  if (waitedMs > boundMs) {
    assert.fail(`waited ${waitedMs} of ${boundMs} ms: ${JSON.stringify(each)}`);
  }
}
