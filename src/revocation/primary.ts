/**
 * The primary as a hub asks it: several connections, each of which carries questions one after the other without waiting
 * for answers. A lost packet delays the questions of one connection only. Each connection also listens.
 */
import { readRevocationSnapshot, type Within } from "#database/repositories/tokens/followed-revocations.ts";
import {
  acknowledge,
  type FollowerRow,
  loseFollowers,
  markFollowerSeen,
  proveRevocations,
  type ProofRow,
  registerFollower,
  removeFollower,
  reportFollowers,
} from "#database/repositories/tokens/revocations.ts";
import type { Queryable } from "#database/pool.ts";
import type { Subscription, SubscriptionOptions } from "#database/subscription.ts";
import type { Logger } from "#observability/logger.ts";
import { KeptConnection } from "#runtime/kept-connection.ts";
import { withinLoopTime } from "#runtime/loop-time.ts";
import type { FollowerNews } from "./follower-reports.ts";
import type { HubAnswer, Upstream } from "./hub-questions.ts";
import { type Attestation, NONCE_BYTES, type Snapshot } from "./proof.ts";
import type { Timer, Timers } from "#domain/clock.ts";

const CONNECTIONS = 3;
/** Silence, in the loop's time, after which a connection counts as broken. */
const SILENT_MS = 2_000;
/** The same before each part of a snapshot. Making one of a million revocations takes 4 s. */
const SNAPSHOT_SILENT_MS = 9_000;
const SEEN_EVERY_MS = 60_000;
const NOTICE = /^(\S{1,300}) (\S{36}) ([0-9a-f]{64}) ?(\S*)$/;

export interface PrimaryOptions {
  /** Opens a connection that pipelines queries and hears of new lines. */
  readonly subscribe: (
    handlers: Pick<SubscriptionOptions, "onNotification" | "onLost" | "signal">,
  ) => Promise<Subscription>;
  readonly identity: FollowerRow;
  /** Called with each revocation that the primary announces, from each connection. */
  readonly onLine: (line: string, state: Attestation) => void;
  readonly timers: Timers;
  readonly log: Logger;
}

/** Pause before this hub registers again: the server may still hold a connection that was lost in silence. */
const REGISTER_AGAIN_MS = 500;

/** Time for the first opening: far away, TLS, the login and the first question take ten round trips. */
const OPENING_MS = 3_000;

interface Slot {
  readonly kept: KeptConnection<Subscription>;
  underWay: number;
  /** Whether a snapshot is being read, behind which other answers wait. */
  isReading: boolean;
}

function answerOf(rows: readonly ProofRow[]): HubAnswer {
  const [first] = rows;
  if (first === undefined || first.codes === "") {
    throw new Error(
      "the database proves nothing: it is a standby, or `signet migrate` has not run with SIGNET_LEASE_KEY",
    );
  }
  return {
    proof: {
      epoch: first.epoch,
      sequence: first.clock,
      head: first.head,
      keysDigest: first.keys_digest,
      atUs: first.at_us,
      codes: first.codes,
    },
    trees: [],
    lines: rows.flatMap(({ line }) => line ?? []),
    keys: first.keys ?? undefined,
  };
}

export class Primary implements Upstream {
  readonly #options: PrimaryOptions;
  readonly #slots: Slot[];
  #heard = 0;
  #relayed = 0;
  #seen: Timer | undefined;
  /** The connection that holds this hub's own registration. */
  #registered: Subscription | undefined;
  #registering: Timer | undefined;
  #stopped = false;

