/**
 * Follows the revocations over a connection of its own (security decisions D): it listens first, then reads all that is
 * live, then asks every 50 ms for what is new. A notification makes a denial quick; the answers make it sure.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Pool, Queryable } from "../database/pool.ts";
import {
  acknowledge,
  type FollowerRow,
  readRevocationNews,
  registerFollower,
} from "../database/repositories/tokens/revocations.ts";
import type { Subscription, SubscriptionOptions } from "../database/subscription.ts";
import type { Clock } from "../domain/clock.ts";
import { afterLoopTime, withinLoopTime } from "../runtime/loop-time.ts";
import type { Logger } from "../observability/logger.ts";
import type { Monotonic } from "./lease.ts";
import { RevocationView } from "./view.ts";

export const REVOCATION_CHANNEL = "signet_revocations";

const ASK_EVERY_MS = 50;
const RECONNECT_FIRST_MS = 50;
const RECONNECT_MAX_MS = 1_000;
const PRUNE_EVERY_MS = 60_000;
/** Times of the loop (see `afterLoopTime`), after which a connection without an answer is as good as broken. */
const LISTENING_SILENT_MS = 1_000;
const OTHER_SILENT_MS = 500;
/** Time of the loop after which the database counts as silent for a request that waits. */
const RENEWAL_SILENT_MS = 100;
const LOOK_AGAIN_MS = 10;
/**
 * Acknowledgements leave room for the notifications of those who have not heard yet, and do not all come at once; each
 * tells how long it has waited. What comes meanwhile is acknowledged together.
 */
const ACKNOWLEDGE_AFTER_MS = 5;
const ACKNOWLEDGE_SPREAD_MS = 20;
/** Answers that keep coming too late to be of use are waited for so long: then this process is of no use either. */
const RENEWAL_MOST_MS = 5_000;

