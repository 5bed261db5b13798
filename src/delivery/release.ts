/** Telling workflows that deliveries are no longer theirs. */
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import { releaseSignal } from "../../workflows/messages.ts";

/** A delivery and the workflow that has it, if one does. */
export interface Carried {
  readonly id: string;
  readonly carrier: string | null;
}

/** Best effort: a carrier that is not told finds out at the next attempt, or when its week ends. */
export class Releaser {
  readonly #client: Client;
  readonly #log: Logger;
  readonly #signals = new Set<Promise<void>>();

  constructor(client: Client, log: Logger) {
    this.#client = client;
    this.#log = log;
  }

  /** After the commit: nobody waits for Temporal. */
  release(deliveries: readonly Carried[]): void {
    const byCarrier = new Map<string, string[]>();
    for (const { id, carrier } of deliveries) {
      if (carrier !== null) {
        byCarrier.set(carrier, [...(byCarrier.get(carrier) ?? []), id]);
      }
    }
    for (const [carrier, ids] of byCarrier) {
      const signal = this.#client.workflow
        .getHandle(carrier)
        .signal(releaseSignal, { delivery_ids: ids })
        .catch((error: unknown) => this.#log.debug({ err: error, carrier }, "carrier could not be told"))
        .finally(() => this.#signals.delete(signal));
      this.#signals.add(signal);
    }
  }

  /** Resolves when no signal is under way. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#signals);
  }
}
