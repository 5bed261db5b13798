/**
 * The primary as a hub asks it: several connections, each of which carries questions one after the other without waiting
 * for answers. A lost packet delays the questions of one connection only. Each connection also listens.
 */
import { readRevocationSnapshot, type Within } from "../database/repositories/tokens/followed-revocations.ts";
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
} from "../database/repositories/tokens/revocations.ts";
import type { Queryable } from "../database/pool.ts";
import type { Subscription, SubscriptionOptions } from "../database/subscription.ts";
import type { Logger } from "../observability/logger.ts";
import { withinLoopTime } from "../runtime/loop-time.ts";
import type { FollowerNews } from "./follower-reports.ts";
import type { HubAnswer, Upstream } from "./hub-questions.ts";
import type { Monotonic } from "./lease.ts";
import { type Attestation, NONCE_BYTES, type Snapshot } from "./proof.ts";

const CONNECTIONS = 3;
const RECONNECT_FIRST_MS = 50;
const RECONNECT_MAX_MS = 1_000;
/** Silence, in the loop's time, after which a connection counts as broken. */
const SILENT_MS = 2_000;
/** The same before each part of a snapshot. Making one of a million revocations takes 4 s. */
const SNAPSHOT_SILENT_MS = 9_000;
const SEEN_EVERY_MS = 60_000;
const NOTICE = /^(\S{1,300}) (\S{36}) ([0-9a-f]{64}) ?(\S*)$/;

export interface PrimaryOptions {
  /** Opens a connection that pipelines queries and hears of new lines. */
  readonly subscribe: (
    handlers: Pick<SubscriptionOptions, "onNotification" | "onLost">,
  ) => Promise<Subscription>;
  readonly identity: FollowerRow;
  /** Called with each revocation that the primary announces, from each connection. */
  readonly onLine: (line: string, state: Attestation) => void;
  readonly monotonic: Monotonic;
  readonly log: Logger;
}

/** Pause before this hub registers again: the server may still hold a connection that was lost in silence. */
const REGISTER_AGAIN_MS = 500;

interface Slot {
  subscription: Subscription | undefined;
  underWay: number;
  /** Whether a snapshot is being read, behind which other answers wait. */
  isReading: boolean;
  reconnectMs: number;
  timer: NodeJS.Timeout | undefined;
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
  readonly #slots: Slot[] = Array.from({ length: CONNECTIONS }, () => ({
    subscription: undefined,
    underWay: 0,
    isReading: false,
    reconnectMs: RECONNECT_FIRST_MS,
    timer: undefined,
  }));
  #heard = 0;
  #relayed = 0;
  #seen: NodeJS.Timeout | undefined;
  /** The connection that holds this hub's own registration. */
  #registered: Subscription | undefined;
  #registering: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(options: PrimaryOptions) {
    this.#options = options;
  }

  /** Resolves after the first attempt to connect, even if it failed. */
  async start(): Promise<void> {
    this.#seen = setInterval(() => {
      this.#over(async (db) => await markFollowerSeen(db, this.#options.identity.lockKey)).catch(
        () => undefined,
      );
    }, SEEN_EVERY_MS).unref();
    await Promise.all(this.#slots.map(async (slot) => await this.#connect(slot)));
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    clearInterval(this.#seen);
    clearTimeout(this.#registering);
    const { lockKey } = this.#options.identity;
    await this.#over(async (db) => await removeFollower(db, lockKey)).catch(() => undefined);
    for (const slot of this.#slots) {
      clearTimeout(slot.timer);
      await slot.subscription?.close();
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
    const { identity, monotonic } = this.#options;
    const now = monotonic();
    const rows = followers.map(({ at, ...follower }) => ({ ...follower, sinceMs: now - at }));
    await this.#over(async (db) => await reportFollowers(db, identity.lockKey, rows));
  }

  async lose(lockKeys: readonly number[], stopped: boolean): Promise<void> {
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
    const subscription = slot?.subscription;
    if (slot === undefined || subscription === undefined) {
      throw new Error("there is no connection to the database");
    }
    slot.underWay += 1;
    slot.isReading = reads;
    // The other connections get the next ones.
    this.#slots.push(...this.#slots.splice(this.#slots.indexOf(slot), 1));
    const leave = (error: Error): void => {
      this.#lose(slot, subscription, error);
      void subscription.close();
    };
    const silence = new Error("the primary does not answer");
    const within: Within = async (answer) =>
      await withinLoopTime(reads ? SNAPSHOT_SILENT_MS : SILENT_MS, answer, () => leave(silence));
    try {
      const answer = query(subscription.db, within);
      return await (reads ? answer : within(answer));
    } catch (error) {
      if (reads) {
        // A transaction may be open.
        leave(error as Error);
      }
      throw error;
    } finally {
      if (slot.subscription === subscription) {
        slot.underWay -= 1;
        slot.isReading &&= !reads;
      }
    }
  }

  #freest(): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#slots) {
      const isFree = slot.subscription !== undefined && !slot.isReading;
      if (isFree && (best === undefined || slot.underWay < best.underWay)) {
        best = slot;
      }
    }
    return best;
  }

  async #connect(slot: Slot): Promise<void> {
    const { subscribe, log } = this.#options;
    let subscription: Subscription | undefined;
    try {
      subscription = await subscribe({
        onNotification: (payload) => this.#hear(payload),
        onLost: (error) => this.#lose(slot, subscription, error),
      });
      const opened = subscription;
      // Prepares the statement before several are sent at once.
      const known = { keysDigest: undefined, after: this.#heard };
      const proving = proveRevocations(opened.db, Buffer.alloc(NONCE_BYTES), known);
      answerOf(await withinLoopTime(SILENT_MS, proving, () => void opened.close()));
    } catch (error) {
      await subscription?.close();
      this.#lose(slot, undefined, error);
      return;
    }
    if (this.#stopped) {
      await subscription.close();
      return;
    }
    slot.underWay = 0;
    slot.isReading = false;
    slot.reconnectMs = RECONNECT_FIRST_MS;
    slot.subscription = subscription;
    log.debug({}, "a connection to the primary is open");
    await this.#register();
  }

  /** Registers this hub over an open connection, if it is not registered. Proofs do not wait for that. */
  async #register(): Promise<void> {
    const { identity, log } = this.#options;
    const slot = this.#slots.find(({ subscription }) => subscription !== undefined);
    if (slot?.subscription === undefined || this.#registered !== undefined || this.#stopped) {
      return;
    }
    const { db } = slot.subscription;
    this.#registered = slot.subscription;
    try {
      await registerFollower(db, identity);
      await acknowledge(db, identity.lockKey, { sequence: this.#relayed, sinceMs: 0 });
    } catch (error) {
      log.debug({ err: error }, "this hub is not registered");
      this.#registered = undefined;
      clearTimeout(this.#registering);
      this.#registering = setTimeout(() => void this.#register(), REGISTER_AGAIN_MS);
    }
  }

  #lose(slot: Slot, lost: Subscription | undefined, error: unknown): void {
    if (this.#stopped || slot.subscription !== lost) {
      return;
    }
    this.#options.log.warn({ err: error }, "a connection to the primary is lost");
    slot.subscription = undefined;
    if (lost !== undefined && this.#registered === lost) {
      this.#registered = undefined;
      void this.#register();
    }
    slot.timer = setTimeout(() => void this.#connect(slot), slot.reconnectMs);
    slot.reconnectMs = Math.min(2 * slot.reconnectMs, RECONNECT_MAX_MS);
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
