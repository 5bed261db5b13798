/**
 * Accepts events: writes an event and its deliveries in one commit that concurrent requests share.
 * Once it has resolved, nothing may be lost, whatever crashes.
 */
import type { KeyObject } from "node:crypto";
import type { Pool } from "#database/pool.ts";
import type { Batcher } from "#database/batcher.ts";
import {
  type EventKey,
  findEvent,
  insertEvents,
  type InsertOptions,
  type InsertTimes,
  type NewEvent,
} from "#database/repositories/webhooks/events.ts";
import type { MatchedType } from "#database/repositories/webhooks/matches.ts";
import { findIdempotencyKey, freeIdempotencyKey, type TakenKey } from "#database/repositories/idempotency.ts";
import type { Clock, Timers } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { SignetError, validationFailed } from "#domain/errors.ts";
import { ERROR_DESCRIPTIONS } from "#http/error-descriptions.ts";
import { rateLimited } from "#http/rate-limits/rate-limited.ts";
import { metrics } from "#observability/metrics.ts";
import { tracer } from "#observability/tracing.ts";
import { IDEMPOTENCY_MS } from "#domain/idempotency.ts";
import type { ContentKeys } from "./content-keys.ts";
import { sealNewContents } from "./event-content.ts";
import type { HandOver } from "./hand-over.ts";
import { createFairBatcher } from "./fair-batcher.ts";
import { type Checked, EventRules, placeOf, RETRY_AFTER_MS } from "./event-rules.ts";
import { type KnownMatch, Matches } from "./matches.ts";

/**
 * How long a signed event is recognized by its id (security decisions F): three times the validity of a signature.
 */
const REPLAY_MS = 900_000;
/** Limited so that an event does not wait for a thousand of another tenant's batch. */
const COMMIT_EVENTS_MAX = 250;
/**
 * Of a tenant of which more events wait than {@link MANY_EVENTS}, while others publish. First attempts of 64 would leave in
 * one turn of the event loop, which takes some 30 ms.
 */
const COMMIT_EVENTS_BESIDE_OTHERS = 32;
const MANY_EVENTS = 64;
/** Then it has a quarter of the time: the first attempts that follow its commits need the same cores as those of others. */
const REST_BESIDE_OTHERS = 3;
/** Within its commits. 100 deliveries take 3 to 5 ms, and others wait for the same cores and disk. */
const PAUSE_BESIDE_OTHERS_MS = 15;
/** Characters of `data`. Limited so that a small event does not wait until hundreds of large ones are written. */
const COMMIT_SIZE_MAX = 4_194_304;
/** Rows of events and deliveries. 10,000 take some 220 ms. */
const COMMIT_ROWS_MAX = 10_000;
/** As {@link COMMIT_EVENTS_BESIDE_OTHERS}: 2,500 take some 60 ms. */
const COMMIT_ROWS_BESIDE_OTHERS = 2_500;
/** As {@link MANY_EVENTS}, of ten rows each. */
const MANY_ROWS = 640;
const COMMITS_IN_FLIGHT_MAX = 2;
/** Events whose types are matched by one statement: its answer has the endpoints of each type. */
const PREPARED_EVENTS_MAX = 16;
/** Limits of the events that wait for a slow or unavailable database. Beyond them, clients are asked to retry. */
const WAITING_EVENTS_MAX = 10_000;
const WAITING_SIZE_MAX = 33_554_432;

export interface IncomingEvent {
  readonly tenantId: string;
  readonly type: string;
  /** Raw JSON text of `data`. */
  readonly data: string;
  readonly sourceId: string | null;
  /** Null for the time of acceptance. */
  readonly occurredAt: Date | null;
  /** Idempotency keys, by which a repeated event is recognized. */
  readonly keys: readonly EventKey[];
  /** Trace parent of the request; undefined without tracing. */
  readonly traceparent?: string | undefined;
}

