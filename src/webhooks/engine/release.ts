/** Signals workflows about changes to their deliveries. */
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import { attemptNowSignal, releaseSignal } from "../../../workflows/messages.ts";

/** A delivery and the workflow that carries it, if any. */
export interface Carried {
  readonly id: string;
  readonly carrier: string | null;
}

/** Concurrent signals, and carriers waiting for theirs: a bulk replay must not crowd out starts. */
const SIGNALS_MAX = 16;
const WAITING_MAX = 20_000;

/** Best effort: a carrier that misses a signal notices at the next attempt, or when its week ends. */
export class Releaser {
  readonly #client: Client;
  readonly #log: Logger;
  readonly #waiting = new Map<string, string[]>();
  readonly #signals = new Set<Promise<void>>();

  constructor(client: Client, log: Logger) {
    this.#client = client;
    this.#log = log;
  }

  /** Called after the commit. Does not wait for Temporal. */
  release(deliveries: readonly Carried[]): void {
    for (const { id, carrier } of deliveries) {
      const ids = carrier === null ? undefined : this.#waiting.get(carrier);
      if (ids !== undefined) {
        ids.push(id);
      } else if (carrier !== null && this.#waiting.size < WAITING_MAX) {
        this.#waiting.set(carrier, [id]);
      }
    }
    this.#signalNext();
  }

  /** Signals the carrier that the next attempt of a delivery is due now. */
  attemptNow({ id, carrier }: Carried & { readonly carrier: string }): void {
    this.#send(carrier, attemptNowSignal, [id]);
  }

  #signalNext(): void {
    for (const [carrier, ids] of this.#waiting) {
      if (this.#signals.size >= SIGNALS_MAX) {
        return;
      }
      this.#waiting.delete(carrier);
      this.#send(carrier, releaseSignal, ids);
    }
  }

  #send(carrier: string, signal: typeof releaseSignal, ids: readonly string[]): void {
    const sent = this.#client.workflow
      .getHandle(carrier)
      .signal(signal, { delivery_ids: ids })
      .catch((error: unknown) => this.#log.debug({ err: error, carrier }, "carrier could not be signalled"))
      .finally(() => {
        this.#signals.delete(sent);
        this.#signalNext();
      });
    this.#signals.add(sent);
  }

  /** Drops waiting signals, and resolves when none is in progress. */
  async drain(): Promise<void> {
    this.#waiting.clear();
    await Promise.allSettled(this.#signals);
  }
}