export interface FollowerOptions {
  /** Opens the connection that is listened on. */
  readonly subscribe: (
    handlers: Pick<SubscriptionOptions, "onNotification" | "onLost">,
  ) => Promise<Subscription>;
  /** Another way to the same database, for a look when that connection is silent. Role signet_edge. */
  readonly other: Pick<Pool, "connect">;
  /** How it is known to those who wait for its acknowledgements. */
  readonly identity: FollowerRow;
  readonly leaseMs: number;
  /** The policy of a tenant has changed: what this process knows of it holds no longer. */
  readonly onPolicyChange?: ((tenantId: string) => void) | undefined;
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
  /** A notification came that the answer under way may not explain. */
  #unexplained = false;
  #acknowledging = false;
  #acknowledged = 0;
  /** When the last of what is obeyed became so. */
  #applied = { sequence: 0, at: 0 };
  #looking = false;
  #renewal: Promise<boolean> | undefined;
  /** Called with every answer, over whichever connection it came. */
  #onAnswer: () => void = () => undefined;
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
   * Makes what is known recent enough to admit by, for all that wait for it. A question whose answer is read too late is
   * asked again: the lease counts from when a question was sent, and this process may be behind itself.
   *
   * @returns false when the database is silent
   */
  async renew(): Promise<boolean> {
    this.#renewal ??= this.#askUntilCurrent().finally(() => {
      this.#renewal = undefined;
    });
    return await this.#renewal;
  }

  /** Resolves when tokens can be admitted; rejects when what is known is too old and cannot be renewed. */
  async requireCurrent(): Promise<void> {
    if (!this.view.current && !(await this.renew())) {
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
        onNotification: (payload) => this.#hear(payload),
        onLost: (error) => this.#lose(subscription, error),
      });
      // Known before it knows: whoever revokes from here on waits for it.
      await withinLoopTime(
        LISTENING_SILENT_MS,
        registerFollower(subscription.db, this.#options.identity),
        () => void subscription?.close(),
      );
      // Everything, also after a short interruption: the database behind it may be another one.
      await this.#learnOver(subscription, true);
    } catch (error) {
      await subscription?.close();
      this.#lose(undefined, error);
      return;
    }
    this.#subscription = subscription;
    this.#reconnectMs = RECONNECT_FIRST_MS;
    this.#acknowledged = 0;
    void this.#acknowledge();
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
    this.#unexplained = false;
    try {
      const sentAt = this.#options.monotonic();
      await this.#learnOver(subscription);
      // While the loop is late its timers are as well; the next question goes out in the turn that reads this answer.
      if (this.#unexplained || this.#options.monotonic() - sentAt > ASK_EVERY_MS) {
        setImmediate(() => void this.#ask());
      }
    } catch (error) {
      await subscription.close();
      this.#lose(subscription, error);
    } finally {
      this.#asking = false;
    }
  }

  /** An answer that does not come means a connection that is gone, whatever the network says of it. */
  async #learnOver(subscription: Subscription, everything = false): Promise<void> {
    const learning = this.#learnFrom(subscription.db, everything);
    await withinLoopTime(LISTENING_SILENT_MS, learning, () => void subscription.close());
  }

  #hear(payload: string): void {
    if (!this.view.hear(payload)) {
      this.#unexplained = true;
      void this.#ask();
    }
    void this.#acknowledge();
  }

  /** Says what is obeyed, over the connection that is followed over: who cannot hear must not say that it has. */
  async #acknowledge(): Promise<void> {
    const subscription = this.#subscription;
    const { monotonic, identity } = this.#options;
    if (this.#applied.sequence !== this.view.applied) {
      this.#applied = { sequence: this.view.applied, at: monotonic() };
    }
    if (this.#acknowledging || subscription === undefined) {
      return;
    }
    this.#acknowledging = true;
    try {
      while (this.#acknowledged !== this.view.applied && this.#subscription === subscription) {
        await delay(ACKNOWLEDGE_AFTER_MS + (identity.lockKey % ACKNOWLEDGE_SPREAD_MS));
        const { sequence, at } = this.#applied;
        await acknowledge(subscription.db, identity.lockKey, { sequence, sinceMs: monotonic() - at });
        this.#acknowledged = sequence;
      }
    } catch (error) {
      this.#options.log.debug({ err: error }, "revocations were not acknowledged");
    } finally {
      this.#acknowledging = false;
    }
  }

  async #askUntilCurrent(): Promise<boolean> {
    const { monotonic } = this.#options;
    const giveUpAt = monotonic() + RENEWAL_MOST_MS;
    while (!this.view.current) {
      if (!(await this.#nextAnswer()) || monotonic() > giveUpAt) {
        return this.view.current;
      }
    }
    return true;
  }

  /** Resolves with true at the next answer, and with false when there is none within the time that the loop gives it. */
  async #nextAnswer(): Promise<boolean> {
    const over = new AbortController();
    const look = async (): Promise<void> => {
      while (!over.signal.aborted && !(await this.#look())) {
        await delay(LOOK_AGAIN_MS);
      }
    };
    let cancel: (() => void) | undefined;
    const answered = await new Promise<boolean>((resolve) => {
      this.#onAnswer = () => resolve(true);
      cancel = afterLoopTime(RENEWAL_SILENT_MS, () => resolve(false));
      void look();
    });
    over.abort();
    cancel?.();
    this.#onAnswer = () => undefined;
    return answered;
  }

  /** Asks over the other way, unless that is being done; resolves with whether there may be an answer. */
  async #look(): Promise<boolean> {
    if (this.#looking) {
      return false;
    }
    this.#looking = true;
    try {
      const client = await this.#options.other.connect();
      let broken = true;
      try {
        await withinLoopTime(OTHER_SILENT_MS, this.#learnFrom(client), () => void client.end());
        broken = false;
      } finally {
        client.release(broken);
      }
      return true;
    } catch (error) {
      this.#options.log.debug({ err: error }, "the look at the revocations failed");
      return false;
    } finally {
      this.#looking = false;
    }
  }

  async #learnFrom(db: Queryable, everything = false): Promise<void> {
    const question = this.view.ask(everything);
    const result = this.view.learn(question, await readRevocationNews(db, question.after));
    if (result === "standby") {
      throw new Error("the database is a standby: revocations are followed on the primary only");
    }
    if (result === "restored") {
      await this.#learnFrom(db, true);
      return;
    }
    if (result === "replaced") {
      this.#options.log.error(
        { sequence: question.known.sequence },
        "the database does not know revocations that are known here; they are kept, and it was read anew",
      );
    }
    this.#onAnswer();
    void this.#acknowledge();
  }
}
