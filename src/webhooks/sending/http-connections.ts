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

/** The pool. */
export interface Connections {
  /** Returns the most recently used idle connection to the origin, or a new one. */
  acquire(key: string, origin: Origin): Connection;
  /** Returns a new connection. */
  open(key: string, origin: Origin): Connection;
  /** Returns a connection to the pool. A connection that is not reusable is closed immediately. */
  release(connection: Connection, reusable: boolean): void;
  /** Closes half of the idle connections, the least recently used, because the process lacks descriptors or memory. */
  shed(): void;
  /** Closes the connections opened with this context: idle ones now, others when they are released. */
  forget(context: SecureContext): void;
  statistics(): ConnectionStatistics;
  /** Closes the idle connections now, and the others when they are released. */
  close(): void;
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

/** Creates an empty pool. */
export function createConnections(
  dependencies: ConnectServices,
  limits: ConnectionLimits,
  clock: Clock,
): Connections {
  const idle = new IdleSet<Pooled>(limits.maxIdle, limits.maxIdlePerOrigin);
  const inUse = new Set<Pooled>();
  const counts = { opened: 0, reused: 0 };
  const forgotten = new WeakSet<SecureContext>();
  let closed = false;

  function end(pooled: Pooled): void {
    idle.remove(pooled);
    inUse.delete(pooled);
    // Without a reason, Node would create an error with a stack trace for each connection.
    pooled.abort.abort("released");
    void pooled.client.destroy();
  }
  const events: Events = {
    onOpen(pooled) {
      pooled.responses = 0;
      counts.opened += 1;
    },
    onGone(pooled) {
      // Leave a connection in use alone: undici reconnects for a request that it has not begun to write.
      if (idle.has(pooled)) {
        end(pooled);
      }
    },
  };
  function open(key: string, origin: Origin): Pooled {
    const pooled = createPooled(key, origin, dependencies, events);
    inUse.add(pooled);
    return pooled;
  }

  return {
    open,
    acquire(key, origin) {
      const pooled = idle.take(key);
      if (pooled === undefined) {
        return open(key, origin);
      }
      inUse.add(pooled);
      const restedMs = Math.max(0, clock.now() - pooled.idleSince);
      pooled.restMs = pooled.responses > 1 ? 0 : Math.max(0, FIRST_REST_MS - restedMs);
      pooled.reused = true;
      counts.reused += 1;
      return pooled;
    },
    release(connection, reusable) {
      const pooled = connection as Pooled;
      pooled.idleSince = clock.now();
      pooled.responses += 1;
      const stays = reusable && !closed && (pooled.context === undefined || !forgotten.has(pooled.context));
      const evicted = inUse.delete(pooled) && stays ? idle.add(pooled) : pooled;
      if (evicted !== undefined) {
        end(evicted);
      }
    },
    shed: () => idle.olderHalf().forEach(end),
    forget(context) {
      forgotten.add(context);
      idle.filter((pooled) => pooled.context === context).forEach(end);
    },
    statistics: () => ({ ...counts, idle: idle.size, inUse: inUse.size, origins: idle.keys }),
    close() {
      closed = true;
      idle.clear().forEach(end);
    },
  };
}
