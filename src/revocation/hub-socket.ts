/**
 * The wire between hubs and the processes behind them: WebSockets over mutual TLS. `ws` frames the messages and limits
 * their size; Node has no server for WebSockets of its own.
 */
import type { X509Certificate } from "node:crypto";
import { createServer as createHttpServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { WebSocket, WebSocketServer } from "ws";
import type { Clock, Timer, Timers } from "#domain/clock.ts";
import { findPaths } from "#http/mutual-tls/certificate-chain.ts";
import { type CertificateJudge, createCertificateJudge } from "#http/mutual-tls/certificate-judge.ts";
import { describeCertificate, hasPinnedName, pinnedNameCheck } from "#http/mutual-tls/client-certificate.ts";
import { presentedBy, readPeersFirst } from "#http/mutual-tls/peer-certificate.ts";
import { tlsContext } from "#http/mutual-tls/tls-listener.ts";
import type { TrustAnchors } from "#http/mutual-tls/trust.ts";
import type { Logger } from "#observability/logger.ts";
import { metrics } from "#observability/metrics.ts";
import { endUnused, type ListenAddress, listenOn } from "#runtime/http-server.ts";
import type { Hub } from "./hub.ts";
import {
  HUB_MESSAGE_MAX,
  HUB_PATH,
  type HubConnection,
  type OpenHubConnection,
  REQUEST_MAX,
} from "./hub-messages.ts";

/** Connections with one certificate, which several edges may have. A twentieth of what a hub takes in all. */
const CONNECTIONS_OF_ONE_MAX = 100;
/** Handshakes at once. Each takes 100 kB and a millisecond of a core. Others begin again soon. */
const HANDSHAKES_MAX = 32;
/** Timeout for TLS at a hub, in milliseconds. Processes end their attempts sooner (src/runtime/kept-connection.ts). */
const HANDSHAKE_MS = 3_000;
/** Pause between checks of the open connections, in milliseconds: certificates expire. */
const SWEEP_MS = 10_000;
const UNTRUSTED = "the hub's certificate is of no authority in SIGNET_HUB_CA_FILE any more";
const WRONG_NAME = "the hub's certificate has none of the names in SIGNET_HUB_NAMES";
const REFUSED = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/** Key material of one side, PEM, and what the other side must present. */
export interface HubTls {
  readonly key: string;
  readonly cert: string;
  /** The authorities of the other side. */
  readonly anchors: TrustAnchors;
  /** Permitted names, `DNS:…` or `URI:…`. */
  readonly names: readonly string[];
  /** Those of them that hubs behind this one have. */
  readonly relays: readonly string[];
}

/** `ws` masks a text in a buffer into one write with its header; a string would take two. */
const TEXT = { binary: false };

function contextOf({ key, cert, anchors }: HubTls) {
  return tlsContext({ key, cert, ca: anchors.pem });
}

/** Returns this side of a connection. @param relays names of the certificates of hubs; undefined in development */
function connectionOf(
  socket: WebSocket,
  { socket: wire }: IncomingMessage,
  relays?: readonly string[],
): HubConnection {
  const leaf = wire instanceof TLSSocket ? presentedBy(wire)?.leaf : undefined;
  return {
    certificate: leaf === undefined ? undefined : describeCertificate(leaf).thumbprint,
    relays: relays === undefined || leaf === undefined || hasPinnedName(leaf, relays),
    pause: (paused) => (paused ? socket.pause() : socket.resume()),
    send: (text) => socket.send(Buffer.from(text), TEXT),
    get backlog() {
      return socket.bufferedAmount;
    },
    ping: () => socket.ping(),
    close: () => socket.terminate(),
  };
}

/** Reads one text message; undefined for a binary one. */
function textOf(data: unknown, isBinary: boolean): string | undefined {
  return isBinary || !Buffer.isBuffer(data) ? undefined : data.toString("utf8");
}

/**
 * Returns a function that tells whether a hub is still to be heard. TLS has verified its certificate under the anchors of
 * the connection's start. Under other anchors, it must still have a path; else the next connection says why not.
 */
function createStillTrusted(
  tls: () => HubTls | undefined,
  started: HubTls | undefined,
): (wire: TLSSocket) => boolean {
  let under = started?.anchors;
  return (wire) => {
    const anchors = tls()?.anchors;
    if (anchors !== under && anchors !== undefined) {
      const presented = presentedBy(wire);
      if (
        presented === undefined ||
        findPaths({ ...presented, anchors: anchors.certificates }).length === 0
      ) {
        return false;
      }
      under = anchors;
    }
    return true;
  };
}

/**
 * Returns a function that connects to hubs. Its caller limits the time: `handshakeTimeout` of `ws` is a timeout of the
 * socket, which TLS starts again.
 *
 * @param tls undefined in development, for `ws:` URLs
 */
export function createHubOpener(tls: () => HubTls | undefined): OpenHubConnection {
  return async (url, handlers, signal) =>
    await new Promise((resolve, reject) => {
      const current = tls();
      const socket = new WebSocket(`${url}${HUB_PATH}`, {
        perMessageDeflate: false,
        maxPayload: HUB_MESSAGE_MAX,
        ...(current === undefined
          ? {}
          : // `ws` passes the check to `node:tls`, but declares another type for it.
            {
              ...contextOf(current),
              checkServerIdentity: pinnedNameCheck(current.names, WRONG_NAME) as never,
            }),
      });
      let failure: Error | undefined;
      const end = (): void => {
        failure ??= signal?.reason as Error;
        socket.terminate();
      };
      signal?.addEventListener("abort", end, { once: true });
      socket.once("open", () => signal?.removeEventListener("abort", end));
      socket.on("pong", () => handlers.onPong?.());
      // Precedes the event `open` in the same turn.
      socket.once("upgrade", (response) => {
        const { socket: wire } = response;
        const isTrusted = createStillTrusted(tls, current);
        socket.on("message", (data, isBinary) => {
          if (wire instanceof TLSSocket && !isTrusted(wire)) {
            failure = new Error(UNTRUSTED);
            socket.terminate();
            return;
          }
          handlers.onMessage(textOf(data, isBinary) ?? "");
        });
        socket.once("open", () => resolve(connectionOf(socket, response)));
      });
      socket.on("error", (error) => {
        failure ??= error;
        reject(failure);
      });
      socket.once("close", () => handlers.onClose(failure));
    });
}

export interface HubListenerOptions {
  readonly hub: Hub;
  readonly listen: ListenAddress;
  /** Undefined in development: plain `ws:`. */
  readonly tls: HubTls | undefined;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Logger;
}

function createHubServer(
  { tls, hub, log }: HubListenerOptions,
  isTrusted: (wire: Duplex) => boolean,
): Server | HttpsServer {
  if (tls === undefined) {
    const plain = createHttpServer();
    endUnused(plain);
    return plain;
  }
  const server = createHttpsServer({
    ...contextOf(tls),
    requestCert: true,
    // Judged below, by the same rules as everywhere.
    rejectUnauthorized: false,
    handshakeTimeout: HANDSHAKE_MS,
  });
  endUnused(server);
  readPeersFirst(server);
  server.prependListener("secureConnection", (wire) => {
    if (!isTrusted(wire)) {
      wire.destroy();
    }
  });
  limitConnections(server, hub, log);
  return server;
}

/**
 * Ends connections with one certificate beyond their limit, also those that never speak, and limits handshakes. One that
 * has been silent ends first.
 */
function limitConnections(server: HttpsServer, hub: Hub, log: Logger): void {
  const connections = new Map<string, number>();
  let secure = 0;
  const count = (change: number): void => {
    secure += change;
    server.maxConnections = secure + HANDSHAKES_MAX;
  };
  count(0);
  server.on("secureConnection", (socket) => {
    count(1);
    socket.once("close", () => count(-1));
    const leaf = presentedBy(socket)?.leaf;
    const certificate = leaf?.fingerprint256 ?? "";
    const known = connections.get(certificate) ?? 0;
    if (
      known >= CONNECTIONS_OF_ONE_MAX &&
      (leaf === undefined || !hub.giveWay(describeCertificate(leaf).thumbprint))
    ) {
      metrics.hubFaults.inc({ reason: "connections" });
      log.debug({ address: socket.remoteAddress }, "too many connections with one certificate");
      socket.destroy();
      return;
    }
    connections.set(certificate, known + 1);
    socket.once("close", () => {
      const left = (connections.get(certificate) ?? 1) - 1;
      if (left > 0) {
        connections.set(certificate, left);
      } else {
        connections.delete(certificate);
      }
    });
  });
}

/** Listens for the processes behind a hub. */
export class HubListener {
  readonly #options: HubListenerOptions;
  readonly #judge: CertificateJudge;
  readonly #server: Server | HttpsServer;
  readonly #wires = new Map<WebSocket, Duplex>();
  readonly #sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: REQUEST_MAX,
    clientTracking: true,
  });
  #tls: HubTls | undefined;
  #sweeping: Timer | undefined;

  constructor(options: HubListenerOptions) {
    this.#options = options;
    this.#tls = options.tls;
    this.#judge = createCertificateJudge(() => this.#tls?.anchors, options.clock);
    this.#server = createHubServer(options, (wire) => this.#leafOf(wire) !== undefined);
    this.#server.on("request", (_request, response) =>
      response.writeHead(426, { connection: "close" }).end(),
    );
    this.#server.on("upgrade", (request: IncomingMessage, stream: Duplex, head: Buffer) =>
      this.#upgrade(request, stream, head),
    );
  }

  /** Resolves with the address when it listens. */
  async listen(): Promise<ListenAddress> {
    const { listen, timers } = this.#options;
    const address = await listenOn(this.#server, listen);
    this.#sweeping = timers.every(SWEEP_MS, () => this.#sweep()).unref();
    return address;
  }

  /** Uses other key material for new connections, and ends those whose certificates it does not trust. */
  renew(tls: HubTls): void {
    this.#tls = tls;
    if ("setSecureContext" in this.#server) {
      this.#server.setSecureContext(contextOf(tls));
    }
    this.#sweep();
  }

  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#options.timers.cancel(this.#sweeping);
    for (const socket of this.#sockets.clients) {
      socket.terminate();
    }
    this.#server.closeAllConnections();
    await closed;
  }

  /** Returns the connection's certificate if it is trusted now. */
  #leafOf(wire: Duplex): X509Certificate | undefined {
    const found = this.#judge(wire instanceof TLSSocket ? presentedBy(wire) : undefined);
    return typeof found === "string" ? undefined : found.chain[0];
  }

  /** Whether the connection's certificate is trusted now, and has a permitted name. */
  #isPermitted(wire: Duplex): boolean {
    const leaf = this.#leafOf(wire);
    return this.#tls === undefined || (leaf !== undefined && hasPinnedName(leaf, this.#tls.names));
  }

  #upgrade(request: IncomingMessage, stream: Duplex, head: Buffer): void {
    const { hub, log } = this.#options;
    stream.on("error", () => stream.destroy());
    if (request.url !== HUB_PATH || !this.#isPermitted(stream)) {
      log.warn({ address: request.socket.remoteAddress }, "a connection to this hub was refused");
      stream.end(REFUSED);
      return;
    }
    this.#sockets.handleUpgrade(request, stream, head, (socket) => {
      const taken = hub.accept(connectionOf(socket, request, this.#tls?.relays));
      if (taken === undefined) {
        socket.terminate();
        return;
      }
      socket.on("message", (data, isBinary) => taken.onMessage(textOf(data, isBinary) ?? ""));
      socket.on("error", (error) => log.debug({ err: error }, "a connection to this hub failed"));
      this.#wires.set(socket, stream);
      socket.once("close", () => {
        this.#wires.delete(socket);
        taken.onClose();
      });
    });
  }

  #sweep(): void {
    for (const [socket, wire] of this.#wires) {
      if (!this.#isPermitted(wire)) {
        this.#options.log.warn("a connection to this hub ended: its certificate is not trusted any more");
        socket.terminate();
      }
    }
  }
}
