/** Delivery of security event tokens by polling (RFC 8936). */
import type { Pool } from "../../database/pool.ts";
import {
  deletePolledSets,
  findStream,
  listPolledSets,
  type PolledSet,
  type Stream,
} from "../../database/repositories/webhooks/ssf-streams.ts";
import type { Keyring } from "../../crypto/keyring.ts";
import { tenantTransaction } from "../../database/transaction.ts";
import type { Clock } from "../../domain/clock.ts";
import { found, tooManyRequests } from "../../domain/errors.ts";
import type { Logger } from "../../observability/logger.ts";
import { findContentRoot, openEventContent } from "../ingest/event-content.ts";
import { type SetKeys, signSet } from "./set.ts";
import { statusOf } from "./stream-service.ts";

/** Maximum number of tokens in an answer, and of acknowledgements in a request. */
export const POLL_SETS_MAX = 100;
/** How long a poll waits for tokens, in milliseconds. */
const WAIT_MS = 20_000;
const LOOK_EVERY_MS = 250;
/** Maximum number of polls of a process that wait. Each looks into the database four times a second. */
const WAITING_MAX = 100;
const RETRY_AFTER_MS = 5_000;

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
  readonly log: Logger;
}

/** The tokens of a look into the queue. */
interface Look {
  readonly stream: Stream;
  readonly queued: readonly { readonly set: PolledSet; readonly claimsJson: string }[];
  readonly more: boolean;
}

export class PollService {
  readonly #options: PollServiceOptions;
  #waiting = 0;
  #closed = false;

  constructor(options: PollServiceOptions) {
    this.#options = options;
  }

  /**
   * Removes the acknowledged tokens, then returns the oldest of the others. Without any, it waits for up to 20 seconds
   * unless the request forbids that. Tokens come again until they are acknowledged.
   *
   * @param gone whether the client has closed the connection
   * @throws SignetError NOT_FOUND, also for a push stream; RATE_LIMITED if too many polls wait
   */
  async poll(
    tenantId: string,
    id: string,
    { maxEvents, returnImmediately, ack, setErrs }: PollRequest,
    gone: () => boolean,
  ): Promise<PollAnswer> {
    const { clock, log, wait } = this.#options;
    const done = [...ack, ...Object.keys(setErrs)];
    for (const [jti, { err }] of Object.entries(setErrs)) {
      log.warn({ tenant_id: tenantId, stream_id: id, jti, err }, "a receiver could not use a security event");
    }
    let look = await this.#look(tenantId, id, { maxEvents, done });
    const untilMs = clock.now() + WAIT_MS;
    // A request for no tokens only acknowledges (RFC 8936 section 2.4).
    if (look.queued.length === 0 && !returnImmediately && maxEvents > 0) {
      if (this.#waiting >= WAITING_MAX) {
        throw tooManyRequests(RETRY_AFTER_MS, "Too many polls are waiting: use returnImmediately.");
      }
      this.#waiting += 1;
      try {
        while (look.queued.length === 0 && clock.now() < untilMs && !this.#closed && !gone()) {
          await wait(LOOK_EVERY_MS);
          look = await this.#look(tenantId, id, { maxEvents, done: [] });
        }
      } finally {
        this.#waiting -= 1;
      }
    }
    return await this.#sign(look);
  }

  /** Answers the polls that wait. */
  close(): void {
    this.#closed = true;
  }

  async #look(
    tenantId: string,
    id: string,
    { maxEvents, done }: { readonly maxEvents: number; readonly done: readonly string[] },
  ): Promise<Look> {
    const { pool, keyring, clock, keptMs } = this.#options;
    return await tenantTransaction(pool, tenantId, async (db) => {
      const row = await findStream(db, tenantId, id);
      const stream = found(row?.endpointId === null ? row : undefined, "poll stream");
      if (done.length > 0) {
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
          : [{ set, claimsJson: openEventContent(root, tenantId, set.eventId, set.content) }],
      );
      const erased = sets.filter(({ content }) => content === null).map((set) => set.id);
      if (erased.length > 0) {
        await deletePolledSets(db, { tenantId, streamId: id, ids: erased });
      }
      return { stream, queued, more: listed.length > maxEvents };
    });
  }

  async #sign({ stream, queued, more }: Look): Promise<PollAnswer> {
    const signed = await Promise.all(
      queued.map(async ({ set: { id, occurredAt }, claimsJson }) => {
        const claims = { id, streamId: stream.id, occurredAt, claimsJson };
        return [id, await signSet(this.#options.keys, claims)] as const;
      }),
    );
    return { sets: Object.fromEntries(signed), moreAvailable: more };
  }
}
