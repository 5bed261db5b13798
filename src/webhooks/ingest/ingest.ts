/**
 * Accepts events: event and deliveries in one commit that concurrent requests share (architecture 3). After it has
 * resolved nothing may be lost, whatever dies.
 */
import type { Pool } from "../../database/pool.ts";
import { createBatcher } from "../../database/batcher.ts";
import {
  type EventKey,
  findEvent,
  insertEvents,
  matchEndpoints,
  type MatchedType,
  type NewEvent,
  type TenantAndType,
} from "../../database/repositories/webhooks/events.ts";
import {
  findIdempotencyKey,
  freeIdempotencyKey,
  type TakenKey,
} from "../../database/repositories/idempotency.ts";
import type { Clock } from "../../domain/clock.ts";
import { newId, type RandomBytes } from "../../domain/ids.ts";
import { SignetError, validationFailed } from "../../domain/errors.ts";
import { metrics } from "../../observability/metrics.ts";
import { tracer } from "../../observability/tracing.ts";
import { IDEMPOTENCY_MS } from "../../domain/idempotency.ts";
import type { ContentKeys } from "./content-keys.ts";
import { sealNewContents } from "./event-content.ts";
import { type Checked, EventRules, rulesKey } from "./event-rules.ts";

/** How long a signed event is known by its id (security decisions F): three times what a signature is good for. */
const REPLAY_MS = 900_000;
const COMMIT_EVENTS_MAX = 1_000;
/** Characters of `data`: a small event must not wait for hundreds of large ones to be written. */
const COMMIT_SIZE_MAX = 4_194_304;
const COMMITS_IN_FLIGHT_MAX = 2;
/** What waits for a commit while the database is slow or away; what comes then is asked to come again. */
const WAITING_EVENTS_MAX = 10_000;
const WAITING_SIZE_MAX = 33_554_432;

export interface IncomingEvent {
  readonly tenantId: string;
  readonly type: string;
  /** Raw JSON text of `data`. */
  readonly data: string;
  readonly sourceId: string | null;
  /** Null: the time of acceptance. */
  readonly occurredAt: Date | null;
  /** By which it is known when it comes again. */
  readonly keys: readonly EventKey[];
  /** Of the request; undefined where traces are off. */
  readonly traceparent?: string | undefined;
}

export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly createdAt: Date;
  /** How many endpoints it goes to: those that take its type, and whose filter it passes. */
  readonly deliveries: number;
  /** When its type was deprecated; null when it was not, and in the answer to an earlier request. */
  readonly deprecatedAt: Date | null;
  /** The answer to an earlier request, and which of its keys it was known by; undefined when it is new. */
  readonly knownBy?: EventKey["kind"];
}

