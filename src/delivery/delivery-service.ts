/** What tenants do with deliveries and dead letters. Reads come from PostgreSQL, never from Temporal. */
import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import { releaseSignal } from "../../workflows/messages.ts";
import { appendEntry, type By } from "../compliance/append-entry.ts";
import type { Pool, Queryable } from "../database/pool.ts";
import {
  type Delivery,
  type DeliveryFilter,
  findDelivery,
  listAttempts,
  listDeliveries,
  replayDeadLetter,
  type StoredAttempt,
} from "../database/repositories/deliveries.ts";
import { findEvents, type StoredEvent } from "../database/repositories/events.ts";
import { tenantTransaction } from "../database/transaction.ts";
import type { Clock } from "../domain/clock.ts";
import type { RandomBytes } from "../domain/ids.ts";
import { SignetError } from "../errors.ts";

export interface DeliveryPageRequest {
  readonly filter: DeliveryFilter;
  readonly before: string | undefined;
  readonly limit: number;
}

/** A dead letter with the event that could not be delivered; the event is null once retention has dropped it. */
export interface DeadLetter {
  readonly id: string;
  readonly delivery: Delivery;
  readonly event: StoredEvent | null;
}

export interface DeliveryServiceOptions {
  readonly pool: Pool;
  readonly client: Client;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
  readonly log: Logger;
}

function expired(): SignetError {
  return new SignetError("DLQ_ENTRY_EXPIRED", {
    detail: "Dead letters are kept for 7 days; this one's are over.",
  });
}

function notFound(what: string): never {
  throw new SignetError("NOT_FOUND", { detail: `There is no such ${what}.` });
}

export class DeliveryService {
  readonly #options: DeliveryServiceOptions;
  readonly #signals = new Set<Promise<void>>();

  constructor(options: DeliveryServiceOptions) {
    this.#options = options;
  }

  async list(tenantId: string, page: DeliveryPageRequest): Promise<Delivery[]> {
    return await this.#read(
      tenantId,
      async (db, now) => await listDeliveries(db, { ...page, tenantId, now }),
    );
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<Delivery> {
    const delivery = await this.#read(
      tenantId,
      async (db, now) => await findDelivery(db, { tenantId, id, now }),
    );
    return delivery ?? notFound("delivery");
  }

  /** @throws SignetError NOT_FOUND */
  async attempts(tenantId: string, id: string): Promise<StoredAttempt[]> {
    await this.find(tenantId, id);
    return await this.#read(tenantId, async (db) => await listAttempts(db, tenantId, id));
  }

  async deadLetters(tenantId: string, page: DeliveryPageRequest): Promise<DeadLetter[]> {
    const { state = "DEAD_LETTERED" } = page.filter;
    if (state !== "DEAD_LETTERED") {
      // The queue has the filters of deliveries (wire.md) and holds one state.
      return [];
    }
    const filter = { ...page.filter, state };
    return await this.#withEvents(tenantId, await this.list(tenantId, { ...page, filter }));
  }

  /** @throws SignetError NOT_FOUND when it is not in the queue, DLQ_ENTRY_EXPIRED when its week is over */
  async deadLetter(tenantId: string, id: string): Promise<DeadLetter> {
    const delivery = await this.find(tenantId, id);
    if (delivery.state === "EXPIRED") {
      throw expired();
    }
    const [deadLetter] =
      delivery.state === "DEAD_LETTERED" ? await this.#withEvents(tenantId, [delivery]) : [];
    return deadLetter ?? notFound("dead letter");
  }

  /**
   * Gives a dead letter a fresh cycle of 17 attempts.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE when it is not in the queue, DLQ_ENTRY_EXPIRED
   */
  async replay(tenantId: string, id: string, by: By): Promise<Delivery> {
    const replayed = await this.#read(tenantId, async (db, now) => {
      const moved = await replayDeadLetter(db, { tenantId, id, now });
      if (moved !== undefined) {
        // Last: the log's head stays locked from here to the commit.
        await appendEntry(db, { ...by, type: "dlq.replayed", tenant: tenantId, target: id }, this.#options);
      }
      return moved;
    });
    const delivery = await this.find(tenantId, id);
    if (replayed !== undefined) {
      this.#release(replayed.formerCarrier, id);
      return delivery;
    }
    if (delivery.state === "EXPIRED") {
      throw expired();
    }
    throw new SignetError("INVALID_STATE", {
      detail: `The delivery is ${delivery.state}: only dead letters can be replayed.`,
    });
  }

  /** Resolves when no signal is under way. */
  async drain(): Promise<void> {
    await Promise.allSettled(this.#signals);
  }

  async #read<T>(tenantId: string, work: (db: Queryable, now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#options.clock.now());
    return await tenantTransaction(this.#options.pool, tenantId, async (db) => await work(db, now));
  }

  async #withEvents(tenantId: string, deliveries: readonly Delivery[]): Promise<DeadLetter[]> {
    const ids = [...new Set(deliveries.map((delivery) => delivery.eventId))];
    const events = await this.#read(tenantId, async (db) => await findEvents(db, tenantId, ids));
    const byId = new Map(events.map((event) => [event.id, event]));
    return deliveries.map((delivery) => ({
      id: delivery.id,
      delivery,
      event: byId.get(delivery.eventId) ?? null,
    }));
  }

  /** Best effort: a carrier that is not told finds out when its week ends. */
  #release(carrier: string | null, id: string): void {
    if (carrier === null) {
      return;
    }
    const { client, log } = this.#options;
    const signal = client.workflow
      .getHandle(carrier)
      .signal(releaseSignal, { delivery_ids: [id] })
      .catch((error: unknown) => log.debug({ err: error, carrier }, "carrier could not be told of a replay"))
      .finally(() => this.#signals.delete(signal));
    this.#signals.add(signal);
  }
}
