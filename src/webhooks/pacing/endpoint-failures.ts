/**
 * Endpoints that this process reached or failed to reach since it last wrote to the database. A delivery costs two
 * map entries. Deliveries of several seconds share one statement.
 */
import { putBounded } from "#domain/bounded-map.ts";

const ENDPOINTS_MAX = 50_000;

export interface EndpointFailure {
  readonly endpointId: string;
  /** First failure after the last 2xx, in Unix milliseconds. */
  readonly sinceMs: number;
  /** When a delivery first failed its last attempt; null if none did. */
  readonly exhaustedMs: number | null;
}

export interface EndpointReached {
  readonly endpointId: string;
  /** Last 2xx, in Unix milliseconds. */
  readonly atMs: number;
}

export interface FailureNotes {
  readonly reached: readonly EndpointReached[];
  readonly failed: readonly EndpointFailure[];
}

export class EndpointFailures {
  #reached = new Map<string, number>();
  #failed = new Map<string, EndpointFailure>();

  /** Records the result of an attempt. `last` marks the last attempt of its delivery. */
  note(
    endpointId: string,
    { ok, last }: { readonly ok: boolean; readonly last: boolean },
    nowMs: number,
  ): void {
    if (ok) {
      putBounded(this.#reached, endpointId, nowMs, ENDPOINTS_MAX);
      this.#failed.delete(endpointId);
      return;
    }
    const before = this.#failed.get(endpointId);
    const exhaustedMs = before?.exhaustedMs ?? (last ? nowMs : null);
    putBounded(
      this.#failed,
      endpointId,
      { endpointId, sinceMs: before?.sinceMs ?? nowMs, exhaustedMs },
      ENDPOINTS_MAX,
    );
  }

  /** Writes the recorded notes. If the write fails, the notes are kept. */
  async flush(write: (notes: FailureNotes) => Promise<void>): Promise<void> {
    const [reached, failed] = [this.#reached, this.#failed];
    if (reached.size === 0 && failed.size === 0) {
      return;
    }
    this.#reached = new Map();
    this.#failed = new Map();
    try {
      await write({
        reached: [...reached].map(([endpointId, atMs]) => ({ endpointId, atMs })),
        failed: [...failed.values()],
      });
    } catch (error) {
      this.#restore(reached, failed);
      throw error;
    }
  }

  #restore(reached: ReadonlyMap<string, number>, failed: ReadonlyMap<string, EndpointFailure>): void {
    for (const [endpointId, failure] of failed) {
      if (!this.#reached.has(endpointId)) {
        const later = this.#failed.get(endpointId);
        const exhaustedMs = failure.exhaustedMs ?? later?.exhaustedMs ?? null;
        putBounded(this.#failed, endpointId, { ...failure, exhaustedMs }, ENDPOINTS_MAX);
      }
    }
    for (const [endpointId, atMs] of reached) {
      if (!this.#reached.has(endpointId)) {
        putBounded(this.#reached, endpointId, atMs, ENDPOINTS_MAX);
      }
    }
  }
}