export interface AcceptedEvent {
  readonly id: string;
  readonly type: string;
  readonly createdAt: Date;
  /** Number of endpoints that take the type and whose filter passes the event. */
  readonly deliveries: number;
  /** When its type was deprecated; null if it was not, and for a repeated request. */
  readonly deprecatedAt: Date | null;
  /** The kind of key by which a repeated request was recognized; undefined for a new event. */
  readonly knownBy?: EventKey["kind"];
}

export interface IngestOptions {
  readonly pool: Pool;
  readonly keys: ContentKeys;
  readonly clock: Clock;
  readonly timers: Timers;
  /** For ids. */
  readonly randomBytes: RandomBytes;
  /** For cryptographic keys. */
  readonly keyBytes: RandomBytes;
  readonly deadLetterMs: number;
  /** Takes deliveries over at their insert. Without it, all wait in the outbox. */
  readonly handOver?: HandOver | undefined;
}

interface CommitOptions extends IngestOptions {
  /** How long the insert pauses after every 100 deliveries, in milliseconds. */
  readonly pauseMs: number;
}

/** An event with the result of its check. Holds no match: those of all waiting events would fill the memory. */
interface CheckedEvent {
  readonly event: IncomingEvent;
  readonly checked: Checked;
  /** The event's {@link placeOf}. */
  readonly place: string;
}

/**
 * Result of one item. An error affects only that item. The others mean that it was not accepted: its key is taken, it
 * was checked by rules that are not current, or its match is no longer current or known.
 */
type Flushed = AcceptedEvent | "key-taken" | "other-rules" | "outdated";

/** Returns the number of rows that an item writes: itself, and its deliveries. One if its match is not known. */
function rowsOf({ place, checked: { excluded } }: CheckedEvent, matches: Matches): number {
  return 1 + Math.max(0, (matches.known(place)?.endpoints.length ?? 0) - excluded.size);
}

function createCommits(options: IngestOptions, matches: Matches): Batcher<CheckedEvent, Flushed> {
  const { pool, keys, timers } = options;
  return createFairBatcher<CheckedEvent, Flushed>({
    timers,
    maxItems: COMMIT_EVENTS_MAX,
    maxWaiting: WAITING_EVENTS_MAX,
    size: {
      of: ({ event }) => event.data.length,
      max: COMMIT_SIZE_MAX,
      maxWaiting: WAITING_SIZE_MAX,
    },
    rows: { of: (item) => rowsOf(item, matches), max: COMMIT_ROWS_MAX },
    owner: {
      of: ({ event }) => event.tenantId,
      many: MANY_EVENTS,
      manyPerFlush: COMMIT_EVENTS_BESIDE_OTHERS,
      manyRows: MANY_ROWS,
      rowsPerFlush: COMMIT_ROWS_BESIDE_OTHERS,
      restPerFlush: REST_BESIDE_OTHERS,
      refusal: tooManyWait,
    },
    preparation: {
      isReady: ({ event, place }) =>
        matches.known(place) !== undefined && keys.known(event.tenantId) !== undefined,
      maxItems: PREPARED_EVENTS_MAX,
      prepare: async (items) => {
        const [{ event }] = items as readonly [CheckedEvent];
        const { tenantId } = event;
        await Promise.all([
          keys.known(tenantId) ?? keys.read(pool, tenantId),
          matches.read({ tenantId, types: items.map((item) => item.event.type) }),
        ]);
      },
    },
    maxInFlight: COMMITS_IN_FLIGHT_MAX,
    flush: async (items, gently) => {
      const done = metrics.ingestCommit.startTimer();
      const span = tracer()?.start({
        name: "ingest commit",
        kind: "internal",
        attributes: { "signet.events": items.length },
        parents: items.map(({ event }) => event.traceparent),
      });
      try {
        return await commit(items, matches, { ...options, pauseMs: gently ? PAUSE_BESIDE_OTHERS_MS : 0 });
      } finally {
        done();
        span?.end();
      }
    },
  });
}

export class Ingest {
  readonly #options: IngestOptions;
  readonly #rules: EventRules;
  readonly #commits: Batcher<CheckedEvent, Flushed>;

