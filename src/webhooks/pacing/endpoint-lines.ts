/**
 * The pace of endpoints with a rate limit. Each attempt gets an instant from the endpoint's line, which all workers
 * share (docs/decisions/0019); until then its delivery waits in its workflow, with the instant among the arguments, so
 * that any worker lets it through. Time is an argument.
 */
import type { LineRequest, LineTurn } from "../../database/repositories/webhooks/endpoint-lines.ts";
import { createBatcher } from "../../database/batcher.ts";
import { putBounded } from "../../domain/bounded-map.ts";
import type { Place } from "../../domain/place.ts";

/** An attempt waits so long inside its activity; longer waits are left to Temporal's timers. */
export const LINE_WAIT_MAX_MS = 2_000;
/** In a local activity: a high limit is no reason to come again. */
export const LINE_HURRY_MAX_MS = 100;
/** Who comes later than this after its instant has missed it, and gets one of the late ones. */
export const LATE_MS = 500;
/** Timers fire late: who waits comes back so long before its instant. */
const LEAD_MS = 500;
/** Who has longer to wait looks again when a part of it has passed: the limit may have been raised. */
const NEAR_MS = 10_000;
const LOOK_PART = 0.25;
const LOOK_MAX_MS = 300_000;
/** What a process was late with it may catch up at this much more than the limit. */
const CATCH_UP = 1.1;
const TAKEN_MAX = 20_000;
const ENDPOINTS_MAX = 10_000;
const BATCH_MAX = 1_024;
const IN_FLIGHT_MAX = 2;

/** Who wants a place. */
export interface PlaceRequest {
  readonly endpointId: string;
  /** Attempts per second. */
  readonly rateLimit: number;
  /** Names the attempt: the same when it is asked for again, also beside itself. */
  readonly attempt: string;
  /** The place that it has already. */
  readonly kept: Place | undefined;
}

export interface EndpointLinesOptions {
  /** Gives out the next instants; each endpoint occurs once. */
  readonly takeTurns: (
    requests: readonly LineRequest[],
    nowMs: number,
  ) => Promise<ReadonlyMap<string, LineTurn>>;
  readonly now: () => number;
}

interface Wanted {
  readonly endpointId: string;
  readonly rateLimit: number;
  readonly late: boolean;
}

export class EndpointLines {
  readonly #options: EndpointLinesOptions;
  /** What attempts were given here lately: first attempts are begun twice, by who starts a workflow and by its activity. */
  readonly #taken = new Map<string, Promise<Place>>();
  /** When this process may send to the endpoint again, Unix milliseconds. */
  readonly #freeAtMs = new Map<string, number>();
  readonly #batcher;

  constructor(options: EndpointLinesOptions) {
    this.#options = options;
    this.#batcher = createBatcher({
      maxItems: BATCH_MAX,
      maxInFlight: IN_FLIGHT_MAX,
      flush: async (wanted: readonly Wanted[]) => await this.#take(wanted),
    });
  }

  /**
   * The attempt's place: the one it has, unless it missed it or the limit has changed since.
   *
   * @throws when the database cannot be asked
   */
  async place(request: PlaceRequest): Promise<Place> {
    const { rateLimit, attempt, kept } = request;
    if (kept !== undefined && this.#isGood(kept, rateLimit)) {
      return kept;
    }
    const pending = this.#taken.get(attempt);
    const taken = await pending;
    if (taken !== undefined && this.#isGood(taken, rateLimit)) {
      return taken;
    }
    const newer = this.#taken.get(attempt);
    // Who else missed it may have asked already.
    return await (newer === undefined || newer === pending ? this.#ask(request, taken ?? kept) : newer);
  }

  /**
   * Lets attempts of one endpoint leave this process one after the other, also those that were held up together.
   *
   * @returns milliseconds to wait
   */
  gate(endpointId: string, rateLimit: number): number {
    const nowMs = this.#options.now();
    const startMs = Math.max(nowMs, this.#freeAtMs.get(endpointId) ?? 0);
    putBounded(this.#freeAtMs, endpointId, startMs + 1_000 / (rateLimit * CATCH_UP), ENDPOINTS_MAX);
    return startMs - nowMs;
  }

  async #ask({ endpointId, rateLimit, attempt }: PlaceRequest, missed: Place | undefined): Promise<Place> {
    const late = missed?.rateLimit === rateLimit;
    const place = this.#batcher.add({ endpointId, rateLimit, late });
    putBounded(this.#taken, attempt, place, TAKEN_MAX);
    place.catch(() => this.#taken.delete(attempt));
    return await place;
  }

  #isGood(place: Place, rateLimit: number): boolean {
    return place.rateLimit === rateLimit && place.atMs >= this.#options.now() - LATE_MS;
  }

  async #take(wanted: readonly Wanted[]): Promise<Place[]> {
    const lines = new Map<string, { rateLimit: number; fresh: number; late: number }>();
    const numbers = wanted.map(({ endpointId, rateLimit, late }) => {
      const line = lines.get(endpointId) ?? { rateLimit, fresh: 0, late: 0 };
      lines.set(endpointId, line);
      // Of those that were loaded around a change the newest knows best.
      line.rateLimit = rateLimit;
      const kind = late ? "late" : "fresh";
      line[kind] += 1;
      return line[kind] - 1;
    });
    const turns = await this.#options.takeTurns(
      [...lines].map(([endpointId, line]) => ({ endpointId, ...line })),
      this.#options.now(),
    );
    return wanted.map(({ endpointId, late }, index) => {
      const turn = turns.get(endpointId);
      const rateLimit = lines.get(endpointId)?.rateLimit;
      if (turn === undefined || rateLimit === undefined) {
        throw new Error(`the line of ${endpointId} gave no instant`);
      }
      const fromMs = late ? turn.lateFromMs : turn.freshFromMs;
      return { atMs: Math.ceil(fromMs + ((numbers[index] ?? 0) * 1_000) / rateLimit), rateLimit };
    });
  }
}

/**
 * When to come again for places: shortly before those that are near, and together for all others.
 *
 * @returns of each, Unix milliseconds; undefined where there is no place
 */
export function nextLooks(places: readonly (Place | undefined)[], nowMs: number): (number | undefined)[] {
  const far = places.flatMap((place) =>
    place !== undefined && place.atMs - nowMs > NEAR_MS ? [place.atMs - nowMs] : [],
  );
  const farMs = Math.min(LOOK_MAX_MS, Math.max(NEAR_MS, LOOK_PART * Math.min(...far)));
  return places.map((place) => {
    if (place === undefined) {
      return undefined;
    }
    const waitMs = place.atMs - nowMs;
    return Math.floor(nowMs + Math.max(0, (waitMs > NEAR_MS ? farMs : waitMs) - LEAD_MS));
  });
}
