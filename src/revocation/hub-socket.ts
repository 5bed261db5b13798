/**
 * The wire between hubs and the processes behind them: WebSockets over mutual TLS. `ws` frames the messages and limits
 * their size; Node has no server for WebSockets of its own.
 */
import { createServer as createHttpServer, type IncomingMessage, type Server } from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { WebSocket, WebSocketServer } from "ws";
import {
  describeCertificate,
  hasPinnedName,
  pinnedNameCheck,
} from "../http/mutual-tls/client-certificate.ts";
import { tlsContext } from "../http/mutual-tls/tls-listener.ts";
import type { Logger } from "../observability/logger.ts";
import { metrics } from "../observability/metrics.ts";
import { endUnused, type ListenAddress, listenOn } from "../runtime/http-server.ts";
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
const HANDSHAKES_MAX = 64;
/** Timeout for TLS and the upgrade, in milliseconds. */
const HANDSHAKE_MS = 3_000;
const WRONG_NAME = "the hub's certificate has none of the names in SIGNET_HUB_NAMES";
const REFUSED = "HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/** Key material of one side, PEM, and what the other side must present. */
export interface HubTls {
  readonly key: string;
  readonly cert: string;
  readonly ca: string;
  /** Permitted names, `DNS:…` or `URI:…`. */
  readonly names: readonly string[];
  /** Those of them that hubs behind this one have. */
  readonly relays: readonly string[];
}

/** `ws` masks a text in a buffer into one write with its header; a string would take two. */
const TEXT = { binary: false };

/** Returns this side of a connection. @param relays names of the certificates of hubs; undefined in development */
function connectionOf(
  socket: WebSocket,
  { socket: wire }: IncomingMessage,
  relays?: readonly string[],
): HubConnection {
  const certificate = wire instanceof TLSSocket ? wire.getPeerX509Certificate() : undefined;
  return {
    certificate: certificate === undefined ? undefined : describeCertificate(certificate).thumbprint,
    relays: relays === undefined || certificate === undefined || hasPinnedName(certificate, relays),
    pause: (paused) => (paused ? socket.pause() : socket.resume()),
    send: (text) => socket.send(Buffer.from(text), TEXT),
    get backlog() {
      return socket.bufferedAmount;
    },
    close: () => socket.terminate(),
  };
}

/** Reads one text message; undefined for a binary one. */
function textOf(data: unknown, isBinary: boolean): string | undefined {
  return isBinary || !Buffer.isBuffer(data) ? undefined : data.toString("utf8");
}

/** Returns a function that connects to hubs. @param tls undefined in development, for `ws:` URLs */
export function createHubOpener(tls: () => HubTls | undefined): OpenHubConnection {
  return async (url, handlers) =>
    await new Promise((resolve, reject) => {
      const current = tls();
      const socket = new WebSocket(`${url}${HUB_PATH}`, {
        perMessageDeflate: false,
        maxPayload: HUB_MESSAGE_MAX,
        handshakeTimeout: HANDSHAKE_MS,
        ...(current === undefined
          ? {}
          : // `ws` passes the check to `node:tls`, but declares another type for it.
            {
              ...tlsContext(current),
              checkServerIdentity: pinnedNameCheck(current.names, WRONG_NAME) as never,
            }),
      });
      let failure: Error | undefined;
      socket.on("message", (data, isBinary) => handlers.onMessage(textOf(data, isBinary) ?? ""));
      // Precedes the event `open` in the same turn.
      socket.once("upgrade", (response) => {
        socket.once("open", () => resolve(connectionOf(socket, response)));
      });
      socket.on("error", (error) => {
        failure = error;
        reject(error);
      });
      socket.once("close", () => handlers.onClose(failure));
    });
}

export interface HubListenerOptions {
  readonly hub: Hub;
  readonly listen: ListenAddress;
  /** Undefined in development: plain `ws:`. */
  readonly tls: HubTls | undefined;
  readonly log: Logger;
}

export interface HubListener {
  readonly address: ListenAddress;
  /** Uses other key material for new connections. */
  renew(tls: HubTls): void;
  close(): Promise<void>;
}

function isPermitted(request: IncomingMessage, names: readonly string[] | undefined): boolean {
  if (names === undefined) {
    return true;
  }
  const certificate = (request.socket as TLSSocket).getPeerX509Certificate();
  return certificate !== undefined && hasPinnedName(certificate, names);
}

/** Ends connections with one certificate beyond their limit, also those that never speak, and limits handshakes. */
function limitConnections(server: HttpsServer, log: Logger): void {
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
    const certificate = socket.getPeerX509Certificate()?.fingerprint256 ?? "";
    const known = connections.get(certificate) ?? 0;
    if (known >= CONNECTIONS_OF_ONE_MAX) {
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
export async function listenForFollowers({
  hub,
  listen,
  tls,
  log,
}: HubListenerOptions): Promise<HubListener> {
  let current = tls;
  const server: Server | HttpsServer =
    tls === undefined
      ? createHttpServer()
      : createHttpsServer({
          ...tlsContext(tls),
          requestCert: true,
          rejectUnauthorized: true,
          handshakeTimeout: HANDSHAKE_MS,
        });
  if ("setSecureContext" in server) {
    limitConnections(server, log);
  }
  const sockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: false,
    maxPayload: REQUEST_MAX,
    clientTracking: true,
  });
  server.on("request", (_request, response) => response.writeHead(426, { connection: "close" }).end());
  server.on("upgrade", (request: IncomingMessage, stream: Duplex, head: Buffer) => {
    stream.on("error", () => stream.destroy());
    if (request.url !== HUB_PATH || !isPermitted(request, current?.names)) {
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
      socket.once("close", () => taken.onClose());
    });
  });
  endUnused(server);
  const address = await listenOn(server, listen);
  return {
    address,
    renew: (renewed) => {
      current = renewed;
      if ("setSecureContext" in server) {
        server.setSecureContext(tlsContext(renewed));
      }
    },
    close: async () => {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      for (const socket of sockets.clients) {
        socket.terminate();
      }
      server.closeAllConnections();
      await closed;
    },
  };
}
