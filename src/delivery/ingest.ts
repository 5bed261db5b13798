/**
 * Accepts events: event and deliveries in one commit that concurrent requests share (architecture 3). After it has
 * resolved nothing may be lost, whatever dies.
 */
import type { Pool } from "../database/pool.ts";
import { createBatcher } from "../database/batcher.ts";
import {
  type EventKey,
  findEvent,
  findEventKey,
  insertEvents,
  matchEndpoints,
  type MatchingEndpoint,
  type NewEvent,
  type TenantAndType,
} from "../database/repositories/events.ts";
import type { Clock } from "../domain/clock.ts";
import { newId, type RandomBytes } from "../domain/ids.ts";
import { SignetError } from "../errors.ts";
import type { ContentKeys } from "./content-keys.ts";
import { sealNewContents } from "./event-content.ts";

/** How long an Idempotency-Key stands for its first request (wire.md, Events). */
export const IDEMPOTENCY_MS = 86_400_000;
const COMMIT_EVENTS_MAX = 1_000;
/** Characters of `data`: a small event must not wait for hundreds of large ones to be written. */
const COMMIT_SIZE_MAX = 4_194_304;
const COMMITS_IN_FLIGHT_MAX = 2;

export interface IncomingEvent {
  readonly tenantId: string;
  readonly type: string;
  /** Raw JSON text of `data`. */
  readonly data: string;
  readonly sourceId: string | null;
  /** Null: the time of acceptance. */
  readonly occurredAt: Date | null;
  readonly idempotency: EventKey | null;
}

export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly createdAt: Date;
  /** How many endpoints it goes to. */
  readonly deliveries: number;
  /** The answer to an earlier request with the same key. */
  readonly replayed: boolean;
}

export interface Ingest {
  /**
   * Resolves when the event is durable.
   *
   * @throws SignetError IDEMPOTENCY_KEY_REUSED when the key stands for another body, CONFLICT when its event is gone,
   *   TENANT_SUSPENDED when the tenant is erased
   */
  accept(event: IncomingEvent): Promise<AcceptedEvent>;
}

export interface IngestOptions {
  readonly pool: Pool;
  readonly keys: ContentKeys;
  readonly clock: Clock;
  /** Of ids. */
  readonly randomBytes: RandomBytes;
  /** Of what keys are made of. */
  readonly keyBytes: RandomBytes;
  readonly deadLetterMs: number;
}

/** An error is that item's own. */
type Flushed = AcceptedEvent | "key-taken" | Error;

export function createIngest(options: IngestOptions): Ingest {
  const { pool, clock } = options;

  const commits = createBatcher<IncomingEvent, Flushed>({
    maxItems: COMMIT_EVENTS_MAX,
    size: { of: (event) => event.data.length, max: COMMIT_SIZE_MAX },
    maxInFlight: COMMITS_IN_FLIGHT_MAX,
    flush: async (items) => await commit(items, options),
  });

  return {
    accept: async (event) => {
      // A key can be forgotten between the insert that met it and the look-up: then it is free again.
      for (;;) {
        const flushed = await commits.add(event);
        if (flushed instanceof Error) {
          throw flushed;
        }
        if (flushed !== "key-taken") {
          return flushed;
        }
        const earlier = await answerOfKey(pool, event, clock.now());
        if (earlier !== undefined) {
          return earlier;
        }
      }
    },
  };
}

async function commit(items: readonly IncomingEvent[], options: IngestOptions): Promise<Flushed[]> {
  const { pool, clock, randomBytes, deadLetterMs } = options;
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const [matches, roots] = await Promise.all([
    matchAll(pool, items),
    options.keys.rootsOf(
      pool,
      items.map((item) => item.tenantId),
    ),
  ]);
  const keys = new Set<string>();
  const events: (Omit<NewEvent, "content"> & { readonly data: string })[] = [];
  const ids = items.map((item) => {
    const { idempotency } = item;
    const root = roots.get(item.tenantId);
    if (root instanceof Error) {
      return root;
    }
    const key = idempotency === null ? null : `${idempotency.tenantId}/${idempotency.key}`;
    if (key !== null && keys.has(key)) {
      return undefined;
    }
    if (key !== null) {
      keys.add(key);
    }
    const id = newId("event", nowMs, randomBytes);
    const matching = matches.get(`${item.tenantId}/${item.type}`) ?? [];
    events.push({
      id,
      tenantId: item.tenantId,
      type: item.type,
      data: item.data,
      sourceId: item.sourceId,
      occurredAt: item.occurredAt ?? now,
      idempotency,
      deliveries: matching.map((endpoint) => ({
        id: newId("delivery", nowMs, randomBytes),
        endpointId: endpoint.endpointId,
        state: endpoint.state === "ACTIVE" ? "QUEUED" : "DEAD_LETTERED",
      })),
    });
    return { id, deliveries: matching.length };
  });
  const contents = sealNewContents(events, (tenantId) => roots.get(tenantId) as Buffer, options.keyBytes);
  const sealed = events.map((event, index) => ({ ...event, content: contents[index] as Buffer }));
  const inserted = await insertEvents(pool, sealed, {
    now,
    keysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    expiresAt: new Date(nowMs + deadLetterMs),
  });
  return items.map((item, index): Flushed => {
    const made = ids[index];
    if (made instanceof Error) {
      return made;
    }
    return made === undefined || !inserted.has(made.id)
      ? "key-taken"
      : { id: made.id, type: item.type, createdAt: now, deliveries: made.deliveries, replayed: false };
  });
}

/** One look-up per distinct tenant and type, however many events of a batch share them. */
async function matchAll(
  pool: Pool,
  items: readonly IncomingEvent[],
): Promise<ReadonlyMap<string, readonly MatchingEndpoint[]>> {
  const wanted = new Map<string, TenantAndType>();
  for (const { tenantId, type } of items) {
    wanted.set(`${tenantId}/${type}`, { tenantId, type });
  }
  const matches = new Map<string, MatchingEndpoint[]>();
  for (const match of await matchEndpoints(pool, [...wanted.values()])) {
    const key = `${match.tenantId}/${match.type}`;
    const list = matches.get(key);
    if (list === undefined) {
      matches.set(key, [match]);
    } else {
      list.push(match);
    }
  }
  return matches;
}

/** What the request that took the key was answered; undefined when the key is free again. */
async function answerOfKey(
  pool: Pool,
  { tenantId, idempotency }: IncomingEvent,
  nowMs: number,
): Promise<AcceptedEvent | undefined> {
  if (idempotency === null) {
    return undefined;
  }
  const taken = await findEventKey(pool, idempotency.tenantId, idempotency.key);
  if (taken === undefined || taken.takenAt.getTime() <= nowMs - IDEMPOTENCY_MS) {
    return undefined;
  }
  if (!taken.bodyHash.equals(idempotency.bodyHash)) {
    throw new SignetError("IDEMPOTENCY_KEY_REUSED", {
      detail: "This Idempotency-Key was used with a different request body in the past 24 hours.",
    });
  }
  const event = await findEvent(pool, tenantId, taken.eventId);
  if (event === undefined) {
    throw new SignetError("CONFLICT", { detail: "The event that this request made is gone." });
  }
  const { id, type, createdAt, deliveries } = event;
  return { id, type, createdAt, deliveries, replayed: true };
}
