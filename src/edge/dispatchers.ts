/** Connections to upstreams, shared by successive route tables and closed when no table uses them. */
import type { PeerCertificate } from "node:tls";
import { Agent, type Dispatcher } from "undici";
import { checkServerIdentity } from "#lib/server-identity.ts";
import { acceptInterimResponses } from "#runtime/interim-responses.ts";
import type { HeadCallback, Passage } from "./passage.ts";
import type { Timer, Timers } from "#domain/clock.ts";

/** Time for requests of an earlier table to end, in milliseconds. */
const RETIRE_AFTER_MS = 60_000;
/** Maximum concurrent requests per upstream; further ones wait. */
const CONNECTIONS_MAX = 512;
/** Keep-alive timeout, in milliseconds. Upstreams close idle connections, and a request on a closing one would fail. */
const KEEP_ALIVE_MS = 4_000;

/** Key under which a request's headers carry its passage, since the proxy's options have no place for it. */
export const PASSAGE = Symbol("passage");

/** Where and how to connect. Equal targets share connections. */
export interface Target {
  readonly origin: string;
  readonly connectTimeoutMs: number;
  /** Timeout from the last byte of the request to the end of the response headers. */
  readonly headersTimeoutMs: number;
  /** Timeout between two chunks of the response body. */
  readonly idleTimeoutMs: number;
  /** Maximum concurrent requests; 512 by default. */
  readonly connections?: number;
  readonly tls?: TargetTls;
}

/** TLS options; by default those of ordinary https. */
export interface TargetTls {
  /** Authorities, PEM. */
  readonly ca: string;
  readonly key?: string;
  readonly cert?: string;
  /** Replaces the default check of names; returns an error or undefined. */
  readonly checkServerIdentity?: (hostname: string, certificate: PeerCertificate) => Error | undefined;
}

/** The connection interface that @fastify/http-proxy uses. */
export interface UpstreamConnections {
  readonly request: Dispatcher["request"];
}

interface Held {
  readonly agent: Agent;
  readonly connections: UpstreamConnections;
}

/** Adapts an agent for the proxy library. Its requests carry a {@link PASSAGE}. */
export function connectionsOf(agent: () => Agent): UpstreamConnections {
  const request = (options: Dispatcher.RequestOptions, callback: HeadCallback): void => {
    const { [PASSAGE]: passage } = options.headers as unknown as { readonly [PASSAGE]: Passage };
    try {
      agent().dispatch(options, passage.awaitHead(callback));
    } catch (error) {
      callback(error as Error);
    }
  };
  return { request: request as unknown as Dispatcher["request"] };
}

/** Creates an agent for HTTP/1.1 only, with one request at a time per connection. */
export function createAgent(target: Omit<Target, "origin">): Agent {
  acceptInterimResponses();
  const { connectTimeoutMs, headersTimeoutMs, idleTimeoutMs, connections = CONNECTIONS_MAX, tls } = target;
  return new Agent({
    connections,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: headersTimeoutMs,
    bodyTimeout: idleTimeoutMs,
    connect: { timeout: connectTimeoutMs, checkServerIdentity, ...tls },
  });
}

export class Dispatchers {
  readonly #held = new Map<string, Held>();
  readonly #retiring = new Set<Timer>();
  readonly #timers: Timers;

  constructor(timers: Timers) {
    this.#timers = timers;
  }

  /** Returns the connections to a target. */
  to(target: Target): UpstreamConnections {
    const key = JSON.stringify(target);
    let held = this.#held.get(key);
    if (held === undefined) {
      const agent = createAgent(target);
      held = { agent, connections: connectionsOf(() => agent) };
      this.#held.set(key, held);
    }
    return held.connections;
  }

  /** Closes the connections to all other targets, after a delay. */
  retain(targets: readonly Target[]): void {
    const wanted = new Set(targets.map((target) => JSON.stringify(target)));
    for (const [key, { agent }] of this.#held) {
      if (!wanted.has(key)) {
        this.#held.delete(key);
        const timer = this.#timers.after(RETIRE_AFTER_MS, () => {
          this.#retiring.delete(timer);
          void agent.close();
        });
        this.#retiring.add(timer.unref());
      }
    }
  }

  /** Closes every connection; running requests fail. */
  async close(): Promise<void> {
    this.#retiring.forEach(this.#timers.cancel);
    await Promise.all([...this.#held.values()].map(async ({ agent }) => await agent.destroy()));
  }
}