export interface Ingest {
  /**
   * Resolves when the event is durable.
   *
   * @throws SignetError IDEMPOTENCY_KEY_REUSED when a key stands for another body, CONFLICT when its event is gone,
   *   TENANT_SUSPENDED when the tenant is erased, VALIDATION_FAILED when `data` does not fit the schema of its type
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

/** An event, and what came of checking it. */
interface CheckedEvent {
  readonly event: IncomingEvent;
  readonly checked: Checked;
}

/**
 * An error is that item's own. The rest is not accepted: its key is taken, or it was checked by rules that do not hold
 * (any more).
 */
type Flushed = AcceptedEvent | "key-taken" | "other-rules" | Error;

export function createIngest(options: IngestOptions): Ingest {
  const { pool, clock } = options;
  const rules = new EventRules(pool);

  const commits = createBatcher<CheckedEvent, Flushed>({
    maxItems: COMMIT_EVENTS_MAX,
    maxWaiting: WAITING_EVENTS_MAX,
    size: {
      of: ({ event }) => event.data.length,
      max: COMMIT_SIZE_MAX,
      maxWaiting: WAITING_SIZE_MAX,
    },
    maxInFlight: COMMITS_IN_FLIGHT_MAX,
    flush: async (items) => {
      const done = metrics.ingestCommit.startTimer();
      const span = tracer()?.start({
        name: "ingest commit",
        kind: "internal",
        attributes: { "signet.events": items.length },
        parents: items.map(({ event }) => event.traceparent),
      });
      try {
        return await commit(items, options);
      } finally {
        done();
        span?.end();
      }
    },
  });

  return {
    accept: async (event) => {
      const byRulesSeen = rules.check(event);
      let checked = byRulesSeen instanceof Promise ? await byRulesSeen : byRulesSeen;
      // A key can be forgotten between the insert that met it and the look-up: then it is free again.
      for (;;) {
        if (checked.problems.length > 0) {
          checked = await rules.checkAfresh(event);
        }
        const refused = checked.problems.length > 0;
        const flushed = refused ? "key-taken" : await commits.add({ event, checked });
        if (flushed instanceof Error) {
          throw flushed;
        }
        if (flushed === "other-rules") {
          checked = await rules.checkAfresh(event);
          continue;
        }
        if (flushed !== "key-taken") {
          return flushed;
        }
        const earlier = await answerOfKeys(pool, event, { nowMs: clock.now(), refused });
        if (earlier !== undefined) {
          return earlier;
        }
        if (refused) {
          throw validationFailed(checked.problems);
        }
      }
    },
  };
}

type UnsealedEvent = Omit<NewEvent, "content"> & { readonly data: string };

async function commit(items: readonly CheckedEvent[], options: IngestOptions): Promise<Flushed[]> {
  const { pool, clock, deadLetterMs } = options;
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const [matches, roots] = await Promise.all([
    matchAll(pool, items),
    options.keys.rootsOf(
      pool,
      items.map(({ event }) => event.tenantId),
    ),
  ]);
  const keys = new Set<string>();
  const events: UnsealedEvent[] = [];
  const made = items.map(({ event, checked }): Flushed => {
    const root = roots.get(event.tenantId);
    if (root instanceof Error) {
      return root;
    }
    const match = matches.get(`${event.tenantId}/${event.type}`);
    if (match === undefined || match.rulesKey !== checked.key) {
      return "other-rules";
    }
    const own = event.keys.map(({ tenantId, route, key }) => `${tenantId}/${route}/${key}`);
    if (own.some((key) => keys.has(key))) {
      return "key-taken";
    }
    for (const key of own) {
      keys.add(key);
    }
    const taken = newEvent(event, { match, checked, nowMs, randomBytes: options.randomBytes });
    events.push(taken);
    const { id, type, deliveries } = taken;
    const { deprecatedAt } = match;
    return { id, type, createdAt: now, deliveries: deliveries.length, deprecatedAt };
  });
  const contents = sealNewContents(events, (tenantId) => roots.get(tenantId) as Buffer, options.keyBytes);
  const sealed = events.map((event, index) => ({ ...event, content: contents[index] as Buffer }));
  const inserted = await insertEvents(pool, sealed, {
    now,
    keysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    signedKeysAfter: new Date(nowMs - REPLAY_MS),
    expiresAt: new Date(nowMs + deadLetterMs),
  });
  metrics.eventsAccepted.inc(inserted.size);
  return made.map((flushed) =>
    typeof flushed === "string" || flushed instanceof Error || inserted.has(flushed.id)
      ? flushed
      : "key-taken",
  );
}

function newEvent(
  event: IncomingEvent,
  {
    match,
    checked: { excluded },
    nowMs,
    randomBytes,
  }: {
    readonly match: MatchedType;
    readonly checked: Checked;
    readonly nowMs: number;
    readonly randomBytes: RandomBytes;
  },
): UnsealedEvent {
  const { endpoints } = match;
  const taking =
    excluded.size === 0 ? endpoints : endpoints.filter(({ endpointId }) => !excluded.has(endpointId));
  return {
    id: newId("event", nowMs, randomBytes),
    tenantId: event.tenantId,
    type: event.type,
    data: event.data,
    sourceId: event.sourceId,
    occurredAt: event.occurredAt ?? new Date(nowMs),
    keys: event.keys,
    traceparent: event.traceparent ?? null,
    deliveries: taking.map((endpoint) => ({
      id: newId("delivery", nowMs, randomBytes),
      endpointId: endpoint.endpointId,
      state: endpoint.state === "ACTIVE" ? "QUEUED" : "DEAD_LETTERED",
    })),
  };
}

/** One look-up per distinct tenant and type, however many events of a batch share them. */
async function matchAll(
  pool: Pool,
  items: readonly CheckedEvent[],
): Promise<ReadonlyMap<string, MatchedType & { readonly rulesKey: string }>> {
  const wanted = new Map<string, TenantAndType>();
  for (const { event } of items) {
    const { tenantId, type } = event;
    wanted.set(`${tenantId}/${type}`, { tenantId, type });
  }
  const matched = await matchEndpoints(pool, [...wanted.values()]);
  return new Map(
    matched.map((match) => [`${match.tenantId}/${match.type}`, { ...match, rulesKey: rulesKey(match) }]),
  );
}

/** A key of an event that came, and what it stands for. */
interface MetKey {
  readonly key: EventKey;
  readonly taken: TakenKey;
}

async function findKeys(pool: Pool, { keys }: IncomingEvent, nowMs: number): Promise<MetKey[]> {
  const met: MetKey[] = [];
  for (const key of keys) {
    const forgetBefore = new Date(nowMs - (key.kind === "signed" ? REPLAY_MS : IDEMPOTENCY_MS));
    const taken = await findIdempotencyKey(pool, key, forgetBefore);
    if (taken !== undefined) {
      met.push({ key, taken });
    }
  }
  return met;
}

/**
 * What the request that took a key was answered; undefined when the keys are free again, or are not this event's and it
 * is refused by its schema: that is said of it, as if the keys had not been looked at.
 */
async function answerOfKeys(
  pool: Pool,
  event: IncomingEvent,
  { nowMs, refused }: { readonly nowMs: number; readonly refused: boolean },
): Promise<AcceptedEvent | undefined> {
  const met = await findKeys(pool, event, nowMs);
  const same = met.filter(({ key, taken }) => taken.bodyHash.equals(key.bodyHash));
  for (const { key, taken } of same) {
    const earlier = await findEvent(pool, event.tenantId, taken.resourceId);
    if (earlier !== undefined) {
      const { id, type, createdAt, deliveries } = earlier;
      return { id, type, createdAt, deliveries, deprecatedAt: null, knownBy: key.kind };
    }
  }
  const others = met.filter((one) => !same.includes(one));
  const [other] = others;
  if (other !== undefined) {
    if (refused) {
      return undefined;
    }
    // A batch's key stands for an event of the batch. One whose id is of an event from before is refused alone.
    const known = others.find(({ taken }) => taken.resourceId !== other.taken.resourceId);
    throw reused((known ?? other).key);
  }
  if (same.some(({ key }) => key.kind !== "id")) {
    throw new SignetError("CONFLICT", { detail: "The event that this request made is gone." });
  }
  // The publisher's own id was taken with another key, which someone else had at the same moment.
  for (const { key, taken } of same) {
    await freeIdempotencyKey(pool, key, taken.resourceId);
  }
  return undefined;
}

function reused({ kind }: EventKey): SignetError {
  if (kind === "signed") {
    return new SignetError("REPLAY_CONFLICT", {
      detail: "The same key signed another event with this id in the past 15 minutes.",
    });
  }
  if (kind === "request") {
    return new SignetError("IDEMPOTENCY_KEY_REUSED", {
      detail: "This Idempotency-Key was used with a different request body in the past 24 hours.",
    });
  }
  return new SignetError("IDEMPOTENCY_KEY_REUSED", {
    detail: "This id was used with a different event in the past 24 hours.",
    extensions: { errors: [ID_REUSED] },
  });
}

const ID_REUSED = {
  pointer: "/id",
  code: "reused",
  detail: "was used with a different event in the past 24 hours",
};

/** Whether an event was refused for its own id, not for the key of its request. */
export function isIdReused({ extensions }: SignetError): boolean {
  return Array.isArray(extensions["errors"]) && extensions["errors"].includes(ID_REUSED);
}
