/** Replays, cancels and expires the members of a carrier, as an operator's request or a timer requires. */
import type { Logger } from "pino";
import { appendEntry } from "#compliance/append-entry.ts";
import type { EntryServices } from "#compliance/entry.ts";
import type { EntryType } from "#compliance/entry-types.ts";
import type { Pool, Queryable } from "#database/pool.ts";
import { transaction } from "#database/transaction.ts";
import {
  cancelFromCarrier,
  expireFromCarrier,
  type Fenced,
  type Held,
  heldByCarrier,
  type Owned,
  replayFromCarrier,
} from "#database/repositories/webhooks/carriers.ts";
import { takeFromCarrier } from "#database/repositories/webhooks/reconciliation.ts";
import type { Clock } from "#domain/clock.ts";

interface FencedMember {
  readonly id: string;
  readonly epoch: number;
}

/** Who requests a change in Temporal, and why, as the request says. */
export interface Requested {
  readonly by?: string | undefined;
  readonly reason?: string | undefined;
}

/** Indexes of members that the carrier no longer holds, and why others were not changed. */
interface Changes {
  readonly changed: number[];
  readonly refused?: (readonly [index: number, reason: string])[];
}

export interface CarrierServiceOptions extends EntryServices {
  readonly pool: Pool;
  readonly clock: Clock;
  readonly log: Logger;
  /** Wakes the dispatcher after a delivery was queued. */
  readonly onQueued: () => void;
}

function fence(carrier: string, members: readonly FencedMember[]): Fenced {
  return {
    carrier,
    ids: members.map((member) => member.id),
    epochs: members.map((member) => member.epoch),
  };
}

function indexesOf(members: readonly FencedMember[], ids: readonly string[]): number[] {
  const wanted = new Set(ids);
  return members.flatMap((member, index) => (wanted.has(member.id) ? [index] : []));
}

/** One entry for each tenant, after the change and in its transaction. */
async function enter(
  { db, sources }: { readonly db: Queryable; readonly sources: EntryServices },
  {
    type,
    carrier,
    owned,
  }: { readonly type: EntryType; readonly carrier: string; readonly owned: readonly Owned[] },
  { by, reason }: Requested,
): Promise<void> {
  for (const [tenant, mine] of Map.groupBy(owned, (delivery) => delivery.tenant_id)) {
    const ids = mine.map(({ id }) => id);
    const [only] = ids;
    const details = { workflow_id: carrier, ...(by === undefined ? {} : { by }) };
    await appendEntry(
      db,
      {
        actor: "operator:temporal",
        type,
        tenant,
        ...(ids.length === 1 && only !== undefined
          ? { target: only, details }
          : { target: carrier, details: { ...details, delivery_ids: ids } }),
        ...(reason === undefined ? {} : { reason }),
      },
      sources,
    );
  }
}

/** @param against why a member was not changed; undefined if the carrier is to let it go */
function changesOf(members: readonly FencedMember[], against: (id: string) => string | undefined): Changes {
  const changed: number[] = [];
  const refused: (readonly [index: number, reason: string])[] = [];
  members.forEach(({ id }, index) => {
    const reason = against(id);
    if (reason === undefined) {
      changed.push(index);
    } else {
      refused.push([index, reason]);
    }
  });
  return { changed, ...(refused.length > 0 ? { refused } : {}) };
}

/** Changes members, and enters and logs which of them. */
async function change(
  options: CarrierServiceOptions,
  {
    carrier,
    type,
    requested,
  }: { readonly carrier: string; readonly type: EntryType; readonly requested: Requested },
  work: (db: Queryable) => Promise<readonly Owned[]>,
): Promise<readonly Owned[]> {
  const owned = await transaction(options.pool, async (db) => {
    const changed = await work(db);
    await enter({ db, sources: options }, { type, carrier, owned: changed }, requested);
    return changed;
  });
  const ids = owned.map(({ id }) => id);
  options.log.info(
    { carrier, operation: type, delivery_ids: ids, ...requested },
    "an operator's request in Temporal",
  );
  return owned;
}

/** Also correct if the activity runs again: members released by the first run are not held now. */
async function held(
  { pool, clock }: CarrierServiceOptions,
  carrier: string,
  members: readonly FencedMember[],
): Promise<ReadonlyMap<string, Held["against"]>> {
  const rows = await heldByCarrier(pool, fence(carrier, members), new Date(clock.now()));
  return new Map(rows.map(({ id, against }) => [id, against]));
}

/** Each change at an operator's request is an entry of the compliance log. */
export class CarrierService {
  readonly #options: CarrierServiceOptions;

  constructor(options: CarrierServiceOptions) {
    this.#options = options;
  }

  /** Returns dead letters to the outbox. */
  async replay(carrier: string, members: readonly FencedMember[], requested: Requested): Promise<Changes> {
    await change(
      this.#options,
      { carrier, type: "dlq.replayed", requested },
      async (db) => await replayFromCarrier(db, fence(carrier, members), this.#now()),
    );
    this.#options.onQueued();
    const left = await held(this.#options, carrier, members);
    return changesOf(members, (id) => left.get(id));
  }

  /** Cancels open members. */
  async cancel(carrier: string, members: readonly FencedMember[], requested: Requested): Promise<Changes> {
    await change(
      this.#options,
      { carrier, type: "delivery.cancelled", requested },
      async (db) => await cancelFromCarrier(db, fence(carrier, members)),
    );
    const left = await held(this.#options, carrier, members);
    return changesOf(members, (id) => (left.has(id) ? "ended" : undefined));
  }

  /** Takes unfinished members from the carrier, for the dispatcher. */
  async handBack(carrier: string, members: readonly FencedMember[], by: string | undefined): Promise<void> {
    const { pool, log, onQueued } = this.#options;
    const moved = await takeFromCarrier(
      pool,
      members.map(({ id, epoch }) => ({ delivery_id: id, carrier, epoch })),
    );
    if (moved > 0) {
      log.info({ carrier, moved, by }, "deliveries were handed back by their workflow");
    }
    onQueued();
  }

  /** Enters that the next attempts are made now. Resolves to the members that the carrier holds. */
  async recordAttemptNow(
    carrier: string,
    members: readonly FencedMember[],
    requested: Requested,
  ): Promise<Changes> {
    const owned = await change(
      this.#options,
      { carrier, type: "delivery.hastened", requested },
      async (db) => await heldByCarrier(db, fence(carrier, members), this.#now()),
    );
    const ids = new Set(owned.map(({ id }) => id));
    return changesOf(members, (id) => (ids.has(id) ? undefined : "ended"));
  }

  /** Resolves to the indexes of expired members, and of those with time left, in milliseconds. */
  async expire(
    carrier: string,
    members: readonly FencedMember[],
  ): Promise<{ expired: number[]; later: (readonly [index: number, delayMs: number])[] }> {
    const { pool, clock } = this.#options;
    const nowMs = clock.now();
    const rows = await expireFromCarrier(pool, fence(carrier, members), new Date(nowMs));
    const expired = rows.filter((row) => row.expired).map((row) => row.id);
    return {
      expired: indexesOf(members, expired),
      later: rows
        .filter((row) => !row.expired)
        .flatMap((row) =>
          indexesOf(members, [row.id]).map((index) => [index, row.expiresAt.getTime() - nowMs + 1] as const),
        ),
    };
  }

  #now(): Date {
    return new Date(this.#options.clock.now());
  }
}
