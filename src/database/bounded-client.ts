/**
 * A PostgreSQL connection that limits the server's silence. After a fail-over behind a virtual address, or behind a
 * forgetful NAT, a connection carries nothing and reports nothing: TCP retries for a quarter of an hour. `pg`'s own
 * `query_timeout` rejects the query but keeps the socket, so the next query waits as long again.
 */
import { Client, type ClientConfig } from "pg";
import { currentUrl, UrlFileError } from "#config/url-file.ts";

/** The server cancels a statement after this time, in milliseconds. Nothing here should run longer than two seconds. */
export const STATEMENT_TIMEOUT_MS = 8_000;
/** The same for reading the compliance log and its tree, whose time depends on their size. */
export const LONG_STATEMENT_TIMEOUT_MS = 15_000;
/** Extra time for an answer beyond the server's own limit. After it, the connection counts as dead. */
export const ANSWER_MARGIN_MS = 2_000;
/** Timeout for opening a connection, in milliseconds. */
export const CONNECT_TIMEOUT_MS = 5_000;
/** Time for closing a connection gracefully, in milliseconds. */
const CLOSE_MS = 1_000;
/**
 * Silence before the kernel's first probe. It then probes each second up to ten times: a dead host is noticed in 15 s.
 */
const KEEP_ALIVE_AFTER_MS = 5_000;
const TICK_MS = 250;
/** Ticks within which a live connection must answer, once a new connection has had its first answer. */
const PROOF_TICKS = 2;

export interface BoundedClientConfig extends ClientConfig {
  /** Timeout for the answer to one statement, in milliseconds; 10,000 by default. Infinity: no limit, for migrations. */
  readonly answerMs?: number;
}

const KEEP_ALIVE = { keepAlive: true, keepAliveInitialDelayMillis: KEEP_ALIVE_AFTER_MS } as const;

/** The connection was closed because of its silence; `code` is that of a socket's own timeout. */
class SilentConnectionError extends Error {
  override readonly name = "SilentConnectionError";
  readonly code = "ETIMEDOUT";
}

/** Open connections of this process, checked at every tick. */
const open = new Set<BoundedClient>();
/** By server: the tick since which a closed connection had been silent. */
const suspected = new Map<string, number>();
/** By server: at tick `at`, all connections that have been silent since `since` are closed. */
const proven = new Map<string, { readonly at: number; readonly since: number }>();
let ticks = 0;
let clock: NodeJS.Timeout | undefined;

function tick(): void {
  ticks += 1;
  // Answers that have arrived are read before immediates run, so a late timer closes no connection that has answered.
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

/** Reads the login from its file, if the URL names one. */
function openUrl(config: BoundedClientConfig): {
  readonly config: BoundedClientConfig;
  readonly refusal?: UrlFileError;
} {
  try {
    const { connectionString } = config;
    return {
      config:
        connectionString === undefined
          ? config
          : { ...config, connectionString: currentUrl(connectionString) },
    };
  } catch (error) {
    if (error instanceof UrlFileError) {
      return { config, refusal: error };
    }
    throw error;
  }
}

/** A client that counts time in ticks of the event loop. A long stall of ours counts as one tick and closes nothing. */
export class BoundedClient extends Client {
  readonly #answerMs: number;
  /** Why it cannot connect. The pool expects constructors that do not throw. */
  readonly #refusal: UrlFileError | undefined;
  /** The tick in which the pending statement was sent. */
  #askedAt: number | undefined;
  /** The tick of the server's last answer. */
  #heardAt = ticks;
  /**
   * Called with the backend's process id if this side gives up waiting for the answer to a statement. Not at an end after
   * an error: that is an answer.
   */
  onAbandoned: ((pid: number) => void) | undefined;

  constructor(config: BoundedClientConfig) {
    const opened = openUrl(config);
    super({ connectionTimeoutMillis: CONNECT_TIMEOUT_MS, ...KEEP_ALIVE, ...opened.config });
    this.#refusal = opened.refusal;
    this.#answerMs = config.answerMs ?? STATEMENT_TIMEOUT_MS + ANSWER_MARGIN_MS;
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

  override connect(): Promise<this>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<this> | void {
    const refusal = this.#refusal;
    if (refusal === undefined) {
      return callback === undefined ? (super.connect() as unknown as Promise<this>) : super.connect(callback);
    }
    return callback === undefined ? Promise.reject(refusal) : process.nextTick(callback, refusal);
  }

  // Overrides all of the driver's overloads: forwards the arguments and notes the tick.
  override query(...statement: readonly unknown[]): never {
    const sent = (super.query.bind(this) as (...args: readonly unknown[]) => never)(...statement);
    this.#askedAt ??= ticks;
    return sent;
  }

  /** Closes within a second, even if the peer is gone. */
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
   * Closes a connection that missed its deadline, and others to the same server that have been silent for as long. The
   * cause is probably the same. A pending statement with a longer limit keeps it, until a new connection proves that
   * the server answers. Then the old connections themselves are dead.
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

  /** Closes the connection if it leads to that server and has not answered since that tick. */
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

  #noteAbandoned(): void {
    const { processID: pid } = this as unknown as { readonly processID: number | null };
    if (this.#askedAt !== undefined && pid !== null && !this.connection.stream.destroyed) {
      this.onAbandoned?.(pid);
      this.onAbandoned = undefined;
    }
  }

  #close(): void {
    forget(this);
    this.#noteAbandoned();
    this.connection.stream.destroy(
      new SilentConnectionError("PostgreSQL does not answer over this connection"),
    );
  }
}
