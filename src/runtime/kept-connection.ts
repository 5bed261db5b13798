/**
 * Keeps a connection over a network that may swallow everything. While there is none, or the one in use has gone silent,
 * attempts to open another begin one beside the other. The first that opens wins, and the others are ended.
 */
import type { Timers } from "#domain/clock.ts";
import { afterLoopTime } from "./loop-time.ts";

/** Shortest time after which an attempt counts as silent and is ended, in the loop's time. */
const PATIENCE_MS = 1_000;
/** Attempts under way. A server counts each, until it has opened, among those that it takes at once. */
const AT_ONCE = 2;
/** Pauses after attempts that failed at once, as when nothing listens. */
const PAUSE_FIRST_MS = 20;
const PAUSE_MAX_MS = 500;
/** Unanswered loop time after which the other side is asked for a sign, and attempts begin beside the connection. */
const PROBE_MS = 200;
const SILENT_MS = 500;
/** The same after which the connection is ended. */
const DEAD_MS = 2_000;
const SLOW = "the connection did not open in time";
const SILENCE = "the connection is silent";

/** What an attempt tells of its connection. */
export interface Attempted {
  /** Ends the attempt. `open` then rejects soon. */
  readonly signal: AbortSignal;
  /** Whether its connection is the one in use. */
  readonly isCurrent: () => boolean;
  /** Call it at the end of the connection. */
  readonly onLost: (error?: unknown) => void;
}

export interface KeptOptions<C> {
  readonly open: (attempted: Attempted) => Promise<C>;
  readonly close: (connection: C) => void;
  /** Asks the other side for a sign of life, after which {@link KeptConnection.heard} is called. */
  readonly probe?: (connection: C) => void;
  /** Called with each connection that is in use from then on. The one before is closed. */
  readonly onOpen: (connection: C) => void;
  /** Called when the connection in use is lost, and with failed attempts. */
  readonly onLost: (error: unknown) => void;
  readonly onFailed: (error: unknown) => void;
  readonly timers: Timers;
  /**
   * Time for an attempt until the first has opened, in milliseconds; 1,000 by default. Afterwards an attempt gets three
   * times as long as the fastest took, and not less than 1,000.
   */
  readonly patienceMs?: number;
}

interface Line<C> {
  connection: C | undefined;
  over: boolean;
}

/** A connection to one server. Attempts that are under way: two at most. */
export class KeptConnection<C> {
  readonly #options: KeptOptions<C>;
  #current: Line<C> | undefined;
  readonly #attempts = new Set<AbortController>();
  /** Cancels the next attempt. */
  #next: (() => void) | undefined;
  #pauseMs = PAUSE_FIRST_MS;
  #patienceMs: number;
  /** Cancels the watch for an answer. */
  #watch: (() => void) | undefined;
  /** Whether attempts are under way only because the connection in use is silent. */
  #isRescue = false;
  #stopped = false;

  constructor(options: KeptOptions<C>) {
    this.#options = options;
    this.#patienceMs = options.patienceMs ?? PATIENCE_MS;
  }

  /** The connection in use. */
  get connection(): C | undefined {
    return this.#current?.connection;
  }

  /** Begins. Resolves after the first attempt, even if it failed. */
  async start(): Promise<void> {
    await this.#attempt();
  }

