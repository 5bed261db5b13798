/** Connections to upstreams: kept from one route table to the next, closed when no table needs them any more. */
import type { PeerCertificate } from "node:tls";
import { Agent, type Dispatcher } from "undici";
import type { HeadCallback, Passage } from "./passage.ts";

/** Time that requests of an earlier table have to reach their connections, milliseconds. */
const RETIRE_AFTER_MS = 60_000;
/** Requests under way to one upstream; what is beyond waits. */
const CONNECTIONS_MAX = 512;
/** Upstreams close connections that rest; using one at that moment would fail a request. */
const KEEP_ALIVE_MS = 4_000;

/** Where a request to an upstream finds the way of its answer: the proxy's options have no place for it. */
export const PASSAGE = Symbol("passage");

/** Where and how to connect. What is equal shares connections. */
export interface Target {
  readonly origin: string;
  readonly connectTimeoutMs: number;
  /** From the last byte of the request to the last of the answer's headers. */
  readonly headersTimeoutMs: number;
  /** Between two pieces of the answer's body. */
  readonly idleTimeoutMs: number;
  /** Requests under way to it; 512. */
  readonly connections?: number;
  readonly tls?: TargetTls;
}

/** How TLS is spoken; without it, as https is spoken everywhere. */
export interface TargetTls {
  /** Authorities, PEM. */
  readonly ca: string;
  readonly key?: string;
  readonly cert?: string;
  /** In place of the usual check of names; returns what is wrong. */
  readonly checkServerIdentity?: (hostname: string, certificate: PeerCertificate) => Error | undefined;
}

/** What @fastify/http-proxy asks for connections. */
export interface UpstreamConnections {
  readonly request: Dispatcher["request"];
}

interface Held {
  readonly agent: Agent;
  readonly connections: UpstreamConnections;
}

/** What the proxy library calls, over these connections. Its requests carry a {@link PASSAGE}. */
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

/** An agent that speaks HTTP/1.1 and nothing else: one request at a time on a connection. */
export function createAgent(target: Omit<Target, "origin">): Agent {
  const { connectTimeoutMs, headersTimeoutMs, idleTimeoutMs, connections = CONNECTIONS_MAX, tls } = target;
  return new Agent({
    connections,
    pipelining: 1,
    allowH2: false,
    keepAliveTimeout: KEEP_ALIVE_MS,
    headersTimeout: headersTimeoutMs,
    bodyTimeout: idleTimeoutMs,
    connect: { timeout: connectTimeoutMs, ...tls },
  });
}

export class Dispatchers {
  readonly #held = new Map<string, Held>();
  readonly #retiring = new Set<NodeJS.Timeout>();

  /** Connections to a target. */
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

  /** Closes, in a while, the connections to all other targets. */
  retain(targets: readonly Target[]): void {
    const wanted = new Set(targets.map((target) => JSON.stringify(target)));
    for (const [key, { agent }] of this.#held) {
      if (!wanted.has(key)) {
        this.#held.delete(key);
        const timer = setTimeout(() => {
          this.#retiring.delete(timer);
          void agent.close();
        }, RETIRE_AFTER_MS).unref();
        this.#retiring.add(timer);
      }
    }
  }

  /** Ends every connection; requests under way fail. */
  async close(): Promise<void> {
    this.#retiring.forEach(clearTimeout);
    await Promise.all([...this.#held.values()].map(async ({ agent }) => await agent.destroy()));
  }
}
