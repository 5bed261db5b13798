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
import type { Clock, Timers } from "#domain/clock.ts";
import { findPaths } from "#http/mutual-tls/certificate-chain.ts";
import { createCertificateJudge } from "#http/mutual-tls/certificate-judge.ts";
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

export interface HubListener {
  readonly address: ListenAddress;
  /** Uses other key material for new connections, and ends those whose certificates it does not trust. */
  renew(tls: HubTls): void;
  close(): Promise<void>;
}

interface Permission {
  /** Whether the connection's certificate is trusted now. */
  isTrusted(wire: Duplex): boolean;
  /** Whether it also has a permitted name. */
  isPermitted(wire: Duplex): boolean;
}

function createPermission(tls: () => HubTls | undefined, clock: Clock): Permission {
  const judge = createCertificateJudge(() => tls()?.anchors, clock);
  const leafOf = (wire: Duplex): X509Certificate | undefined => {
    const found = judge(wire instanceof TLSSocket ? presentedBy(wire) : undefined);
    return typeof found === "string" ? undefined : found.chain[0];
  };
  return {
    isTrusted: (wire) => leafOf(wire) !== undefined,
    isPermitted: (wire) => {
      const current = tls();
      const leaf = leafOf(wire);
      return current === undefined || (leaf !== undefined && hasPinnedName(leaf, current.names));
    },
  };
}

function createHubServer(
  { tls, hub, log }: HubListenerOptions,
  permission: Permission,
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
    if (!permission.isTrusted(wire)) {
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
export async function listenForFollowers(options: HubListenerOptions): Promise<HubListener> {
  const { hub, listen, tls, clock, timers, log } = options;
  let current = tls;
  const permission = createPermission(() => current, clock);
  const server = createHubServer(options, permission);
  const wires = new Map<WebSocket, Duplex>();
  const sweep = (): void => {
    for (const [socket, wire] of wires) {
      if (!permission.isPermitted(wire)) {
        log.warn("a connection to this hub ended: its certificate is not trusted any more");
        socket.terminate();
      }
    }
  };
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: REQUEST_MAX,
    clientTracking: true,
  });
  server.on("request", (_request, response) => response.writeHead(426, { connection: "close" }).end());
  server.on("upgrade", (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    stream.on("error", () => stream.destroy());
    if (request.url !== HUB_PATH || !permission.isPermitted(stream)) {
      log.warn({ address: request.socket.remoteAddress }, "a connection to this hub was refused");
      stream.end(REFUSED);
      return;
    }
    sockets.handleUpgrade(request, stream, head, (socket) => {
      const taken = hub.accept(connectionOf(socket, request, current?.relays));
      if (taken === undefined) {
        socket.terminate();
        return;
      }
      socket.on("message", (data, isBinary) => taken.onMessage(textOf(data, isBinary) ?? ""));
      socket.on("error", (error) => log.debug({ err: error }, "a connection to this hub failed"));
      wires.set(socket, stream);
      socket.once("close", () => {
        wires.delete(socket);
        taken.onClose();
      });
    });
  });
  const address = await listenOn(server, listen);
  const sweeping = timers.every(SWEEP_MS, sweep).unref();
  return {
    address,
    renew: (renewed) => {
      current = renewed;
      if ("setSecureContext" in server) {
        server.setSecureContext(contextOf(renewed));
      }
      sweep();
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      timers.cancel(sweeping);
      for (const socket of sockets.clients) {
        socket.terminate();
      }
      server.closeAllConnections();
      await closed;
    },
  };
}