  constructor(options: PrimaryOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: CONNECTIONS }, () => this.#slot());
  }

  /** Resolves after the first attempt to connect, even if it failed. */
  async start(): Promise<void> {
    this.#seen = this.#options.timers
      .every(SEEN_EVERY_MS, () => {
        this.#over(async (db) => await markFollowerSeen(db, this.#options.identity.lockKey)).catch(
          () => undefined,
        );
      })
      .unref();
    await Promise.all(this.#slots.map(async ({ kept }) => await kept.start()));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#options.timers.cancel(this.#seen);
    this.#options.timers.cancel(this.#registering);
    const { lockKey } = this.#options.identity;
    await this.#over(async (db) => await removeFollower(db, lockKey)).catch(() => undefined);
    for (const { kept } of this.#slots) {
      const { connection } = kept;
      kept.stop();
      await connection?.close();
    }
  }

  async ask(nonce: Buffer, known: Parameters<Upstream["ask"]>[1]): Promise<HubAnswer> {
    return answerOf(await this.#over(async (db) => await proveRevocations(db, nonce, known)));
  }

  async snapshot(): Promise<Snapshot> {
    const { clock: sequence, ...rest } = await this.#over(readRevocationSnapshot, true);
    return { sequence, ...rest };
  }

  relayed(sequence: number): void {
    this.#relayed = sequence;
    const { lockKey } = this.#options.identity;
    this.#over(async (db) => await acknowledge(db, lockKey, { sequence, sinceMs: 0 })).catch(
      (error: unknown) => this.#options.log.debug({ err: error }, "revocations were not acknowledged"),
    );
  }

  async report(followers: readonly FollowerNews[]): Promise<void> {
    const { identity, timers } = this.#options;
    const now = timers.monotonic();
    const rows = followers.map(({ at, ...follower }) => ({ ...follower, sinceMs: now - at }));
    await this.#over(async (db) => await reportFollowers(db, identity.lockKey, rows));
  }

  async reportLost(lockKeys: readonly number[], stopped: boolean): Promise<void> {
    const { lockKey: hub } = this.#options.identity;
    await this.#over(async (db) => await loseFollowers(db, { hub, lockKeys, stopped }));
  }

  /**
   * Runs a query over the connection with the fewest unanswered ones, so that one that stalls is avoided.
   *
   * @param reads whether it reads in several steps, for which it gets the connection for itself
   */
  async #over<T>(query: (db: Queryable, within: Within) => Promise<T>, reads = false): Promise<T> {
    const slot = this.#freest();
    const subscription = slot?.kept.connection;
    if (slot === undefined || subscription === undefined) {
      throw new Error("there is no connection to the database");
    }
    slot.underWay += 1;
    slot.isReading = reads;
    // The other connections get the next ones.
    this.#slots.push(...this.#slots.splice(this.#slots.indexOf(slot), 1));
    const leave = (error: Error): void => {
      if (slot.kept.connection === subscription) {
        slot.kept.leave(error);
      }
    };
    const silence = new Error("the primary does not answer");
    const within: Within = async (answer) =>
      await withinLoopTime(this.#options.timers, reads ? SNAPSHOT_SILENT_MS : SILENT_MS, answer, () =>
        leave(silence),
      );
    try {
      const answer = query(subscription.db, within);
      if (reads) {
        return await answer;
      }
      slot.kept.expect();
      const answered = await within(answer);
      if (slot.kept.connection === subscription) {
        slot.kept.heard();
        slot.kept.proved();
      }
      return answered;
    } catch (error) {
      if (reads) {
        // A transaction may be open.
        leave(error as Error);
      }
      throw error;
    } finally {
      if (slot.kept.connection === subscription) {
        slot.underWay -= 1;
        slot.isReading &&= !reads;
      }
    }
  }

  #freest(): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#slots) {
      const isFree = slot.kept.connection !== undefined && !slot.isReading;
      if (isFree && (best === undefined || slot.underWay < best.underWay)) {
        best = slot;
      }
    }
    return best;
  }

  #slot(): Slot {
    const { log, timers } = this.#options;
    const slot: Slot = {
      kept: new KeptConnection<Subscription>({
        open: async ({ signal, onLost }) => await this.#open(signal, onLost),
        close: (subscription) => void subscription.close(),
        onOpen: () => {
          slot.underWay = 0;
          slot.isReading = false;
          log.debug({}, "a connection to the primary is open");
          void this.#register();
        },
        onLost: (error) => {
          log.warn({ err: error }, "a connection to the primary is lost");
          void this.#register();
        },
        onFailed: (error) => log.warn({ err: error }, "the primary cannot be reached"),
        timers,
        patienceMs: OPENING_MS,
      }),
      underWay: 0,
      isReading: false,
    };
    return slot;
  }

  async #open(signal: AbortSignal, onLost: (error: unknown) => void): Promise<Subscription> {
    const onNotification = (payload: string): void => this.#hear(payload);
    const subscription = await this.#options.subscribe({ onNotification, onLost, signal });
    const abort = (): void => void subscription.close();
    signal.addEventListener("abort", abort, { once: true });
    try {
      // Prepares the statement before several are sent at once.
      const known = { keysDigest: undefined, after: this.#heard };
      answerOf(await proveRevocations(subscription.db, Buffer.alloc(NONCE_BYTES), known));
      return subscription;
    } catch (error) {
      await subscription.close();
      throw error;
    } finally {
      signal.removeEventListener("abort", abort);
    }
  }

  /** Registers this hub over an open connection, if it is not registered. Proofs do not wait for that. */
  async #register(): Promise<void> {
    const { identity, log } = this.#options;
    const open = this.#slots.flatMap(({ kept }) => kept.connection ?? []);
    const [subscription] = open;
    if (subscription === undefined || this.#stopped) {
      return;
    }
    if (this.#registered !== undefined && open.includes(this.#registered)) {
      return;
    }
    this.#registered = subscription;
    try {
      await registerFollower(subscription.db, identity);
      await acknowledge(subscription.db, identity.lockKey, { sequence: this.#relayed, sinceMs: 0 });
    } catch (error) {
      log.debug({ err: error }, "this hub is not registered");
      this.#registered = undefined;
      this.#options.timers.cancel(this.#registering);
      this.#registering = this.#options.timers.after(REGISTER_AGAIN_MS, () => void this.#register());
    }
  }

  #hear(payload: string): void {
    const [, line, epoch, head, codes] = NOTICE.exec(payload) ?? [];
    if (line === undefined || epoch === undefined || head === undefined || codes === undefined) {
      return;
    }
    const sequence = Number(line.slice(0, line.indexOf(":")));
    // Each connection hears it.
    if (!Number.isSafeInteger(sequence) || sequence === this.#heard) {
      return;
    }
    this.#heard = sequence;
    this.#options.onLine(line, { epoch, sequence, head, codes });
  }
}
