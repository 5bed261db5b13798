/**
 * Follows the revocations over a connection of its own (security decisions D): it listens first, then reads all that is
 * live, then asks every 50 ms for what is new. A notification makes a denial quick; the answers make it sure.
 */
import type { Queryable } from "../database/pool.ts";
import { readRevocationNews } from "../database/repositories/revocations.ts";
import type { Subscription, SubscriptionOptions } from "../database/subscription.ts";
import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../observability/logger.ts";
import type { Monotonic } from "./lease.ts";
import { RevocationView } from "./view.ts";

export const REVOCATION_CHANNEL = "signet_revocations";

const ASK_EVERY_MS = 50;
const RECONNECT_FIRST_MS = 50;
const RECONNECT_MAX_MS = 1_000;
const PRUNE_EVERY_MS = 60_000;

export interface FollowerOptions {
  /** Opens the connection that is listened on. */
  readonly subscribe: (
    handlers: Pick<SubscriptionOptions, "onNotification" | "onLost">,
  ) => Promise<Subscription>;
  /** Another way to the same database, for a look when that connection is silent. Role signet_edge. */
  readonly other: Queryable;
  readonly leaseMs: number;
  readonly clock: Clock;
  readonly monotonic: Monotonic;
  readonly log: Logger;
}

export class RevocationFollower {
  readonly view: RevocationView;
  readonly #options: FollowerOptions;
  readonly #timers: NodeJS.Timeout[] = [];
  #reconnecting: NodeJS.Timeout | undefined;
  #subscription: Subscription | undefined;
  #connecting: Promise<void> = Promise.resolve();
  #reconnectMs = RECONNECT_FIRST_MS;
  #asking = false;
  #look: Promise<boolean> | undefined;
  #stopped = false;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.view = new RevocationView(options);
  }

  /** Starts to follow; resolves when the first try to read everything is over, whether or not it succeeded. */
  async start(): Promise<void> {
    this.#timers.push(setInterval(() => void this.#ask(), ASK_EVERY_MS));
    this.#timers.push(setInterval(() => this.view.prune(), PRUNE_EVERY_MS).unref());
    await this.#connect();
  }

  /**
   * Asks once over the other way. Whoever asks while a question is under way gets its answer.
   *
   * @returns whether what is known is complete now
   */
  async look(): Promise<boolean> {
    this.#look ??= this.#learnFrom(this.#options.other)
      .catch((error: unknown) => {
        this.#options.log.debug({ err: error }, "the look at the revocations failed");
        return false;
      })
      .finally(() => {
        this.#look = undefined;
      });
    return await this.#look;
  }

  /** Resolves when tokens can be admitted; rejects when what is known is too old and cannot be renewed. */
  async requireCurrent(): Promise<void> {
    if (!this.view.current && !(await this.look())) {
      throw new Error("revocations are not followed: the database is silent");
    }
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    this.#timers.forEach(clearInterval);
    clearTimeout(this.#reconnecting);
    await this.#connecting;
    await this.#subscription?.close();
  }

  async #connect(): Promise<void> {
    this.#connecting = this.#open();
    await this.#connecting;
  }

  async #open(): Promise<void> {
    let subscription: Subscription | undefined;
    try {
      subscription = await this.#options.subscribe({
        onNotification: (payload) => this.view.hear(payload),
        onLost: (error) => this.#lose(subscription, error),
      });
      // Everything, also after a short interruption: the database behind it may be another one.
      await this.#learnFrom(subscription.db, true);
    } catch (error) {
      await subscription?.close();
      this.#lose(undefined, error);
      return;
    }
    this.#subscription = subscription;
    this.#reconnectMs = RECONNECT_FIRST_MS;
    this.#options.log.info({ sequence: this.view.sequence, denied: this.view.size }, "following revocations");
  }

  /** Opens the connection again, once for each that is lost; `lost` is undefined for one that was never in use. */
  #lose(lost: Subscription | undefined, error: unknown): void {
    if (this.#stopped || this.#subscription !== lost) {
      return;
    }
    this.#options.log.warn({ err: error }, "revocations are not followed");
    this.#subscription = undefined;
    this.#reconnecting = setTimeout(() => void this.#connect(), this.#reconnectMs);
    this.#reconnectMs = Math.min(2 * this.#reconnectMs, RECONNECT_MAX_MS);
  }

  async #ask(): Promise<void> {
    const subscription = this.#subscription;
    if (subscription === undefined || this.#asking) {
      return;
    }
    this.#asking = true;
    try {
      await this.#learnFrom(subscription.db);
    } catch (error) {
      // An answer that does not come means a connection that is gone, whatever the network says of it.
      await subscription.close();
      this.#lose(subscription, error);
    } finally {
      this.#asking = false;
    }
  }

  async #learnFrom(db: Queryable, everything = false): Promise<boolean> {
    const question = this.view.ask(everything);
    const heard = this.view.learn(question, await readRevocationNews(db, question.after));
    if (heard === "standby") {
      throw new Error("the database is a standby: revocations are followed on the primary only");
    }
    if (heard === "restored") {
      return await this.#learnFrom(db, true);
    }
    if (heard === "replaced") {
      this.#options.log.error(
        { sequence: question.known.sequence },
        "the database does not know revocations that are known here; they are kept, and it was read anew",
      );
    }
    return true;
  }
}
