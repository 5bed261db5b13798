/** What the simulation of the first lane (dispatch-simulation.ts) has of a worker. */
import type { EventLoopUtilityFunction } from "node:perf_hooks";
import { type PlannedClaim, SMALL_CLAIM } from "#webhooks/engine/dispatch-plan.ts";

export interface SimulationOptions {
  readonly random: () => number;
  readonly batchMax: number;
  readonly underWayMax: number;
  readonly perSecond: number;
}

/** What the loop is at. */
export type Activity = "light" | "sound" | "beside" | "claims" | "fails" | "ended";

interface Planned {
  readonly atMs: number;
  readonly run: () => void;
}

/** What is to happen, in the order of the times. */
export class Agenda {
  readonly #planned: Planned[] = [];

  get next(): Planned | undefined {
    return this.#planned[0];
  }

  shift(): void {
    this.#planned.shift();
  }

  at(atMs: number, run: () => void): void {
    const before = this.#planned.findLastIndex((each) => each.atMs <= atMs);
    this.#planned.splice(before + 1, 0, { atMs, run });
  }
}

/** Returns the utilization of an event loop that has been as busy since the start as it is now. */
export function loopOf(world: Readonly<Record<"nowMs" | "load", number>>): EventLoopUtilityFunction {
  return (of, since) => {
    const total = (loop: typeof of): number => (loop === undefined ? 0 : loop.active + loop.idle);
    const ms = of === undefined ? world.nowMs : total(of) - total(since);
    return { active: world.load * ms, idle: (1 - world.load) * ms, utilization: world.load };
  };
}

/** Claims that the buckets must have allowed. */
export type Spent = Record<"latest" | "named", number>;

export function spend(
  spent: Spent,
  claim: PlannedClaim,
  { claimed, batchMax }: Readonly<Record<"claimed" | "batchMax", number>>,
): void {
  if (claim.mode === "named" || claim.mode === "beside") {
    spent.named += 1;
  } else if (batchMax > 1 && claim.mode !== "other day" && claim.afterTenant === "") {
    spent.latest += claimed > 0 && claimed < claim.limit ? 1 : 0;
  }
}

/**
 * Returns how many rounds may go by before a delivery is claimed. A round is a claim of the latest and one of another day,
 * each after the claim that was under way.
 */
export function roundsOf(mostWaiting: number, { batchMax }: SimulationOptions): number {
  return 4 + 3 * Math.ceil(mostWaiting / Math.min(SMALL_CLAIM, batchMax));
}

/** The places of the open list. */
export class Places {
  readonly #batchMax: number;
  open: number;

  constructor(batchMax: number) {
    this.#batchMax = batchMax;
    this.open = batchMax;
  }

  take(limit: number, added: number): void {
    const left = (limit > this.open ? this.#batchMax : this.open) - added;
    this.open = left <= 0 ? this.#batchMax : left;
  }
}
