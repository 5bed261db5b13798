/** Replays, cancels and expires the members of a carrier, as an operator's signal or a timer requires. */
import type { Logger } from "pino";
import type { Pool } from "../../database/pool.ts";
import {
  cancelFromCarrier,
  expireFromCarrier,
  type Fenced,
  heldByCarrier,
  replayFromCarrier,
} from "../../database/repositories/webhooks/carriers.ts";
import type { Clock } from "../../domain/clock.ts";

interface FencedMember {
  readonly id: string;
  readonly epoch: number;
}

export interface CarrierService {
  /** Returns dead letters to the outbox. Resolves to the indexes of members that the carrier no longer holds. */
  replay(carrier: string, members: readonly FencedMember[], by: string | undefined): Promise<number[]>;
  /** Cancels open members. Resolves to the indexes of members that the carrier no longer holds. */
  cancel(carrier: string, members: readonly FencedMember[], by: string | undefined): Promise<number[]>;
  /** Resolves to the indexes of expired members, and of those with time left, in milliseconds. */
  expire(
    carrier: string,
    members: readonly FencedMember[],
  ): Promise<{ expired: number[]; later: (readonly [index: number, delayMs: number])[] }>;
}

export interface CarrierServiceOptions {
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

export function createCarrierService({ pool, clock, log, onQueued }: CarrierServiceOptions): CarrierService {
  /** Also correct if the activity runs again: members released by the first run are not held now. */
  async function indexesLeft(carrier: string, members: readonly FencedMember[]): Promise<number[]> {
    const held = new Set(await heldByCarrier(pool, fence(carrier, members)));
    return members.flatMap((member, index) => (held.has(member.id) ? [] : [index]));
  }

  return {
    replay: async (carrier, members, by) => {
      const ids = await replayFromCarrier(pool, fence(carrier, members), new Date(clock.now()));
      log.info({ carrier, delivery_ids: ids, by }, "dead letters replayed by signal");
      onQueued();
      return await indexesLeft(carrier, members);
    },
    cancel: async (carrier, members, by) => {
      const ids = await cancelFromCarrier(pool, fence(carrier, members));
      log.info({ carrier, delivery_ids: ids, by }, "deliveries cancelled by signal");
      return await indexesLeft(carrier, members);
    },
    expire: async (carrier, members) => {
      const now = clock.now();
      const rows = await expireFromCarrier(pool, fence(carrier, members), new Date(now));
      const expired = rows.filter((row) => row.expired).map((row) => row.id);
      return {
        expired: indexesOf(members, expired),
        later: rows
          .filter((row) => !row.expired)
          .flatMap((row) =>
            indexesOf(members, [row.id]).map((index) => [index, row.expiresAt.getTime() - now + 1] as const),
          ),
      };
    },
  };
}