  constructor(options: IngestOptions) {
    const { pool, timers } = options;
    this.#options = options;
    this.#rules = new EventRules(pool, timers);
    this.#commits = createCommits(options, new Matches(pool, timers));
  }

  /**
   * Resolves when the event is durable.
   *
   * @throws SignetError IDEMPOTENCY_KEY_REUSED if a key belongs to another body, CONFLICT if its event is gone,
   * TENANT_SUSPENDED if the tenant is erased, VALIDATION_FAILED if `data` violates the schema of its type, RATE_LIMITED
   * if the tenant's events fill half of the waiting room
   */
  async accept(event: IncomingEvent): Promise<AcceptedEvent> {
    const { pool, clock } = this.#options;
    const place = placeOf(event.tenantId, event.type);
    const byRulesSeen = this.#rules.check(event);
    let checked = byRulesSeen instanceof Promise ? await byRulesSeen : byRulesSeen;
    // The key may expire between the insert that found it and the lookup. Then it is free again.
    for (;;) {
      if (checked.problems.length > 0) {
        checked = await this.#rules.checkCurrent(event);
      }
      const refused = checked.problems.length > 0;
      const flushed = refused ? "key-taken" : await this.#commits.add({ event, checked, place });
      if (flushed === "outdated") {
        continue;
      }
      if (flushed === "other-rules") {
        checked = await this.#rules.checkCurrent(event);
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
  }
}

function tooManyWait(): SignetError {
  return rateLimited(
    "publish",
    RETRY_AFTER_MS,
    "Too many of this tenant's events are waiting to be written.",
  );
}

type UnsealedEvent = Omit<NewEvent, "content"> & { readonly data: string };

/**
 * Commits the items in one round trip. Their matches and keys have been read before. The statement that inserts tells
 * which matches are no longer current.
 */
async function commit(
  items: readonly CheckedEvent[],
  known: Matches,
  options: CommitOptions,
): Promise<Flushed[]> {
  const { clock, deadLetterMs } = options;
  const nowMs = clock.now();
  const now = new Date(nowMs);
  const matches = new Map(items.map(({ place }) => [place, known.known(place)]));
  const roots = new Map(items.map(({ event: { tenantId } }) => [tenantId, options.keys.known(tenantId)]));
  const keys = new Set<string>();
  const events: UnsealedEvent[] = [];
  const expected = new Set<KnownMatch>();
  const made = items.map(({ event, checked, place }): Flushed => {
    const match = matches.get(place);
    if (match === undefined || roots.get(event.tenantId) === undefined) {
      return "outdated";
    }
    if (match.rulesKey !== checked.key) {
      // Either of the two may be the older one.
      known.forget(match);
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
    expected.add(match);
    const { id, type, deliveries } = taken;
    const { deprecated_at: deprecatedAt } = match;
    return { id, type, createdAt: now, deliveries: deliveries.length, deprecatedAt };
  });
  if (events.length === 0) {
    return made;
  }
  const contents = sealNewContents(events, (tenantId) => roots.get(tenantId) as KeyObject, options.keyBytes);
  const sealed = events.map((event, index) => ({ ...event, content: contents[index] as Buffer }));
  const times = {
    now,
    keysAfter: new Date(nowMs - IDEMPOTENCY_MS),
    signedKeysAfter: new Date(nowMs - REPLAY_MS),
    expiresAt: new Date(nowMs + deadLetterMs),
  };
  const comparesMatches = [...expected].some((match) => match.isDoubted);
  const insert = { expected: [...expected], comparesMatches };
  const { inserted, outdated, versions } = await insertHanded(options, sealed, times, insert);
  metrics.eventsAccepted.inc(inserted.size);
  const flushes = made.map((flushed, index): Flushed => {
    if (typeof flushed === "string" || inserted.has(flushed.id)) {
      return flushed;
    }
    if (outdated.has(flushed.id)) {
      const match = matches.get((items[index] as CheckedEvent).place) as KnownMatch;
      known.doubt(match, comparesMatches);
      expected.delete(match);
      return "outdated";
    }
    return "key-taken";
  });
  for (const match of expected) {
    known.renew(match, versions.get(match.tenant_id));
  }
  return flushes;
}

/** Inserts events, and hands over their deliveries if it can. Nothing is sent before the commit is known. */
async function insertHanded(
  { pool, handOver, pauseMs }: CommitOptions,
  events: readonly NewEvent[],
  times: InsertTimes,
  insert: InsertOptions,
): ReturnType<typeof insertEvents> {
  const queued = events.flatMap((event) =>
    event.deliveries.filter(({ state }) => state === "QUEUED").map((delivery) => ({ event, delivery })),
  );
  const taken = handOver?.offer(queued);
  const result = await insertEvents(pool, events, times, { ...insert, handed: taken, pauseMs }).catch(
    (error: unknown) => {
      taken?.failed();
      throw error;
    },
  );
  taken?.inserted(result);
  return result;
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
  const taking = endpoints.filter((endpoint) => !excluded.has(endpoint.endpoint_id));
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
      endpointId: endpoint.endpoint_id,
      state: endpoint.state === "ACTIVE" ? "QUEUED" : "DEAD_LETTERED",
    })),
  };
}

