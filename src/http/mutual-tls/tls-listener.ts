/** The additional listeners: TLS for clients or proxies, and a unix socket for a local proxy. */
import { constants } from "node:crypto";
import { chmod, rm } from "node:fs/promises";
import {
  createServer as createHttpServer,
  type RequestListener,
  type Server,
  type ServerOptions,
} from "node:http";
import { createServer as createHttpsServer, type Server as HttpsServer } from "node:https";
import type { Socket } from "node:net";
import { answerAll, endUnused } from "#runtime/http-server.ts";
import { limitPipelining } from "#runtime/pipelined-requests.ts";
import { readPeersFirst } from "./peer-certificate.ts";
import type { Timers } from "#domain/clock.ts";

/** Handshake timeout, in milliseconds: a slow handshake holds memory without sending anything. */
const HANDSHAKE_TIMEOUT_MS = 5_000;
/** Longer than the request timeout, shorter than the process's shutdown timeout. */
const CLOSE_TIMEOUT_MS = 12_000;
/**
 * The suites of TLS 1.3, and of TLS 1.2 those that RFC 9325 section 4.2 recommends: FAPI 2.0 permits no others. At this
 * level OpenSSL rejects SHA-1 and keys below 112 bits of security. It is not every Node's default.
 */
const CIPHERS = [
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_AES_128_GCM_SHA256",
  "ECDHE-ECDSA-AES128-GCM-SHA256",
  "ECDHE-RSA-AES128-GCM-SHA256",
  "ECDHE-ECDSA-AES256-GCM-SHA384",
  "ECDHE-RSA-AES256-GCM-SHA384",
  "@SECLEVEL=2",
].join(":");

/** The handlers that all listeners share, for requests and for malformed input. */
export interface ListenerHandler {
  readonly request: RequestListener;
  readonly clientError: (error: NodeJS.ErrnoException, socket: Socket) => void;
  readonly timeouts: ServerOptions & { readonly keepAliveTimeout: number };
  /** Time after which an idle connection is closed, in milliseconds; absent for no limit. */
  readonly idleTimeoutMs?: number;
}

/** The key material of a TLS listener, PEM. */
export interface TlsMaterial {
  readonly key: string;
  readonly cert: string;
  /** Authorities of the clients. */
  readonly ca: string;
}

/**
 * Creates a TLS server that requests a certificate but accepts any connection. Routes report a missing certificate in
 * JSON, since a reset would not explain itself (security decisions B).
 */
export function createTlsServer(material: TlsMaterial, handler: ListenerHandler): HttpsServer {
  const server = createHttpsServer(
    {
      ...handler.timeouts,
      ...tlsContext(material),
      requestCert: true,
      rejectUnauthorized: false,
      handshakeTimeout: HANDSHAKE_TIMEOUT_MS,
      ALPNProtocols: ["http/1.1"],
    },
    handler.request,
  );
  // After a failed handshake there is no HTTP to respond to.
  server.removeAllListeners("tlsClientError").on("tlsClientError", (_error, socket) => socket.destroy());
  server.on("clientError", handler.clientError);
  answerAll(server, handler.clientError);
  limitPipelining(server);
  endUnused(server);
  readPeersFirst(server);
  server.timeout = handler.idleTimeoutMs ?? 0;
  return server;
}

/**
 * Returns the options of a new TLS context. It has no session tickets: of a resumed session, Node shows the client's
 * certificate without the issuers, so its chain could not be judged again.
 */
export function tlsContext(material: TlsMaterial) {
  return {
    ...material,
    minVersion: "TLSv1.2",
    ciphers: CIPHERS,
    secureOptions: constants.SSL_OP_NO_TICKET,
  } as const;
}

/** Creates a plain HTTP server, for a unix socket or for development. */
export function createPlainServer(handler: ListenerHandler): Server {
  const server = createHttpServer(handler.timeouts, handler.request);
  server.on("clientError", handler.clientError);
  answerAll(server, handler.clientError);
  limitPipelining(server);
  endUnused(server);
  server.timeout = handler.idleTimeoutMs ?? 0;
  return server;
}

/** Listens on a unix socket for its owner and group. Replaces the socket of an earlier process. */
export async function listenOnSocket(server: Server, path: string): Promise<void> {
  await rm(path, { force: true });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(path, resolve);
  });
  await chmod(path, 0o660);
}

/** Closes the server after its running requests. */
export async function closeServer(server: Server | HttpsServer, timers: Timers): Promise<void> {
  const closed = new Promise<void>((resolve) => {
    server.close(() => resolve());
  });
  server.closeIdleConnections();
  // Node does not count a connection without a request as idle, and would wait for it forever.
  const timer = timers.after(CLOSE_TIMEOUT_MS, () => server.closeAllConnections());
  await closed;
  timers.cancel(timer);
}