  /** Call it when something was sent that is answered. If nothing is heard, another connection is opened. */
  expect(): void {
    if (this.#current === undefined || this.#watch !== undefined) {
      return;
    }
    this.#watch = afterLoopTime(this.#options.timers, PROBE_MS, () => {
      if (this.connection !== undefined) {
        this.#options.probe?.(this.connection);
      }
      this.#watch = afterLoopTime(this.#options.timers, SILENT_MS - PROBE_MS, () => {
        this.#isRescue = !this.#isOpening;
        this.replace();
        this.#watch = afterLoopTime(this.#options.timers, DEAD_MS - SILENT_MS, () =>
          this.leave(new Error(SILENCE)),
        );
      });
    });
  }

  /** Call it with every sign of life. */
  heard(): void {
    this.#watch?.();
    this.#watch = undefined;
    if (this.#isRescue) {
      this.#endAttempts();
    }
  }

  /** Call it when the connection has done what it is for. Otherwise the pauses between attempts grow. */
  proved(): void {
    this.#pauseMs = PAUSE_FIRST_MS;
  }

  /** Opens another connection, and uses this one until then. */
  replace(): void {
    if (!this.#isOpening && !this.#stopped) {
      void this.#attempt();
    }
  }

  /** Ends the connection in use, and opens another one. */
  leave(error: unknown): void {
    const connection = this.connection;
    if (connection !== undefined) {
      this.#drop(error);
      this.#options.close(connection);
    }
  }

  /** Ends everything. */
  stop(): void {
    this.#stopped = true;
    this.#endAttempts();
    this.#watch?.();
    const connection = this.connection;
    this.#current = undefined;
    if (connection !== undefined) {
      this.#options.close(connection);
    }
  }

  get #isOpening(): boolean {
    return this.#attempts.size > 0 || this.#next !== undefined;
  }

  #endAttempts(): void {
    this.#isRescue = false;
    this.#next?.();
    this.#next = undefined;
    for (const attempt of this.#attempts) {
      attempt.abort(new Error("another connection is in use"));
    }
    this.#attempts.clear();
  }

  #plan(ms: number): void {
    this.#next?.();
    this.#next = afterLoopTime(this.#options.timers, ms, () => {
      this.#next = undefined;
      void this.#attempt();
    });
  }

  async #attempt(): Promise<void> {
    const { open, close, timers } = this.#options;
    const ending = new AbortController();
    const line: Line<C> = { connection: undefined, over: false };
    const [oldest] = this.#attempts;
    if (this.#attempts.size === AT_ONCE) {
      oldest?.abort(new Error(SLOW));
    }
    this.#attempts.add(ending);
    // The next one begins in the middle of this one.
    this.#plan(this.#patienceMs / 2);
    const beganAt = timers.monotonic();
    const cancel = afterLoopTime(timers, this.#patienceMs, () => ending.abort(new Error(SLOW)));
    try {
      line.connection = await open({
        signal: ending.signal,
        isCurrent: () => this.#current === line,
        onLost: (error) => this.#end(line, error),
      });
      ending.signal.throwIfAborted();
      if (line.over) {
        throw new Error("the connection ended at its beginning");
      }
    } catch (error) {
      if (line.connection !== undefined) {
        close(line.connection);
      }
      this.#fail(ending, error);
      return;
    } finally {
      cancel();
    }
    this.#patienceMs = Math.min(this.#patienceMs, Math.max(3 * (timers.monotonic() - beganAt), PATIENCE_MS));
    this.#attempts.delete(ending);
    this.#use(line, line.connection);
  }

  #use(line: Line<C>, connection: C): void {
    const before = this.connection;
    this.#endAttempts();
    this.#watch?.();
    this.#watch = undefined;
    this.#current = line;
    if (before !== undefined) {
      this.#options.close(before);
    }
    this.#options.onOpen(connection);
  }

  /** Takes note of a failed attempt, unless others have made it needless. */
  #fail(ending: AbortController, error: unknown): void {
    if (!this.#attempts.delete(ending)) {
      return;
    }
    this.#options.onFailed(ending.signal.aborted ? ending.signal.reason : error);
    if (this.#attempts.size === 0) {
      this.#planPause();
    }
  }

  #planPause(): void {
    this.#plan(this.#pauseMs);
    this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MAX_MS);
  }

  #end(line: Line<C>, error: unknown): void {
    line.over = true;
    if (this.#current === line) {
      this.#drop(error);
    }
  }

  #drop(error: unknown): void {
    this.#current = undefined;
    this.#isRescue = false;
    this.#watch?.();
    this.#watch = undefined;
    if (this.#stopped) {
      return;
    }
    this.#options.onLost(error);
    if (!this.#isOpening) {
      this.#planPause();
    }
  }
}