/** A key of an incoming event that is already taken, and the event it belongs to. */
interface KnownKey {
  readonly key: EventKey;
  readonly taken: TakenKey;
}

async function findKeys(pool: Pool, { keys }: IncomingEvent, nowMs: number): Promise<KnownKey[]> {
  const found: KnownKey[] = [];
  for (const key of keys) {
    const forgetBefore = new Date(nowMs - (key.kind === "signed" ? REPLAY_MS : IDEMPOTENCY_MS));
    const taken = await findIdempotencyKey(pool, key, forgetBefore);
    if (taken !== undefined) {
      found.push({ key, taken });
    }
  }
  return found;
}

/**
 * Returns the result of the earlier request with the same keys; undefined if the keys are free again. Also undefined
 * if the keys belong to another event and this one is rejected by its schema: then the schema error is reported.
 */
async function answerOfKeys(
  pool: Pool,
  event: IncomingEvent,
  { nowMs, refused }: { readonly nowMs: number; readonly refused: boolean },
): Promise<AcceptedEvent | undefined> {
  const found = await findKeys(pool, event, nowMs);
  const same = found.filter(({ key, taken }) => taken.bodyHash.equals(key.bodyHash));
  for (const { key, taken } of same) {
    const earlier = await findEvent(pool, event.tenantId, taken.resourceId);
    if (earlier !== undefined) {
      const { id, type, created_at: createdAt, deliveries } = earlier;
      return { id, type, createdAt, deliveries, deprecatedAt: null, knownBy: key.kind };
    }
  }
  const others = found.filter((one) => !same.includes(one));
  const [other] = others;
  if (other !== undefined) {
    if (refused) {
      return undefined;
    }
    // A batch's key belongs to an event of the batch. An event whose id belongs to an earlier event is rejected
    // alone.
    const known = others.find(({ taken }) => taken.resourceId !== other.taken.resourceId);
    throw reused((known ?? other).key);
  }
  if (same.some(({ key }) => key.kind !== "id")) {
    throw new SignetError("CONFLICT", { detail: "The event that this request created no longer exists." });
  }
  // The publisher's own id was taken together with another key, which a concurrent request had taken.
  for (const { key, taken } of same) {
    await freeIdempotencyKey(pool, key, taken.resourceId);
  }
  return undefined;
}

function reused({ kind }: EventKey): SignetError {
  if (kind === "signed") {
    return new SignetError("REPLAY_CONFLICT", { detail: ERROR_DESCRIPTIONS.REPLAY_CONFLICT.meaning });
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

/** Whether an event was rejected because of its own id, not the key of its request. */
export function isIdReused({ extensions }: SignetError): boolean {
  return Array.isArray(extensions["errors"]) && extensions["errors"].includes(ID_REUSED);
}
