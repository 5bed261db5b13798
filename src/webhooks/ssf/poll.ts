/** Delivery of security event tokens by polling (RFC 8936). */
import type { Pool } from "#database/pool.ts";
import {
  deletePolledSets,
  findStream,
  listPolledSets,
  type PolledSet,
  type Stream,
} from "#database/repositories/webhooks/ssf-streams.ts";
import type { Keyring } from "#crypto/keyring.ts";
import { tenantRead, tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { found } from "#domain/errors.ts";
import type { Logger } from "#observability/logger.ts";
import { findContentRoot, openEventContent } from "../ingest/event-content.ts";
import { type SetKeys, signSet } from "./set.ts";
import { statusOf } from "./stream-service.ts";

/** Maximum number of tokens in an answer, and of acknowledgements in a request. */
export const POLL_SETS_MAX = 100;
/** How long a poll waits for tokens, in milliseconds. */
const WAIT_MS = 20_000;
const LOOK_EVERY_MS = 250;
/** Maximum number of streams of a process with a poll that waits. Each looks into the database four times a second. */
const WAITING_MAX = 100;

/** The error that a receiver reports of a token (RFC 8936 section 2.6). */
export interface SetError {
  readonly err: string;
  readonly description?: string | undefined;
}

export interface PollRequest {
  readonly maxEvents: number;
  readonly returnImmediately: boolean;
  readonly ack: readonly string[];
  readonly setErrs: Readonly<Record<string, SetError>>;
}

/** Signed tokens by `jti`, and whether more wait. */
export interface PollAnswer {
  readonly sets: Readonly<Record<string, string>>;
  readonly moreAvailable: boolean;
}

export interface PollServiceOptions {
  /** Role signet_api. */
  readonly pool: Pool;
  readonly keyring: Pick<Keyring, "contentRoot">;
  readonly keys: SetKeys;
  readonly clock: Clock;
  /** How long tokens wait for an acknowledgement, in milliseconds. */
  readonly keptMs: number;
  readonly wait: (ms: number) => Promise<void>;
  /** Maximum number of polls that wait; 100 by default. */
  readonly waitingMax?: number;
  readonly log: Logger;
}

/** The tokens of a look into the queue. */
interface Look {
  readonly stream: Stream;
  readonly queued: readonly { readonly set: PolledSet; readonly claimsJson: string }[];
  readonly more: boolean;
}

/** A poll that waits. A later one of its stream takes its place. */
interface Waiting {
  readonly tenantId: string;
}

export class PollService {
  readonly #options: PollServiceOptions;
  /** The polls that wait, by stream, the oldest first. */
  readonly #waiting = new Map<string, Waiting>();

  constructor(options: PollServiceOptions) {
    this.#options = options;
  }

  /**
   * Removes the acknowledged tokens, then returns the oldest of the others. Without any, it waits for up to 20 seconds
   * unless the request forbids that. Tokens come again until they are acknowledged.
   *
   * @param gone whether the client has closed the connection
   * @throws SignetError NOT_FOUND, also for a push stream
   */
  async poll(
    tenantId: string,
    id: string,
    { maxEvents, returnImmediately, ack, setErrs }: PollRequest,
    gone: () => boolean,
  ): Promise<PollAnswer> {
    for (const [jti, { err }] of Object.entries(setErrs)) {
      const ids = { tenant_id: tenantId, stream_id: id, jti };
      this.#options.log.warn({ ...ids, err }, "a receiver could not use a security event");
    }
    const done = [...ack, ...Object.keys(setErrs)];
    const look = await this.#look(tenantId, id, { maxEvents, done });
    // A request for no tokens only acknowledges (RFC 8936 section 2.4).
    return await this.#sign(
      look.queued.length > 0 || returnImmediately || maxEvents === 0
        ? look
        : await this.#wait(look, maxEvents, gone),
    );
  }

  /** Looks again until there are tokens. A stream has one poll that waits: a later one ends it. */
  async #wait(empty: Look, maxEvents: number, gone: () => boolean): Promise<Look> {
    const { clock, wait } = this.#options;
    const { id, tenant_id: tenantId } = empty.stream;
    const untilMs = clock.now() + WAIT_MS;
    const turn = { tenantId };
    this.#waiting.delete(id);
    this.#makeRoom(tenantId);
    this.#waiting.set(id, turn);
    let look = empty;
    try {
      while (look.queued.length === 0 && this.#waiting.get(id) === turn && clock.now() < untilMs && !gone()) {
        await wait(LOOK_EVERY_MS);
        look = await this.#look(tenantId, id, { maxEvents });
      }
    } finally {
      if (this.#waiting.get(id) === turn) {
        this.#waiting.delete(id);
      }
    }
    return look;
  }

  /** Ends the oldest poll of the tenant with the most, if too many wait: that tenant's own if it has as many as any. */
  #makeRoom(tenantId: string): void {
    if (this.#waiting.size < (this.#options.waitingMax ?? WAITING_MAX)) {
      return;
    }
    const counts = new Map<string, number>();
    for (const waiting of this.#waiting.values()) {
      counts.set(waiting.tenantId, (counts.get(waiting.tenantId) ?? 0) + 1);
    }
    const most = Math.max(...counts.values());
    const isBusiest = (id: string): boolean => counts.get(id) === most;
    const busiest = isBusiest(tenantId) ? tenantId : [...counts.keys()].find(isBusiest);
    const oldest = [...this.#waiting].find(([, waiting]) => waiting.tenantId === busiest);
    this.#waiting.delete(oldest?.[0] ?? "");
  }

  /** Answers the polls that wait. */
  close(): void {
    this.#waiting.clear();
  }

  async #look(
    tenantId: string,
    id: string,
    { maxEvents, done }: { readonly maxEvents: number; readonly done?: readonly string[] },
  ): Promise<Look> {
    const { pool, keyring, clock, keptMs } = this.#options;
    const transact = done === undefined ? tenantRead : tenantTransaction;
    return await transact(pool, tenantId, async (db) => {
      const row = await findStream(db, tenantId, id);
      const stream = found(row?.endpoint_id === null ? row : undefined, "poll stream");
      if (done !== undefined && done.length > 0) {
        await deletePolledSets(db, { tenantId, streamId: id, ids: done });
      }
      if (statusOf(stream).status !== "enabled") {
        return { stream, queued: [], more: false };
      }
      const since = new Date(clock.now() - keptMs);
      const listed = await listPolledSets(db, { tenantId, streamId: id, since, limit: maxEvents + 1 });
      const root = listed.length === 0 ? undefined : await findContentRoot(db, keyring, tenantId);
      const sets = listed.slice(0, maxEvents);
      const queued = sets.flatMap((set) =>
        root === undefined || set.content === null
          ? []
          : [{ set, claimsJson: openEventContent(root, tenantId, set.event_id, set.content) }],
      );
      const erased = sets.filter(({ content }) => content === null).map((set) => set.id);
      if (done !== undefined && erased.length > 0) {
        await deletePolledSets(db, { tenantId, streamId: id, ids: erased });
      }
      return { stream, queued, more: listed.length > maxEvents };
    });
  }

  async #sign({ stream, queued, more }: Look): Promise<PollAnswer> {
    const signed = await Promise.all(
      queued.map(async ({ set: { id, occurred_at: occurredAt }, claimsJson }) => {
        const claims = { id, streamId: stream.id, occurredAt, claimsJson };
        return [id, await signSet(this.#options.keys, claims)] as const;
      }),
    );
    return { sets: Object.fromEntries(signed), moreAvailable: more };
  }
}
