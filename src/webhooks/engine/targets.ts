/** Targets of first attempts in memory, so that a hand-over reads no endpoint (decision 42). */
import { type Batcher, createBatcher } from "#database/batcher.ts";
import type { Pool } from "#database/pool.ts";
import { loadTargets, type Target } from "#database/repositories/webhooks/targets.ts";
import type { Timers } from "#domain/clock.ts";
import { putBounded } from "#domain/bounded-map.ts";

/** Each takes some 2 KiB. */
const TARGETS_MAX = 5_000;
const LOADED_AT_ONCE = 250;
/** How long a target of a held tenant is believed. */
const HELD_MS = 1_000;

interface Known {
  readonly target: Target;
  readonly atMs: number;
}

export class Targets {
  readonly #known = new Map<string, Known>();
  readonly #loading = new Set<string>();
  readonly #loads: Batcher<string, Target | undefined>;
  readonly #timers: Timers;

  constructor(pool: Pool, timers: Timers) {
    this.#timers = timers;
    this.#loads = createBatcher({
      timers,
      maxItems: LOADED_AT_ONCE,
      maxInFlight: 1,
      flush: async (ids) => {
        const loaded = new Map((await loadTargets(pool, ids)).map((target) => [target.endpoint_id, target]));
        return ids.map((id) => loaded.get(id));
      },
    });
  }

  /** Returns the target of an endpoint. If it is not known, or its tenant was held, it is read for the next time. */
  find(endpointId: string): Target | undefined {
    const known = this.#known.get(endpointId);
    if (
      known === undefined ||
      (known.target.held_at !== null && this.#timers.monotonic() - known.atMs >= HELD_MS)
    ) {
      this.#load(endpointId);
    }
    return known?.target.held_at === null ? known.target : undefined;
  }

  /** Forgets the target of an endpoint that has changed, and reads it for the next time. */
  changed(endpointId: string): void {
    this.#known.delete(endpointId);
    this.#load(endpointId);
  }

  #load(endpointId: string): void {
    if (this.#loading.has(endpointId)) {
      return;
    }
    this.#loading.add(endpointId);
    this.#loads
      .add(endpointId)
      .then(
        (target) => {
          if (target !== undefined) {
            putBounded(this.#known, endpointId, { target, atMs: this.#timers.monotonic() }, TARGETS_MAX);
          }
        },
        // Its deliveries wait in the outbox, and the next one asks again.
        () => undefined,
      )
      .finally(() => this.#loading.delete(endpointId));
  }
}
