/** The processes behind a hub, and its reports of them. A report that fails is repeated, so that receipts miss nobody. */
import type { FollowerRow } from "#database/repositories/tokens/revocations.ts";
import type { Logger } from "#observability/logger.ts";
import type { Request } from "./hub-messages.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** Pause before followers are reported, so that many are reported together. */
const REPORT_AFTER_MS = 10;
/** The same after a failure. */
const REPORT_AGAIN_MS = 500;
/** Pause between two reports of all followers, which take over those of a hub that is gone. */
const REPORT_ALL_MS = 30_000;
/** Followers behind one connection, if it is of another hub. */
const FOLLOWERS_OF_ONE_MAX = 2_000;

/** A process that follows through this hub, as of its last word. */
export interface FollowerNews extends FollowerRow {
  readonly sequence: number;
  /** When it said so, by this machine's monotonic clock. */
  readonly at: number;
}

/** What followers are reported to: the primary, or another hub. */
export interface FollowerRegister {
  /** Reports followers of this hub: new ones, or what they apply. */
  report(followers: readonly FollowerNews[]): Promise<void>;
  /** Reports followers that no longer follow over this hub, `stopped` if they admit no more tokens. */
  reportLost(lockKeys: readonly number[], stopped: boolean): Promise<void>;
}

interface ReportOptions {
  readonly upstream: FollowerRegister;
  readonly timers: Timers;
  readonly log: Logger;
}

/** A connection over which processes follow. */
export interface Reporting {
  readonly followers: Set<number>;
}

export class FollowerReports {
  readonly #options: ReportOptions;
  readonly #followers = new Map<number, FollowerNews>();
  /** The latest connection over which each follower follows. An earlier one may end later. */
  readonly #over = new Map<number, Reporting>();
  readonly #unreported = new Set<number>();
  #all: Timer | undefined;
  #reporting: Timer | undefined;
  #stopped = false;

  constructor(options: ReportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#all = this.#options.timers.every(REPORT_ALL_MS, () => this.#reportLater(this.#followers.keys()));
  }

  stop(): void {
    this.#stopped = true;
    this.#options.timers.cancel(this.#all);
    this.#options.timers.cancel(this.#reporting);
  }

  /** Adds a follower. @returns false if the connection has too many */
  follow(connection: Reporting, follower: FollowerRow): boolean {
    if (connection.followers.size >= FOLLOWERS_OF_ONE_MAX) {
      return false;
    }
    connection.followers.add(follower.lockKey);
    this.#over.set(follower.lockKey, connection);
    const sequence = this.#followers.get(follower.lockKey)?.sequence ?? 0;
    this.#followers.set(follower.lockKey, { ...follower, sequence, at: this.#options.timers.monotonic() });
    this.#reportLater([follower.lockKey]);
    return true;
  }

  /** Notes what a follower of this connection applies. */
  apply(connection: Reporting, { lockKey, sequence, sinceMs }: Extract<Request, { type: "applied" }>): void {
    const known = this.#followers.get(lockKey);
    if (known !== undefined && this.#over.get(lockKey) === connection) {
      const at = this.#options.timers.monotonic() - Math.max(0, sinceMs);
      this.#followers.set(lockKey, { ...known, sequence, at });
      this.#reportLater([lockKey]);
    }
  }

  /** Forgets those followers that follow over this connection, `stopped` if they admit no more tokens. */
  forget(connection: Reporting, lockKeys: readonly number[], stopped: boolean): void {
    const lost = lockKeys.filter((key) => this.#over.get(key) === connection);
    for (const lockKey of lost) {
      connection.followers.delete(lockKey);
      this.#over.delete(lockKey);
      this.#followers.delete(lockKey);
      this.#unreported.delete(lockKey);
    }
    this.#lose(lost, stopped);
  }

  #reportLater(lockKeys: Iterable<number>, pauseMs = REPORT_AFTER_MS): void {
    for (const lockKey of lockKeys) {
      this.#unreported.add(lockKey);
    }
    if (this.#stopped) {
      return;
    }
    this.#reporting ??= this.#options.timers.after(pauseMs, () => {
      this.#reporting = undefined;
      const keys = [...this.#unreported];
      this.#unreported.clear();
      this.#options.upstream
        .report(keys.flatMap((key) => this.#followers.get(key) ?? []))
        .catch((error: unknown) => {
          this.#options.log.debug({ err: error }, "followers were not reported");
          this.#reportLater(keys, REPORT_AGAIN_MS);
        });
    });
  }

  #lose(lost: readonly number[], stopped: boolean): void {
    // One that is reported again may have come back.
    const lockKeys = lost.filter((key) => !this.#followers.has(key));
    if (lockKeys.length === 0 || this.#stopped) {
      return;
    }
    this.#options.upstream.reportLost(lockKeys, stopped).catch((error: unknown) => {
      this.#options.log.debug({ err: error }, "lost followers were not reported");
      this.#options.timers.after(REPORT_AGAIN_MS, () => this.#lose(lockKeys, stopped)).unref();
    });
  }
}
