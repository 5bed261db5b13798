/**
 * Connections of the sender, one undici `Client` each. A delivery has to know whether its connection is reused. It
 * must be able to end it at the deadline, even while it opens. undici's pools hide both, and keep one pool per origin
 * forever.
 *
 * Idle connections are kept for reuse. Beyond a limit, the least recently used is closed. So thousands of endpoints
 * cost no more sockets or memory than the limit.
 */
import type { EventEmitter } from "node:events";
import type { SecureContext } from "node:tls";
import { Client } from "undici";
import type { Clock } from "#domain/clock.ts";
import type { ConnectServices } from "./http-connect.ts";
import { openConnection } from "./http-connect.ts";
import type { Keyed } from "./http-idle.ts";
import { IdleSet } from "./http-idle.ts";
import type { Origin } from "./http-tls.ts";

/** A connection to an origin, possibly not open yet. */
export interface Connection {
  readonly client: Client;
  /** Whether the connection has carried a request before. */
  readonly reused: boolean;
  /** Wait before the next request on this connection, in milliseconds. */
  readonly restMs: number;
}

/** Limits of kept connections. */
export interface ConnectionLimits {
  readonly maxIdle: number;
  readonly maxIdlePerOrigin: number;
}

/** Counters since the start, and current numbers. */
export interface ConnectionStatistics {
  readonly opened: number;
  readonly reused: number;
  readonly idle: number;
  readonly inUse: number;
  readonly origins: number;
}

interface Pooled extends Connection, Keyed {
  readonly context: SecureContext | undefined;
  readonly abort: AbortController;
  reused: boolean;
  restMs: number;
  /** Number of responses on the current socket; undici may have replaced the previous one. */
  responses: number;
  /** Start of the idle time, in Unix milliseconds. */
  idleSince: number;
}

/**
 * Some receivers close the connection after each response without announcing it. The close follows right after the
 * response. A request written in between would be lost unnoticed. So a connection rests after its first response, and
 * is trusted once it survives that.
 */
const FIRST_REST_MS = 10;

const CLIENT_OPTIONS: Omit<Client.Options, "connect"> = {
  pipelining: 1,
  allowH2: false,
  maxHeaderSize: 16_384,
  // The sender has its own deadlines for the headers and for the body.
  headersTimeout: 0,
  bodyTimeout: 0,
  keepAliveTimeout: 4_000,
  // A shorter `Keep-Alive: timeout` of the server counts, less a second so that we close first.
  keepAliveMaxTimeout: 30_000,
  keepAliveTimeoutThreshold: 1_000,
};

/** Events that a connection reports to its pool. */
interface Events {
  onOpen(pooled: Pooled): void;
  /** The connection was closed, or must be. */
  onGone(pooled: Pooled): void;
}

function createPooled(key: string, origin: Origin, dependencies: ConnectServices, events: Events): Pooled {
  const abort = new AbortController();
  const client = new Client(origin.url, {
    ...CLIENT_OPTIONS,
    connect: (_options, callback) => {
      events.onOpen(pooled);
      openConnection(origin, dependencies, abort.signal).then(
        (socket) => {
          callback(null, socket);
        },
        (error: Error) => {
          callback(error, null);
        },
      );
    },
  });
  const pooled: Pooled = {
    client,
    key,
    context: origin.secureContext,
    abort,
    reused: false,
    restMs: 0,
    responses: 0,
    idleSince: 0,
  };
  const emitter: EventEmitter = client;
  emitter.on("disconnect", () => {
    events.onGone(pooled);
  });
  // Only a defect in a handler gets here. Without a listener, it would end the process.
  emitter.on("error", () => {
    events.onGone(pooled);
  });
  return pooled;
}

/** The pool. */
export class Connections {
  readonly #services: ConnectServices;
  readonly #clock: Clock;
  readonly #idle: IdleSet<Pooled>;
  readonly #inUse = new Set<Pooled>();
  readonly #counts = { opened: 0, reused: 0 };
  readonly #forgotten = new WeakSet<SecureContext>();
  readonly #events: Events = {
    onOpen: (pooled) => {
      pooled.responses = 0;
      this.#counts.opened += 1;
    },
    onGone: (pooled) => {
      // Leave a connection in use alone: undici reconnects for a request that it has not begun to write.
      if (this.#idle.has(pooled)) {
        this.#end(pooled);
      }
    },
  };
  #closed = false;

  constructor(services: ConnectServices, limits: ConnectionLimits, clock: Clock) {
    this.#services = services;
    this.#clock = clock;
    this.#idle = new IdleSet(limits.maxIdle, limits.maxIdlePerOrigin);
  }

  /** Returns a new connection. */
  open(key: string, origin: Origin): Connection {
    const pooled = createPooled(key, origin, this.#services, this.#events);
    this.#inUse.add(pooled);
    return pooled;
  }

  /** Returns the most recently used idle connection to the origin, or a new one. */
  acquire(key: string, origin: Origin): Connection {
    const pooled = this.#idle.take(key);
    if (pooled === undefined) {
      return this.open(key, origin);
    }
    this.#inUse.add(pooled);
    const restedMs = Math.max(0, this.#clock.now() - pooled.idleSince);
    pooled.restMs = pooled.responses > 1 ? 0 : Math.max(0, FIRST_REST_MS - restedMs);
    pooled.reused = true;
    this.#counts.reused += 1;
    return pooled;
  }

  /** Returns a connection to the pool. A connection that is not reusable is closed immediately. */
  release(connection: Connection, reusable: boolean): void {
    const pooled = connection as Pooled;
    pooled.idleSince = this.#clock.now();
    pooled.responses += 1;
    const forgotten = pooled.context !== undefined && this.#forgotten.has(pooled.context);
    const stays = reusable && !this.#closed && !forgotten;
    const evicted = this.#inUse.delete(pooled) && stays ? this.#idle.add(pooled) : pooled;
    if (evicted !== undefined) {
      this.#end(evicted);
    }
  }

  /** Closes half of the idle connections, the least recently used, because the process lacks descriptors or memory. */
  shed(): void {
    this.#endAll(this.#idle.olderHalf());
  }

  /** Closes the connections opened with this context: idle ones now, others when they are released. */
  forget(context: SecureContext): void {
    this.#forgotten.add(context);
    this.#endAll(this.#idle.filter((pooled) => pooled.context === context));
  }

  statistics(): ConnectionStatistics {
    const { size: idle, keys: origins } = this.#idle;
    return { ...this.#counts, idle, inUse: this.#inUse.size, origins };
  }

  /** Closes the idle connections now, and the others when they are released. */
  close(): void {
    this.#closed = true;
    this.#endAll(this.#idle.clear());
  }

  #endAll(several: readonly Pooled[]): void {
    several.forEach((pooled) => this.#end(pooled));
  }

  #end(pooled: Pooled): void {
    this.#idle.remove(pooled);
    this.#inUse.delete(pooled);
    // Without a reason, Node would create an error with a stack trace for each connection.
    pooled.abort.abort("released");
    void pooled.client.destroy();
  }
}
