/** Signals workflows about changes to their deliveries. */
import { type Client, WorkflowNotFoundError } from "@temporalio/client";
import type { Logger } from "pino";
import type { Timers } from "#domain/clock.ts";
import { attemptNowSignal, releaseSignal } from "#workflows/messages.ts";

/** A delivery and the workflow that carries it, if any. */
export interface Carried {
  readonly id: string;
  readonly carrier: string | null;
}

/** Concurrent signals, and carriers waiting for theirs: a bulk replay must not crowd out starts. */
const SIGNALS_MAX = 16;
const WAITING_MAX = 20_000;
/** A list's workflow starts up to a second after its first attempts, so a signal may come before it. */
const NOT_STARTED_WAITS_MS = [200, 1_000, 2_000];
const NOT_STARTED_WAIT_OF_MANY_MS = 1_000;

interface Sending {
  readonly signal: typeof releaseSignal;
  readonly carrier: string;
  readonly ids: string[];
  /** After each of these waits the signal is repeated while there is no such workflow. */
  readonly waitsMs: readonly number[];
}

/** Best effort: a carrier that misses a signal notices at the next attempt, or when its week ends. */
export class Releaser {
  readonly #client: Client;
  readonly #log: Logger;
  readonly #timers: Timers;
  /** Signals in their order, by name and carrier. */
  readonly #waiting = new Map<string, Sending>();
  readonly #bulk = new Set<Promise<void>>();
  readonly #requests = new Set<Promise<void>>();
  #ends = false;

  constructor(client: Client, timers: Timers, log: Logger) {
    this.#client = client;
    this.#log = log;
    this.#timers = timers;
  }

  /** Called after the commit. Does not wait for Temporal. */
  release(deliveries: readonly Carried[]): void {
    this.#sendAll(deliveries, { signal: releaseSignal, waitsMs: [] });
  }

  /** Signals the carriers of many deliveries, in turns, that the next attempts are due now. */
  attemptAllNow(deliveries: readonly Carried[]): void {
    this.#sendAll(deliveries, { signal: attemptNowSignal, waitsMs: [NOT_STARTED_WAIT_OF_MANY_MS] });
  }

  /** Signals the carrier that the next attempt of a delivery is due now. */
  attemptNow({ id, carrier }: Carried & { readonly carrier: string }): void {
    this.#send(this.#requests, {
      signal: attemptNowSignal,
      carrier,
      ids: [id],
      waitsMs: NOT_STARTED_WAITS_MS,
    });
  }

  #sendAll(deliveries: readonly Carried[], what: Pick<Sending, "signal" | "waitsMs">): void {
    for (const { id, carrier } of deliveries) {
      const key = `${what.signal.name} ${carrier}`;
      const waiting = this.#waiting.get(key);
      if (waiting !== undefined) {
        waiting.ids.push(id);
      } else if (carrier !== null && this.#waiting.size < WAITING_MAX) {
        this.#waiting.set(key, { ...what, carrier, ids: [id] });
      }
    }
    this.#signalNext();
  }

  #signalNext(): void {
    for (const [key, sending] of this.#waiting) {
      if (this.#bulk.size >= SIGNALS_MAX) {
        return;
      }
      this.#waiting.delete(key);
      this.#send(this.#bulk, sending);
    }
  }

  #send(inProgress: Set<Promise<void>>, sending: Sending): void {
    const { carrier } = sending;
    const sent = this.#signal(sending)
      .catch((error: unknown) => this.#log.debug({ err: error, carrier }, "carrier could not be signalled"))
      .finally(() => {
        inProgress.delete(sent);
        this.#signalNext();
      });
    inProgress.add(sent);
  }

  async #signal(sending: Sending): Promise<void> {
    const { signal, carrier, ids } = sending;
    const [waitMs, ...later] = sending.waitsMs;
    try {
      await this.#client.workflow.getHandle(carrier).signal(signal, { delivery_ids: ids, by: "api" });
    } catch (error) {
      if (waitMs === undefined || this.#ends || !(error instanceof WorkflowNotFoundError)) {
        throw error;
      }
      await this.#timers.sleep(waitMs);
      await this.#signal({ ...sending, waitsMs: later });
    }
  }

  /** Drops waiting signals, and resolves when none is in progress. */
  async drain(): Promise<void> {
    this.#ends = true;
    this.#waiting.clear();
    await Promise.allSettled([...this.#bulk, ...this.#requests]);
  }
}
