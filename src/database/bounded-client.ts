/**
 * A PostgreSQL connection whose silence has an end. A fail-over behind a virtual address, or a NAT that forgets, leaves
 * connections that carry nothing and report nothing: TCP keeps retrying for a quarter of an hour. `pg`'s own
 * `query_timeout` rejects the query and keeps the socket, so the next query waits as long again.
 */
import { Client, type ClientConfig } from "pg";

/** The server cancels a statement after this time, milliseconds. Nothing here should run for more than a second or two. */
export const STATEMENT_TIMEOUT_MS = 8_000;
/** The same for reading the compliance log and its tree, which take the time of their size. */
export const LONG_STATEMENT_TIMEOUT_MS = 15_000;
/** An answer may take so much longer than the server's own limit; then the connection is dead. */
const ANSWER_MARGIN_MS = 2_000;
/** A connection that is not open after this time is given up, milliseconds. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** Time for a polite goodbye. */
const CLOSE_MS = 1_000;
/** The kernel asks a silent peer after this time, then each second up to ten times: it notices a dead host in 15 s. */
const KEEP_ALIVE_AFTER_MS = 5_000;
const TICK_MS = 250;
/** Turns that connections which still live have for an answer once a fresh one has had its first. */
const PROOF_TICKS = 2;

export interface BoundedClientConfig extends ClientConfig {
  /** The server's `statement_timeout` unless `answerMs` says otherwise. */
  readonly statement_timeout?: number;
  /** Most time for the answer to one statement, milliseconds. Infinity: no limit, for migrations. */
  readonly answerMs?: number;
}

const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS } as const;

/** Closed because of its silence; `code` as a socket's own error has it. */
class SilentConnectionError extends Error {
  override readonly name = "SilentConnectionError";
  readonly code = "ETIMEDOUT";
}

/** Open connections of this process, and the turns of its clock. */
const open = new Set<BoundedClient>();
/** By server: the turn since which a connection that was given up had been silent. */
const suspected = new Map<string, number>();
/** By server: the turn in which all that have been silent since `since` are closed. */
const proven = new Map<string, { readonly at: number; readonly since: number }>();
let ticks = 0;
let clock: NodeJS.Timeout | undefined;

function tick(): void {
  ticks += 1;
  // An answer that has arrived is read before immediates run: a late timer closes nothing that has answered.
  setImmediate(() => {
    for (const client of open) {
      if (client.isOverdue(ticks)) {
        client.giveUp();
      }
    }
    for (const [server, { at, since }] of proven) {
      if (ticks >= at) {
        proven.delete(server);
        open.forEach((client) => client.closeIfSilent(server, since));
      }
    }
  });
}

function watch(client: BoundedClient): void {
  open.add(client);
  clock ??= setInterval(tick, TICK_MS).unref();
}

function forget(client: BoundedClient): void {
  open.delete(client);
  if (open.size === 0) {
    clearInterval(clock);
    clock = undefined;
  }
}

/** Time is counted in turns of the event loop: a turn that took long counts once, so a stall of ours closes nothing. */
export class BoundedClient extends Client {
  readonly #answerMs: number;
  /** The turn in which the statement that waits for its answer was sent. */
  #askedAt: number | undefined;
  /** The turn in which the server last answered. */
  #heardAt = ticks;

  constructor(config: BoundedClientConfig) {
    super({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...KEEP_ALIVE, ...config });
    const { statement_timeout: statementMs = STATEMENT_TIMEOUT_MS } = config;
    this.#answerMs = config.answerMs ?? statementMs + ANSWER_MARGIN_MS;
    this.connection.once("readyForQuery", () => this.#prove());
    this.connection.on("readyForQuery", () => {
      this.#heardAt = ticks;
      if (this.#askedAt !== undefined) {
        this.#askedAt = ticks;
      }
    });
    this.on("drain", () => {
      this.#askedAt = undefined;
    });
    this.connection.once("connect", () => {
      this.#heardAt = ticks;
      watch(this);
    });
    this.connection.once("end", () => forget(this));
  }

  // The overloads are the driver's: what is sent is passed on and noted.
  override query(...statement: readonly unknown[]): never {
    const sent = (super.query.bind(this) as (...args: readonly unknown[]) => never)(...statement);
    this.#askedAt ??= ticks;
    return sent;
  }

  /** Closes in a second at most, also a connection whose peer is gone. */
  override end(): Promise<void>;
  override end(callback: (error: Error) => void): void;
  override end(callback?: (error: Error) => void): Promise<void> | void {
    const { stream } = this.connection;
    const timer = setTimeout(() => stream.destroy(), CLOSE_MS).unref();
    stream.once("close", () => clearTimeout(timer));
    return callback === undefined ? super.end() : super.end(callback);
  }

  isOverdue(now: number): boolean {
    return this.#askedAt !== undefined && (now - this.#askedAt) * TICK_MS >= this.#answerMs;
  }

  /**
   * Closes a connection that missed its deadline, and those to the same server that have been silent for as long: what
   * took one took the others. A statement under way with more time than this one had keeps its time, until a fresh
   * connection proves that the server answers: then the silence was that of the connection.
   */
  giveUp(): void {
    const since = this.#askedAt ?? ticks;
    this.#close();
    suspected.set(this.#server, since);
    for (const other of open) {
      if (other.#askedAt === undefined || other.#answerMs <= this.#answerMs) {
        other.closeIfSilent(this.#server, since);
      }
    }
  }

  /** Closes a connection to that server that has not answered since that turn. */
  closeIfSilent(server: string, since: number): void {
    if (this.#server === server && this.#heardAt <= since) {
      this.#close();
    }
  }

  get #server(): string {
    return `${this.host}:${this.port}`;
  }

  #prove(): void {
    const since = suspected.get(this.#server);
    if (since !== undefined) {
      suspected.delete(this.#server);
      proven.set(this.#server, { at: ticks + PROOF_TICKS, since });
    }
  }

  #close(): void {
    forget(this);
    this.connection.stream.destroy(
      new SilentConnectionError("PostgreSQL does not answer over this connection"),
    );
  }
}
