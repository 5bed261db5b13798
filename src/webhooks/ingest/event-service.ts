/** Operations of tenants on accepted events: reading them and erasing their content. */
import { appendEntry, type By } from "#compliance/append-entry.ts";
import type { Keyring } from "#crypto/keyring.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  cancelDeliveriesOf,
  type CancelledDelivery,
  destroyAnswersTo,
  destroyContent,
} from "#database/repositories/webhooks/content-erasure.ts";
import {
  type EventFilter,
  findEvent,
  findEvents,
  listEvents,
  type StoredEvent,
} from "#database/repositories/webhooks/events.ts";
import { type BoundedRows, withinPage } from "#database/repositories/page.ts";
import { tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import type { RandomBytes } from "#domain/ids.ts";
import { found } from "#domain/errors.ts";
import { findContentRoot, openEventContent } from "./event-content.ts";
import type { Releaser } from "../engine/release.ts";

/** An event as its tenant sees it. */
export interface OpenEvent extends Omit<StoredEvent, "content"> {
  /** Raw JSON text; null once it is erased. */
  readonly data: string | null;
}

export interface EventPageRequest {
  readonly filter: EventFilter;
  readonly before: string | undefined;
  readonly limit: number;
}

export interface EventServiceOptions {
  /** Role signet_api. */
  readonly pool: Pool;
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly releaser: Releaser;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

/** Opens the contents of a tenant's events. `db` must see the tenant's row. */
export async function openEvents(
  db: Queryable,
  keyring: Pick<Keyring, "contentRoot">,
  tenantId: string,
  events: readonly StoredEvent[],
): Promise<OpenEvent[]> {
  if (events.every(({ content }) => content === null)) {
    return [...events];
  }
  const root = await findContentRoot(db, keyring, tenantId);
  return events.map(({ content, ...event }) => ({
    ...event,
    data:
      content === null || root === undefined
        ? event.data
        : openEventContent(root, tenantId, event.id, content),
  }));
}

export class EventService {
  readonly #options: EventServiceOptions;

  constructor(options: EventServiceOptions) {
    this.#options = options;
  }

  /** Lists events, newest first, after the event `before` if given. The page ends early if its data is large. */
  async list(tenantId: string, page: EventPageRequest): Promise<BoundedRows<OpenEvent>> {
    let next: string | null = null;
    const rows = await this.#read(tenantId, async (db) => {
      const within = withinPage(await listEvents(db, tenantId, page), ({ bytes }) => bytes);
      ({ next } = within);
      const ids = within.rows.map(({ id }) => id);
      const found = new Map((await findEvents(db, tenantId, ids)).map((event) => [event.id, event]));
      return ids.flatMap((id) => found.get(id) ?? []);
    });
    return { rows, next };
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, id: string): Promise<OpenEvent> {
    const [event] = await this.#read(tenantId, async (db) => {
      const found = await findEvent(db, tenantId, id);
      return found === undefined ? [] : [found];
    });
    return found(event, "event");
  }

  /**
   * Erases `data` and the responses of receivers. Cancels waiting deliveries and dead letters. A request in progress
   * is not recalled. Erasing again changes nothing.
   *
   * @throws SignetError NOT_FOUND
   */
  async erase(tenantId: string, id: string, by: By): Promise<void> {
    this.#options.releaser.release(await this.#erase(tenantId, id, by));
  }

  async #erase(tenantId: string, eventId: string, by: By): Promise<readonly CancelledDelivery[]> {
    const { pool, clock } = this.#options;
    const now = new Date(clock.now());
    return await tenantTransaction(pool, tenantId, async (db) => {
      const erased = found(await destroyContent(db, { tenantId, eventId, now }), "event");
      if (!erased) {
        return [];
      }
      const cancelled = await cancelDeliveriesOf(db, tenantId, eventId);
      await destroyAnswersTo(db, tenantId, eventId);
      await appendEntry(
        db,
        {
          ...by,
          type: "event.content_erased",
          tenant: tenantId,
          target: eventId,
          details: { cancelled: cancelled.length },
        },
        this.#options,
      );
      return cancelled;
    });
  }

  async #read(tenantId: string, load: (db: Queryable) => Promise<StoredEvent[]>): Promise<OpenEvent[]> {
    const { pool, keyring } = this.#options;
    return await tenantTransaction(
      pool,
      tenantId,
      async (db) => await openEvents(db, keyring, tenantId, await load(db)),
    );
  }
}
