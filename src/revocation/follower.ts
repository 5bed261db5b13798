/**
 * Follows the revocations over its own connection (security decisions D). It listens first, then reads all live
 * revocations, then polls for new ones: every 50 ms while tokens are checked, otherwise every 150. Notifications make
 * denials fast; the polls make them reliable.
 */
import type { Pool, Queryable } from "#database/pool.ts";
import {
  readAllRevocations,
  readRevocationNews,
} from "#database/repositories/tokens/followed-revocations.ts";
import {
  acknowledge,
  type FollowerRow,
  markFollowerSeen,
  registerFollower,
  removeFollower,
} from "#database/repositories/tokens/revocations.ts";
import type { Subscription, SubscriptionOptions } from "#database/subscription.ts";
import type { Clock, LearnedClock, Timer, Timers } from "#domain/clock.ts";
import { KeptConnection } from "#runtime/kept-connection.ts";
import { afterLoopTime, withinLoopTime } from "#runtime/loop-time.ts";
import type { Logger } from "#observability/logger.ts";
import { processId } from "./receipt.ts";
import { RevocationView } from "./view.ts";

export const REVOCATION_CHANNEL = "signet_revocations";

/** Pause before this process registers again. */
const REGISTER_AGAIN_MS = 500;
const ASK_EVERY_MS = 50;
/** The same after a second without a check of a token. Shorter than a lease, so the next check need not wait. */
const ASK_UNUSED_MS = 150;
const UNUSED_AFTER_MS = 1_000;
/** Pauses between sweeps of ended denials, each with a sign of life for receipts. */
const SWEEP_EVERY_MS = 60_000;
/** Silence, in the loop's time (see `afterLoopTime`), after which a connection counts as broken. */
const LISTENING_SILENT_MS = 1_000;
/** The same while all live revocations are read, of which there may be a million. */
const READING_SILENT_MS = 5_000;
const OTHER_SILENT_MS = 500;
/** Loop time after which the database counts as silent for a waiting request. */
const RENEWAL_SILENT_MS = 100;
const LOOK_AGAIN_MS = 10;
/**
 * Acknowledgements are delayed and spread, so that notifications go first and the processes do not all write at once.
 * Each one reports how long it waited. Later changes are acknowledged together.
 */
const ACKNOWLEDGE_AFTER_MS = 5;
const ACKNOWLEDGE_SPREAD_MS = 20;

/** Time for the first opening. It takes several turns of the event loop, each of which may be late. */
const OPENING_MS = 3_000;
const NOT_FOLLOWED = "revocations are not followed";
const STANDBY = "the database is a standby: revocations are followed on the primary only";

export interface FollowerOptions {
  /** Opens the connection for notifications. */
  readonly subscribe: (
    handlers: Pick<SubscriptionOptions, "onNotification" | "onLost" | "signal">,
  ) => Promise<Subscription>;
  /** Another connection to the same database, used when the first is silent. Role signet_edge. */
  readonly other: Pick<Pool, "connect">;
  /** Identity of this process for those who wait for its acknowledgements. */
  readonly identity: Omit<FollowerRow, "leaseMs">;
  readonly leaseMs: number;
  /** Called when a tenant's policy has changed, so that cached policies become invalid. */
  readonly onPolicyChange?: ((tenantId: string) => void) | undefined;
  readonly clock: Clock;
  /** The database's time, which its answers bring. Tokens must be checked by it. */
  readonly time: LearnedClock;
  readonly timers: Timers;
  readonly log: Logger;
}

