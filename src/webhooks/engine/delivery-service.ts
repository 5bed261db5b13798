/** Operations of tenants on deliveries and dead letters. Reads come from PostgreSQL, never from Temporal. */
import { DEAD_LETTER_DAYS } from "#domain/retry-schedule.ts";
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { EndpointAgainst } from "#database/repositories/endpoints/endpoints.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  countLetters,
  type DeadLetterGroup,
  type GroupPage,
  listGroups,
} from "#database/repositories/webhooks/dead-letter-counts.ts";
import {
  cancelDelivery,
  type DeadDelivery,
  type Delivery,
  findAgainstCycle,
  findDelivery,
  findOldestLetter,
  isDead,
  makeAttemptDue,
  type AttemptPage,
  listAttempts,
  listDeadLetters,
  listDeliveries,
  replayDeadLetter,
  resendDelivery,
  type StoredAttempt,
} from "#database/repositories/webhooks/deliveries.ts";
import {
  type CountedDeliveries,
  type DayOfUsage,
  readUsage,
} from "#database/repositories/webhooks/delivery-counts.ts";
import { type HourOfDeliveries, readDeliveryHours } from "#database/repositories/webhooks/delivery-hours.ts";
import type { DeliveryFilter } from "#database/repositories/webhooks/delivery-filter.ts";
import { findContentHead, findContentSizes, findEvents } from "#database/repositories/webhooks/events.ts";
import { type BoundedRows, withinPage } from "#database/repositories/page.ts";
import { tenantHeld } from "#database/repositories/tenants.ts";
import { tenantRead, tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { found, SignetError } from "#domain/errors.ts";
import { DeliveryStats } from "./delivery-stats.ts";
import { findContentRoot, openAnswer } from "../ingest/event-content.ts";
import { type OpenEvent, openEvents } from "../ingest/event-service.ts";
import type { Releaser } from "./release.ts";

/** Dead letters in memory at once during an export, with their events. */
const EXPORT_PAGE = 100;
/** More than a request may ask for. */
const USAGE_DAYS_MAX = 1_000;

export interface DeliveryPageRequest {
  readonly filter: DeliveryFilter;
  readonly before: string | undefined;
  readonly limit: number;
}

/** A dead letter with its undelivered event; the event is null once retention has dropped it. */
export interface DeadLetter {
  readonly id: string;
  readonly delivery: DeadDelivery;
  readonly event: OpenEvent | null;
}

/** The dead-letter queue, of all endpoints or of one. */
export interface QueueFacts {
  readonly total: number;
  /** When the oldest of them died; null if there is none. */
  readonly oldest_at: Date | null;
  /** When the first of them expires. */
  readonly first_expires_at: Date | null;
}

/** An attempt as its tenant sees it. The response body is null once the event's content is erased. */
export type Attempt = Omit<StoredAttempt, "response">;

export interface DeliveryServiceOptions {
  readonly pool: Pool;
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly releaser: Releaser;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

function expired(): SignetError {
  return new SignetError("DLQ_ENTRY_EXPIRED", {
    detail: `Dead letters are kept for ${DEAD_LETTER_DAYS} days. This one has expired.`,
  });
}

const AGAINST = {
  endpoint_disabled: "Its endpoint is disabled or unverified: enable it first.",
  endpoint_unavailable: "Its endpoint is deleted, so it cannot be sent again.",
} as const satisfies Readonly<Record<EndpointAgainst, string>>;

function whyNotResent({ state }: Delivery, against: EndpointAgainst | null): string {
  if (state === "QUEUED" || state === "RETRYING") {
    return `The delivery is ${state}: its attempts have not ended.`;
  }
  return state === "DEAD_LETTERED"
    ? "The delivery is DEAD_LETTERED: replay it from the dead-letter queue."
    : against === null
      ? "The content of its event is erased, so it cannot be resent."
      : AGAINST[against];
}

function eventsOf(deliveries: readonly Delivery[]): string[] {
  return [...new Set(deliveries.map(({ event_id: eventId }) => eventId))];
}

export class DeliveryService {
  readonly #options: DeliveryServiceOptions;
  readonly #stats: DeliveryStats;

  constructor(options: DeliveryServiceOptions) {
    this.#options = options;
    this.#stats = new DeliveryStats({
      clock: options.clock,
      read: async (of, hours) =>
        await this.#read(of.tenantId, async (db) => await readDeliveryHours(db, of, hours)),
    });
  }

  async list(tenantId: string, page: DeliveryPageRequest): Promise<BoundedRows<Delivery>> {
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
    return found(delivery, "delivery");
  }

  /** Returns the tenant's usage by day, oldest first. */
  async usage(
    tenantId: string,
    span: { readonly from: Date; readonly to: Date },
  ): Promise<readonly DayOfUsage[]> {
    return await this.#read(
      tenantId,
      async (db) => await readUsage(db, [tenantId], { ...span, limit: USAGE_DAYS_MAX }),
    );
  }

  /** @throws SignetError NOT_FOUND */
  async attempts(tenantId: string, id: string, page: AttemptPage): Promise<Attempt[]> {
    const { event_id: eventId } = await this.find(tenantId, id);
    return await this.#read(tenantId, async (db) => {
      const stored = await listAttempts(db, { tenantId, deliveryId: id }, page);
      return await this.#openAnswers(db, { tenantId, deliveryId: id, eventId }, stored);
    });
  }

  /** Returns at most `limit` dead letters, the newest death first; fewer if their events are large. */
  async deadLetters(tenantId: string, page: DeliveryPageRequest): Promise<BoundedRows<DeadLetter>> {
    const { state = "DEAD_LETTERED" } = page.filter;
    if (state !== "DEAD_LETTERED") {
      // The queue takes the filters of deliveries (contract 4.8), but holds only this state.
      return { rows: [], next: null };
    }
    const filter = { ...page.filter, state };
    return await this.#read(tenantId, async (db, now) => {
      const deliveries = await listDeadLetters(db, { ...page, filter, tenantId, now });
      const sizes = await findContentSizes(db, tenantId, eventsOf(deliveries.rows));
      const within = withinPage(
        deliveries,
        ({ event_id: eventId }) => sizes.get(eventId) ?? 0,
        ({ place }) => place,
      );
      return { rows: await this.#withEvents(db, tenantId, within.rows), next: within.next };
    });
  }

  /** Returns the hourly counts of the last 24 hours, oldest first. They are at most 30 seconds old. */
  async stats(of: CountedDeliveries): Promise<readonly HourOfDeliveries[]> {
    return await this.#stats.of(of);
  }

  /** Returns how many dead letters there are, and how old the oldest is. */
  async queue(tenantId: string, endpointId: string | undefined): Promise<QueueFacts> {
    return await this.#read(tenantId, async (db, now) => {
      const oldest = await findOldestLetter(db, { tenantId, endpointId, now });
      // Overdue letters are counted until they are removed.
      const total = oldest === undefined ? 0 : await countLetters(db, tenantId, endpointId);
      return {
        total,
        oldest_at: oldest?.dead_lettered_at ?? null,
        first_expires_at: oldest?.expires_at ?? null,
      };
    });
  }

  /** Returns the counts of the dead-letter queue. */
  async groups(tenantId: string, page: GroupPage): Promise<DeadLetterGroup[]> {
    return await this.#read(tenantId, async (db) => await listGroups(db, tenantId, page));
  }

  /** Yields all matching dead letters in pages, the newest death first. Reads each page on demand. */
  async *exportDeadLetters(tenantId: string, filter: DeliveryFilter): AsyncGenerator<DeadLetter[]> {
    let before: string | undefined;
    for (;;) {
      const { rows, next } = await this.deadLetters(tenantId, { filter, before, limit: EXPORT_PAGE });
      if (rows.length > 0) {
        yield [...rows];
      }
      if (next === null) {
        return;
      }
      before = next;
    }
  }

  /** @throws SignetError NOT_FOUND if it is not in the queue, DLQ_ENTRY_EXPIRED after its 7 days */
  async deadLetter(tenantId: string, id: string): Promise<DeadLetter> {
    const delivery = await this.find(tenantId, id);
    if (delivery.state === "EXPIRED") {
      throw expired();
    }
    const [deadLetter] = isDead(delivery)
      ? await this.#read(tenantId, async (db) => await this.#withEvents(db, tenantId, [delivery]))
      : [];
    return found(deadLetter, "dead letter");
  }

  /**
   * Starts a new cycle of 17 attempts for a dead letter.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if it is not in the queue or its endpoint is disabled or deleted,
   * DLQ_ENTRY_EXPIRED
   */
  async replay(tenantId: string, id: string, by: By): Promise<Delivery> {
    const replayed = await this.#change(tenantId, async (db, now) => {
      await this.#requireRunningTenant(db, tenantId);
      const moved = await replayDeadLetter(db, { tenantId, id, now });
      if (moved !== undefined) {
        await appendEntry(db, { ...by, type: "dlq.replayed", tenant: tenantId, target: id }, this.#options);
      }
      return moved;
    });
    const delivery = await this.find(tenantId, id);
    if (replayed !== undefined) {
      this.#options.releaser.release([{ id, carrier: replayed.formerCarrier }]);
      return delivery;
    }
    if (delivery.state === "EXPIRED") {
      throw expired();
    }
    throw new SignetError("INVALID_STATE", {
      detail:
        delivery.state === "DEAD_LETTERED"
          ? AGAINST[(await this.#against(tenantId, id)) ?? "endpoint_unavailable"]
          : `The delivery is ${delivery.state}: only dead letters can be replayed.`,
    });
  }

  /**
   * Starts a new cycle of 17 attempts for a delivery that was delivered, cancelled or has expired.
   *
   * @throws SignetError NOT_FOUND; INVALID_STATE if it has not ended, its endpoint is disabled or deleted, its event's
   * content is erased or the tenant is held
   */
  async resend(tenantId: string, id: string, by: By): Promise<Delivery> {
    const resent = await this.#change(tenantId, async (db, now) => {
      await this.#requireRunningTenant(db, tenantId);
      const isResent = await resendDelivery(db, { tenantId, id, now });
      if (isResent) {
        await appendEntry(
          db,
          { ...by, type: "delivery.resent", tenant: tenantId, target: id },
          this.#options,
        );
      }
      return isResent;
    });
    const delivery = await this.find(tenantId, id);
    if (resent) {
      return delivery;
    }
    throw new SignetError("INVALID_STATE", {
      detail: whyNotResent(delivery, await this.#against(tenantId, id)),
    });
  }

  /**
   * Makes the next attempt now. It uses up that attempt; later ones keep their times. The row is written before the
   * workflow is signalled. If the signal fails, the reconciler repeats it.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if no further attempt is left or the tenant is held
   */
  async retry(tenantId: string, id: string): Promise<Delivery> {
    const updated = await this.#change(tenantId, async (db, now) => {
      await this.#requireRunningTenant(db, tenantId);
      return await makeAttemptDue(db, { tenantId, id, now });
    });
    const delivery = await this.find(tenantId, id);
    if (updated === undefined) {
      throw new SignetError("INVALID_STATE", {
        detail: `The delivery is ${delivery.state}: it has no further attempt.`,
      });
    }
    if (updated.carrier !== null) {
      this.#options.releaser.attemptNow({ id, carrier: updated.carrier });
    }
    return delivery;
  }

  /**
   * Cancels further attempts. A request in progress finishes, and its response is recorded.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if the delivery has already ended
   */
  async cancel(tenantId: string, id: string): Promise<Delivery> {
    const cancelled = await this.#change(
      tenantId,
      async (db, now) => await cancelDelivery(db, { tenantId, id, now }),
    );
    const delivery = await this.find(tenantId, id);
    if (cancelled === undefined) {
      throw new SignetError("INVALID_STATE", { detail: `The delivery is already ${delivery.state}.` });
    }
    this.#options.releaser.release([{ id, carrier: cancelled.carrier }]);
    return delivery;
  }

  async #against(tenantId: string, id: string): Promise<EndpointAgainst | null> {
    return await this.#read(tenantId, async (db) => await findAgainstCycle(db, { tenantId, id }));
  }

  async #requireRunningTenant(db: Queryable, tenantId: string): Promise<void> {
    if (await tenantHeld(db, tenantId)) {
      throw new SignetError("INVALID_STATE", {
        detail: "The deliveries of this tenant are held until they are released.",
      });
    }
  }

  async #read<T>(tenantId: string, work: (db: Queryable, now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#options.clock.now());
    return await tenantRead(this.#options.pool, tenantId, async (db) => await work(db, now));
  }

  async #change<T>(tenantId: string, work: (db: Queryable, now: Date) => Promise<T>): Promise<T> {
    const now = new Date(this.#options.clock.now());
    return await tenantTransaction(this.#options.pool, tenantId, async (db) => await work(db, now));
  }

  async #withEvents(
    db: Queryable,
    tenantId: string,
    deliveries: readonly DeadDelivery[],
  ): Promise<DeadLetter[]> {
    const found = await findEvents(db, tenantId, eventsOf(deliveries));
    const events = await openEvents(db, this.#options.keyring, tenantId, found);
    const byId = new Map(events.map((event) => [event.id, event]));
    return deliveries.map((delivery) => ({
      id: delivery.id,
      delivery,
      event: byId.get(delivery.event_id) ?? null,
    }));
  }

  /** Decrypts response bodies. Without the event's content, which may be erased or expired, none can be read. */
  async #openAnswers(
    db: Queryable,
    { tenantId, deliveryId, eventId }: Record<"tenantId" | "deliveryId" | "eventId", string>,
    attempts: readonly StoredAttempt[],
  ): Promise<Attempt[]> {
    const head = attempts.some(({ response }) => response !== null)
      ? await findContentHead(db, tenantId, eventId)
      : undefined;
    const root = head && (await findContentRoot(db, this.#options.keyring, tenantId));
    if (head === undefined || root === undefined) {
      return [...attempts];
    }
    return attempts.map(({ response, ...attempt }) => {
      const place = { tenantId, deliveryId, cycle: attempt.cycle, attempt: attempt.attempt };
      return {
        ...attempt,
        response_body: response === null ? attempt.response_body : openAnswer(root, head, place, response),
      };
    });
  }
}
