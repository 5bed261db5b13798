/**
 * What the connections with one certificate take of a hub together: time, memory and names in receipts. An edge that was
 * taken over has the certificate of some edges. It must harm no others.
 */
import { putBounded } from "#domain/bounded-map.ts";
import { TokenBucket } from "#domain/token-buckets.ts";
import type { HubConnection } from "./hub-messages.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** Bytes that may wait for them. An honest process has none waiting for longer than a moment. */
const BACKLOG_MAX = 4_194_304;
/** Bytes that may wait for one connection in any case. */
const BACKLOG_OF_ONE_MAX = 16_384;
/** The hub's time for their messages, in microseconds per second and at once. 100 edges need a third of it. */
const BUSY_PER_SECOND = 300_000;
const BUSY_BURST = 20_000;
/** What a message to or from them takes of it, and each of its characters. Estimated, so that a slow machine limits nobody. */
const MESSAGE_US = 10;
const CHARACTER_US = 0.004;
/** Processes that they may introduce in two minutes, for which a receipt names a process after it is gone. */
const INTRODUCED_MAX = 200;
const INTRODUCED_MS = 120_000;

export class HubPeer {
  readonly connections = new Set<HubConnection>();
  readonly #timers: Timers;
  readonly #busy: TokenBucket;
  /** When each process was introduced, the earliest first. */
  readonly #introduced = new Map<number, number>();
  #resume: Timer | undefined;

  constructor(timers: Timers) {
    this.#timers = timers;
    this.#busy = new TokenBucket(BUSY_BURST, timers.monotonic());
  }

  /** Whether a connection may get a text, as far as what waits already is concerned. */
  hasRoom({ backlog }: HubConnection): boolean {
    if (backlog <= BACKLOG_OF_ONE_MAX) {
      return true;
    }
    let waiting = 0;
    for (const connection of this.connections) {
      waiting += connection.backlog;
    }
    return waiting <= BACKLOG_MAX;
  }

  /** Notes a message to or from one of them. Reads none for a while if they take more than their share. */
  spend(characters: number): void {
    this.#busy.charge(MESSAGE_US + CHARACTER_US * characters);
    const waitMs = this.#busy.waitMs(BUSY_PER_SECOND, BUSY_BURST, this.#timers.monotonic());
    if (waitMs > 0 && this.#resume === undefined) {
      this.connections.forEach((connection) => connection.pause?.(true));
      this.#resume = this.#timers.after(waitMs, () => {
        this.#resume = undefined;
        this.connections.forEach((connection) => connection.pause?.(false));
      });
    }
  }

  /** Notes that a process is introduced. @returns false if they have introduced too many */
  introduce(lockKey: number): boolean {
    const nowMs = this.#timers.monotonic();
    this.#forget(nowMs);
    if (!this.#introduced.has(lockKey) && this.#introduced.size >= INTRODUCED_MAX) {
      return false;
    }
    putBounded(this.#introduced, lockKey, nowMs, INTRODUCED_MAX);
    return true;
  }

  /** Whether nothing is left to remember. */
  isGone(): boolean {
    this.#forget(this.#timers.monotonic());
    return this.connections.size === 0 && this.#introduced.size === 0;
  }

  close(): void {
    this.#timers.cancel(this.#resume);
  }

  #forget(nowMs: number): void {
    for (const [lockKey, at] of this.#introduced) {
      if (nowMs - at < INTRODUCED_MS) {
        break;
      }
      this.#introduced.delete(lockKey);
    }
  }
}