export class RevocationFollower {
  readonly view: RevocationView;
  readonly #options: FollowerOptions;
  #asks: Timer | undefined;
  #sweeps: Timer | undefined;
  readonly #kept: KeptConnection<Subscription>;
  /** The connection over which everything was read. */
  #subscription: Subscription | undefined;
  /** The connection over which a question is under way. On one that was replaced, its end may take a second. */
  #asking: Subscription | undefined;
  /** A notification arrived that the pending answer may not cover. */
  #unexplained = false;
  #acknowledging: Subscription | undefined;
  #acknowledged = 0;
  /** The highest applied sequence number, and when it was applied. */
  #applied = { sequence: 0, at: 0 };
  #looking = false;
  #renewal: Promise<boolean> | undefined;
  /** Called with every answer over either connection. */
  #onAnswer: () => void = () => undefined;
  #beginning: Promise<void> = Promise.resolve();
  #registering: Timer | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.view = new RevocationView(options);
    this.#kept = new KeptConnection<Subscription>({
      open: async ({ signal, onLost }) =>
        await options.subscribe({ onNotification: (payload) => this.#hear(payload), onLost, signal }),
      close: (subscription) => void subscription.close(),
      onOpen: (subscription) => {
        this.#beginning = this.#begin(subscription);
      },
      onLost: (error) => {
        this.#subscription = undefined;
        options.log.warn({ err: error }, NOT_FOLLOWED);
      },
      onFailed: (error) => options.log.warn({ err: error }, NOT_FOLLOWED),
      timers: options.timers,
      patienceMs: OPENING_MS,
    });
  }

  /** Starts to follow. Resolves after the first attempt to read everything, even if it failed. */
  async start(): Promise<void> {
    this.#askLater();
    this.#sweeps = this.#options.timers.every(SWEEP_EVERY_MS, () => this.#sweep()).unref();
    await this.#kept.start();
    await this.#beginning;
  }

  /**
   * Renews the knowledge until tokens can be admitted by it; concurrent callers share one renewal. A question whose
   * answer is read too late is repeated, because the lease counts from when the question was sent.
   *
   * @returns false if the database is silent
   */
  async renew(): Promise<boolean> {
    this.#renewal ??= this.view
      .renewedBy(async () => await this.#nextAnswer())
      .finally(() => {
        this.#renewal = undefined;
      });
    return await this.#renewal;
  }

  /** Resolves if tokens can be admitted. Rejects if the knowledge is too old and cannot be renewed. */
  async requireCurrent(): Promise<void> {
    if (!this.view.current && !(await this.renew())) {
      throw new Error("revocations are not followed: the database is silent");
    }
  }

  async stop(): Promise<void> {
    this.#options.timers.cancel(this.#asks);
    this.#options.timers.cancel(this.#sweeps);
    await this.#beginning;
    this.#options.timers.cancel(this.#registering);
    await this.#leave();
    const { connection } = this.#kept;
    this.#kept.stop();
    await connection?.close();
  }

  /** Removes this process from the followers, so that receipts do not name it as silent. */
  async #leave(): Promise<void> {
    const subscription = this.#subscription;
    if (subscription !== undefined) {
      const leaving = removeFollower(subscription.db, this.#options.identity.lockKey);
      await withinLoopTime(
        this.#options.timers,
        LISTENING_SILENT_MS,
        leaving,
        () => void subscription.close(),
      ).catch((error: unknown) =>
        this.#options.log.debug({ err: error }, "this process is still listed as a follower"),
      );
    }
  }

  #sweep(): void {
    this.view.prune();
    const { identity, log } = this.#options;
    if (this.#subscription !== undefined) {
      // A connection that fails here is noticed by the next question.
      markFollowerSeen(this.#subscription.db, identity.lockKey).catch((error: unknown) =>
        log.debug({ err: error }, "the sign of life was not written"),
      );
    }
  }

  #askLater(): void {
    const isUnused = this.view.unusedMs > UNUSED_AFTER_MS;
    this.#asks = this.#options.timers.after(isUnused ? ASK_UNUSED_MS : ASK_EVERY_MS, () => {
      this.#askLater();
      void this.#ask();
    });
  }

  /** Registers over an open connection, and reads everything over it. */
  async #begin(subscription: Subscription): Promise<void> {
    this.#subscription = undefined;
    try {
      // Registered before reading, so that every later revocation waits for this process.
      await this.#register(subscription);
      // Reads everything, even after a short interruption, because the database may have been replaced.
      await this.#learnAll(subscription);
      await this.#learnOver(subscription);
    } catch (error) {
      this.#lose(subscription, error);
      return;
    }
    if (this.#kept.connection !== subscription) {
      return;
    }
    this.#subscription = subscription;
    this.#kept.proved();
    void this.#acknowledge();
    const follower = processId(this.#options.identity);
    this.#options.log.info(
      { follower, sequence: this.view.sequence, denied: this.view.size },
      "following revocations",
    );
  }

  /**
   * Registers, so that receipts count this process. Fails while somebody holds its record or its lock: a login from
   * outside, or the session of a connection that was lost in silence, until the server notices. That delays receipts, but
   * not what this process learns.
   */
  async #register(subscription: Subscription): Promise<void> {
    const { identity, leaseMs, log } = this.#options;
    const registering = registerFollower(subscription.db, { ...identity, leaseMs });
    try {
      await withinLoopTime(
        this.#options.timers,
        LISTENING_SILENT_MS,
        registering,
        () => void subscription.close(),
      );
      this.#acknowledged = 0;
      void this.#acknowledge();
    } catch (error) {
      log.debug({ err: error }, "this process is not registered");
      this.#registerLater(subscription);
    }
  }

  /** Never while everything is read over the connection: that is one transaction, which writes nothing. */
  #registerLater(subscription: Subscription): void {
    this.#options.timers.cancel(this.#registering);
    if (this.#kept.connection === subscription) {
      this.#registering = this.#options.timers.after(REGISTER_AGAIN_MS, () => {
        if (this.#subscription === subscription) {
          void this.#register(subscription);
        } else {
          this.#registerLater(subscription);
        }
      });
    }
  }

  #lose(lost: Subscription, error: unknown): void {
    if (this.#kept.connection === lost) {
      this.#kept.leave(error);
    } else {
      void lost.close();
    }
  }

  async #ask(): Promise<void> {
    const subscription = this.#subscription;
    if (subscription === undefined || this.#asking === subscription) {
      return;
    }
    this.#asking = subscription;
    this.#unexplained = false;
    try {
      const sentAt = this.#options.timers.monotonic();
      await this.#learnOver(subscription);
      // When the loop is late, so are its timers. Then the next question goes out in the turn that reads this answer.
      if (this.#unexplained || this.#options.timers.monotonic() - sentAt > ASK_EVERY_MS) {
        this.#options.timers.soon(() => void this.#ask());
      }
    } catch (error) {
      this.#lose(subscription, error);
    } finally {
      this.#asking = this.#asking === subscription ? undefined : this.#asking;
    }
  }

  /** Reads over the subscription. Closes it if no answer comes, whatever the network reports. */
  async #learnOver(subscription: Subscription): Promise<void> {
    this.#kept.expect();
    const learning = this.#learnFrom(subscription.db);
    await withinLoopTime(
      this.#options.timers,
      LISTENING_SILENT_MS,
      learning,
      () => void subscription.close(),
    );
    this.#kept.heard();
  }

  /** Reads all live revocations over a subscription that is not in use yet. */
  async #learnAll(subscription: Subscription): Promise<void> {
    const question = this.view.ask(true);
    const news = await readAllRevocations(
      subscription.db,
      async (answer) =>
        await withinLoopTime(
          this.#options.timers,
          READING_SILENT_MS,
          answer,
          () => void subscription.close(),
        ),
      (page) => this.view.applyPartial(page),
    );
    const result = this.view.applyAnswer(question, news);
    if (result === "standby") {
      throw new Error(STANDBY);
    }
    if (result === "replaced") {
      this.#options.log.error(
        { sequence: question.known.sequence },
        "the database lacks revocations that are known here; they are kept, and everything was read again",
      );
    }
  }

  #hear(payload: string): void {
    if (!this.view.applyNotification(payload)) {
      this.#unexplained = true;
      void this.#ask();
    }
    void this.#acknowledge();
  }

  /** Acknowledges over the connection for notifications: a process that cannot receive them must not claim to. */
  async #acknowledge(): Promise<void> {
    const subscription = this.#subscription;
    const { timers, identity } = this.#options;
    if (this.#applied.sequence !== this.view.applied) {
      this.#applied = { sequence: this.view.applied, at: timers.monotonic() };
    }
    if (subscription === undefined || this.#acknowledging === subscription) {
      return;
    }
    this.#acknowledging = subscription;
    try {
      while (this.#acknowledged !== this.view.applied && this.#subscription === subscription) {
        await this.#options.timers.sleep(ACKNOWLEDGE_AFTER_MS + (identity.lockKey % ACKNOWLEDGE_SPREAD_MS));
        const { sequence, at } = this.#applied;
        await acknowledge(subscription.db, identity.lockKey, { sequence, sinceMs: timers.monotonic() - at });
        this.#acknowledged = sequence;
      }
    } catch (error) {
      this.#options.log.debug({ err: error }, "revocations were not acknowledged");
    } finally {
      this.#acknowledging = this.#acknowledging === subscription ? undefined : this.#acknowledging;
    }
  }

  /** Resolves with true at the next answer, or with false if none comes within the loop's time. */
  async #nextAnswer(): Promise<boolean> {
    const over = new AbortController();
    const look = async (): Promise<void> => {
      while (!over.signal.aborted && !(await this.#look())) {
        await this.#options.timers.sleep(LOOK_AGAIN_MS);
      }
    };
    let cancel: (() => void) | undefined;
    const answered = await new Promise<boolean>((resolve) => {
      this.#onAnswer = () => resolve(true);
      cancel = afterLoopTime(this.#options.timers, RENEWAL_SILENT_MS, () => resolve(false));
      void look();
    });
    over.abort();
    cancel?.();
    this.#onAnswer = () => undefined;
    return answered;
  }

  /** Asks over the other connection, unless that is under way. Resolves with whether an answer may follow. */
  async #look(): Promise<boolean> {
    if (this.#looking) {
      return false;
    }
    this.#looking = true;
    try {
      const client = await this.#options.other.connect();
      let broken = true;
      try {
        await withinLoopTime(
          this.#options.timers,
          OTHER_SILENT_MS,
          this.#learnFrom(client),
          () => void client.end(),
        );
        broken = false;
      } finally {
        client.release(broken);
      }
      return true;
    } catch (error) {
      this.#options.log.debug({ err: error }, "reading the revocations over the other connection failed");
      return false;
    } finally {
      this.#looking = false;
    }
  }

  /** @throws if everything must be read again, over a new connection */
  async #learnFrom(db: Queryable): Promise<void> {
    const question = this.view.ask();
    const result = this.view.applyAnswer(question, await readRevocationNews(db, question.after));
    if (result === "standby") {
      throw new Error(STANDBY);
    }
    if (result === "restored") {
      throw new Error("the database was restored or replaced");
    }
    this.#onAnswer();
    void this.#acknowledge();
  }
}
